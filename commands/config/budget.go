package config

import (
	"math"
	"slices"

	"github.com/BurntSushi/toml"

	"agentstateloop/state"
	"agentstateloop/turn"
)

// Larger values are taken for slips.
const (
	mostBudget     = 1_000_000 // dollars
	mostPrice      = 10_000    // dollars for a million tokens
	mostMultiplier = 100
)

// wireBudget wires [budget]: what turns may cost.
func wireBudget(c *Config) (state.Budget, error) {
	b := state.Budget{HasCredit: c.Has("budget.credit_usd")}
	s := c.File.Budget
	for _, amount := range []struct {
		key   string
		usd   float64
		into  *state.Micros
		limit bool // 0 would let nothing run
	}{
		{"budget.credit_usd", s.CreditUSD, &b.Credit, false},
		{"budget.day_usd", s.DayUSD, &b.Day, true},
		{"budget.turn_usd", s.TurnUSD, &b.Turn, true},
		{"budget.low_usd", s.LowUSD, &b.Low, false},
		{"budget.critical_usd", s.CriticalUSD, &b.Critical, false},
	} {
		micros, ok := state.Dollars(amount.usd)
		if !ok || amount.usd > mostBudget {
			return b, c.Wrong(amount.key, "%v is not an amount in dollars, from 0 to a million", amount.usd)
		}
		if amount.limit && micros == 0 && c.Has(amount.key) {
			return b, c.Wrong(amount.key, "0 would let nothing run: leave it out for no limit, or use `agentstateloop halt`")
		}
		*amount.into = micros
	}
	if b.Critical > b.Low {
		key := "budget.critical_usd"
		if !c.Has(key) {
			key = "budget.low_usd"
		}
		return b, c.Wrong(key, "critical_usd (%v) must not be above low_usd (%v)", b.Critical, b.Low)
	}
	return b, nil
}

// wirePrices returns the built-in prices, replaced by those of [prices], all
// multiplied by budget.multiplier.
func wirePrices(c *Config) (turn.Prices, error) {
	by := c.File.Budget.Multiplier
	if !(by > 0 && by <= mostMultiplier) {
		return turn.Prices{}, c.Wrong("budget.multiplier", "%v is not a factor for prices, above 0 and at most %d", by, mostMultiplier)
	}
	own := map[string]turn.Price{}
	for model, s := range c.File.Prices {
		price, err := c.price(model, s)
		if err != nil {
			return turn.Prices{}, err
		}
		own[model] = price
	}
	return turn.NewPrices(own, by), nil
}

// price reads the price of one model. The cache costs what input costs, unless it
// has its own price.
func (c *Config) price(model string, s priceSection) (turn.Price, error) {
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
			return p, c.At(key(), "", "%s is missing: dollars for a million tokens, such as 2.50", part.leaf)
		case !set:
			*part.into = p.Input
		case math.IsNaN(*part.into) || *part.into < 0 || *part.into > mostPrice:
			return p, c.At(key(part.leaf), "", "%v is not a price in dollars for a million tokens, from 0 to %d", *part.into, mostPrice)
		}
	}
	return p, nil
}
