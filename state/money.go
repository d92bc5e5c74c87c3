package state

import (
	"fmt"
	"math"
)

// Micros is money, in millionths of a US dollar.
type Micros int64

// Dollar is one US dollar.
const Dollar Micros = 1_000_000

// maxMoney bounds every sum to a thousand million dollars, so that it cannot overflow.
const maxMoney = 1_000_000_000 * Dollar

// Dollars converts an amount in dollars and rounds up to a millionth. It returns
// false for an invalid amount: negative, not a number, or more than a thousand
// million.
func Dollars(usd float64) (Micros, bool) {
	if math.IsNaN(usd) || usd < 0 || usd > float64(maxMoney/Dollar) {
		return 0, false
	}
	// The rounding error of a float must not cost a millionth more.
	return Micros(math.Ceil(math.Round(usd*1e9) / 1e3)), true
}

// USD returns the amount in dollars.
func (m Micros) USD() float64 { return float64(m) / float64(Dollar) }

// fourPlaces is the smallest amount that String writes with four places.
const fourPlaces Micros = 100

// String returns dollars and cents. An amount below a dollar that is not whole cents has four or
// six places: "$1.25", "$0.0421".
func (m Micros) String() string {
	sign, abs := "", m
	if m < 0 {
		sign, abs = "-", -m
	}
	places := 2
	switch {
	case abs >= Dollar || abs%10_000 == 0:
	case abs >= fourPlaces:
		places = 4
	default:
		places = 6
	}
	return fmt.Sprintf("%s$%.*f", sign, places, abs.USD())
}

// plus adds within bounds. Negative amounts count as 0, because spent money never comes back.
func (m Micros) plus(n Micros) Micros { return min(maxMoney, max(0, m)+min(maxMoney, max(0, n))) }
