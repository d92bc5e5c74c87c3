package state

import (
	"cmp"
	"fmt"
	"math"
	"time"
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

// Tier describes what the agent can afford. It does not depend on the phase, only on the money left
// (docs/design.md, "Costs").
type Tier string

// The tiers, by the money left.
const (
	TierNormal   Tier = "normal"
	TierLow      Tier = "low_compute" // turns use a cheaper model
	TierCritical Tier = "critical"    // only the operator's messages get turns
	TierDead     Tier = "dead"        // no turns; polling goes on
)

// ParseTier parses a tier.
func ParseTier(s string) (Tier, error) {
	switch t := Tier(s); t {
	case TierNormal, TierLow, TierCritical, TierDead:
		return t, nil
	}
	return "", fmt.Errorf("%q is not a tier: use normal, low_compute, critical or dead", s)
}

// Budget limits the cost of turns. The zero value sets no limit.
type Budget struct {
	// Credit is the amount that the agent starts with; top-ups are added to it. Without HasCredit
	// the balance is unknown, and the credit is not a limit.
	HasCredit bool
	Credit    Micros

	Day  Micros // for each local day; 0 means no limit
	Turn Micros // for each turn, all its attempts together; 0 means no limit

	Low, Critical Micros // the tiers that begin when less than this is left
}

// Limit is a budget that limits turns: the credit, or the budget of a day.
type Limit struct {
	Left Micros // negative if a call cost more than was left
	Of   Micros // the original amount
	Day  string // "" for the credit
}

// What names the limit: "the credit of $5.00".
func (l Limit) What() string {
	if l.Day == "" {
		return fmt.Sprintf("the credit of %v", l.Of)
	}
	return fmt.Sprintf("the budget of %v for %s", l.Of, l.Day)
}

// Remedy says how long an agent rests after it has used the limit up.
func (l Limit) Remedy() string {
	if l.Day == "" {
		return "until it is topped up: `agentstateloop credit 5` adds five dollars"
	}
	return "until the next day begins, or day_usd in [budget] is raised"
}

// death returns a name for the event that the limit is used up. The operator is told about each
// death once.
func (l Limit) death() string { return fmt.Sprintf("%s %d", cmp.Or(l.Day, "credit"), l.Of) }

// Tightest returns the limit with the least money left. limited is false if no budget is set; then
// the balance is unknown.
func (s State) Tightest(p Policy, now time.Time) (tightest Limit, limited bool) {
	if left, known := s.Balance(p); known {
		tightest, limited = Limit{Left: left, Of: p.Budget.Credit.plus(s.Purse.Granted)}, true
	}
	if of := p.Budget.Day; of > 0 {
		today, _ := s.SpentOn(p, now)
		if left := of - today; !limited || left < tightest.Left {
			tightest, limited = Limit{Left: left, Of: of, Day: p.Day(now)}, true
		}
	}
	return tightest, limited
}

// Balance returns the rest of the credit: the configured amount and the top-ups, minus the spending
// since a credit was first configured. known is false if no credit is configured.
func (s State) Balance(p Policy) (left Micros, known bool) {
	if !p.Budget.HasCredit {
		return 0, false
	}
	base := s.Purse.Base
	if !s.Purse.Opened {
		base = s.Purse.Total // no step has opened it yet
	}
	return p.Budget.Credit.plus(s.Purse.Granted) - max(0, s.Purse.Total-base), true
}

// Left returns how much may still be spent today, at least 0.
func (s State) Left(p Policy, now time.Time) (left Micros, limited bool) {
	l, limited := s.Tightest(p, now)
	return max(0, l.Left), limited
}

// Tier returns the tier of the agent at now.
func (s State) Tier(p Policy, now time.Time) Tier {
	l, limited := s.Tightest(p, now)
	switch {
	case !limited:
		return TierNormal
	case l.Left <= 0:
		return TierDead
	case l.Left < p.Budget.Critical:
		return TierCritical
	case l.Left < p.Budget.Low:
		return TierLow
	}
	return TierNormal
}

// allows reports whether a message gets a turn in this tier.
func (t Tier) allows(msg Message) bool {
	switch t {
	case TierDead:
		return false
	case TierCritical:
		return msg.Operator && !msg.waitsByClock()
	}
	return true
}

// recordTier records a change of the tier in the history. The operator is told about each death
// once, even if the clock jumps back and forth over it.
func (m *machine) recordTier() {
	tier := m.State.Tier(m.policy, m.now)
	before := m.Purse.Tier
	if before == "" {
		before = TierNormal
	}
	if tier == before {
		return
	}
	l, limited := m.Tightest(m.policy, m.now)
	reason := "no limit is set any more"
	if limited {
		reason = fmt.Sprintf("%v is left of %s", max(0, l.Left), l.What())
	}
	m.Purse.Tier = tier
	m.line(Line{Kind: LineTier, What: Word(tier), From: string(before), Reason: reason})
	if tier != TierDead || m.Purse.DeathTold == l.death() {
		return
	}
	m.Purse.DeathTold = l.death()
	m.notice("I am out of money: " + l.What() + " is used up. I run no turns " + l.Remedy() + ". I still read your messages; they wait.")
}
