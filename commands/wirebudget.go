package commands

import (
	"math"
	"slices"

	"github.com/BurntSushi/toml"

	"agentstateloop/state"
	"agentstateloop/turn"
)

// What is taken for a slip of the pen.
const (
	mostBudget     = 1_000_000 // dollars
	mostPrice      = 10_000    // dollars for a million tokens
	mostMultiplier = 100
)

// wireBudget reads [budget]: what turns may cost.
func wireBudget(c *config) (state.Budget, error) {
	b := state.Budget{HasCredit: c.has("budget.credit_usd")}
	s := c.file.Budget
	for _, amount := range []struct {
		key   string
		usd   float64
		into  *state.Micros
		limit bool // nothing at all would run under 0
	}{
		{"budget.credit_usd", s.CreditUSD, &b.Credit, false},
		{"budget.day_usd", s.DayUSD, &b.Day, true},
		{"budget.turn_usd", s.TurnUSD, &b.Turn, true},
		{"budget.low_usd", s.LowUSD, &b.Low, false},
		{"budget.critical_usd", s.CriticalUSD, &b.Critical, false},
	} {
		micros, ok := state.Dollars(amount.usd)
		if !ok || amount.usd > mostBudget {
			return b, c.wrong(amount.key, "%v is no amount in dollars: 0 to a million is wanted", amount.usd)
		}
		if amount.limit && micros == 0 && c.has(amount.key) {
			return b, c.wrong(amount.key, "0 would let nothing run: leave it out for no limit, or set HALT")
		}
		*amount.into = micros
	}
	if b.Critical > b.Low {
		key := "budget.critical_usd"
		if !c.has(key) {
			key = "budget.low_usd"
		}
		return b, c.wrong(key, "critical_usd (%v) must not be above low_usd (%v): the tiers follow each other downwards", b.Critical, b.Low)
	}
	return b, nil
}

// wirePrices returns the built-in prices with those of [prices] in their place,
// all multiplied.
func wirePrices(c *config) (turn.Prices, error) {
	by := c.file.Budget.Multiplier
	if !(by > 0 && by <= mostMultiplier) {
		return turn.Prices{}, c.wrong("budget.multiplier", "%v is no factor for prices: more than 0 and at most %d is wanted", by, mostMultiplier)
	}
	own := map[string]turn.Price{}
	for model, s := range c.file.Prices {
		price, err := c.price(model, s)
		if err != nil {
			return turn.Prices{}, err
		}
		own[model] = price
	}
	return turn.NewPrices(own, by), nil
}

// price reads the price of one model. A cache costs what input does, unless it
// has a price of its own.
func (c *config) price(model string, s priceSection) (turn.Price, error) {
	p := turn.Price{Input: s.Input, Output: s.Output, CacheRead: s.CacheRead, CacheWrite: s.CacheWrite}
	key := func(leaf ...string) toml.Key { return slices.Concat(toml.Key{"prices", model}, leaf) }
	for _, part := range []struct {
		leaf   string
		into   *float64
		needed bool
	}{
		{"input", &p.Input, true},
		{"output", &p.Output, true},
		{"cache_read", &p.CacheRead, false},
		{"cache_write", &p.CacheWrite, false},
	} {
		switch set := c.meta.IsDefined(key(part.leaf)...); {
		case !set && part.needed:
			return p, c.at(key(), "", "%s is missing: dollars for a million tokens, such as 2.50", part.leaf)
		case !set:
			*part.into = p.Input
		case math.IsNaN(*part.into) || *part.into < 0 || *part.into > mostPrice:
			return p, c.at(key(part.leaf), "", "%v is no price in dollars for a million tokens: 0 to %d is wanted", *part.into, mostPrice)
		}
	}
	return p, nil
}
