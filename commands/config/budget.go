package config

import (
	"math"
	"slices"

	"github.com/BurntSushi/toml"

	"agentstateloop/state"
	"agentstateloop/turn"
)

// Limits on the values. A larger value is surely a typing error.
const (
	maxBudget     = 1_000_000 // dollars
	maxPrice      = 10_000    // dollars per million tokens
	maxMultiplier = 100
	maxMails      = 100_000 // an hour
)

// wireBudget returns the limits of [budget].
func wireBudget(c *Config) (state.Budget, error) {
	b := state.Budget{HasCredit: c.Has("budget.credit_usd")}
	s := c.File.Budget
	for _, amount := range []struct {
		key   string
		usd   float64
		into  *state.Micros
		limit bool // a value of 0 would allow no turn
	}{
		{"budget.credit_usd", s.CreditUSD, &b.Credit, false},
		{"budget.day_usd", s.DayUSD, &b.Day, true},
		{"budget.turn_usd", s.TurnUSD, &b.Turn, true},
		{"budget.low_usd", s.LowUSD, &b.Low, false},
		{"budget.critical_usd", s.CriticalUSD, &b.Critical, false},
	} {
		micros, ok := state.Dollars(amount.usd)
		if !ok || amount.usd > maxBudget {
			return b, c.Wrong(amount.key, "%v is not an amount from 0 to %d dollars", amount.usd, maxBudget)
		}
		if amount.limit && micros == 0 && c.Has(amount.key) {
			return b, c.At(dotted(amount.key), "remove it for no limit, or use `agentstateloop halt`", "a limit of 0 allows no turn")
		}
		*amount.into = micros
	}
	if n := s.MailsAnHour; n < 0 || n > maxMails {
		return b, c.At(dotted("budget.mails_an_hour"), "0 means no limit", "%d is not a number of mails from 0 to %d", n, maxMails)
	}
	if n := s.EventsAnHour; n < 0 || n > maxMails {
		return b, c.At(dotted("budget.events_an_hour"), "0 means no limit", "%d is not a number of messages from 0 to %d", n, maxMails)
	}
	if b.Critical > b.Low {
		key := "budget.critical_usd"
		if !c.Has(key) {
			key = "budget.low_usd"
		}
		return b, c.Wrong(key, "critical_usd (%v) is higher than low_usd (%v)", b.Critical, b.Low)
	}
	return b, nil
}

// wirePrices returns the prices of [prices], and the built-in prices of all other models. It
// multiplies all prices by budget.multiplier.
func wirePrices(c *Config) (turn.Prices, error) {
	multiplier := c.File.Budget.Multiplier
	if !(multiplier > 0 && multiplier <= maxMultiplier) {
		return turn.Prices{}, c.Wrong("budget.multiplier", "%v is not a factor above 0 and at most %d", multiplier, maxMultiplier)
	}
	own := map[string]turn.Price{}
	for model, s := range c.File.Prices {
		price, err := c.price(model, s)
		if err != nil {
			return turn.Prices{}, err
		}
		own[model] = price
	}
	return turn.NewPrices(own, multiplier), nil
}

// price returns the price of one model. A missing cache price equals the input price.
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
			return p, c.At(key(), "set it in dollars per million tokens, such as 2.50", "%s is missing", part.leaf)
		case !set:
			*part.into = p.Input
		case math.IsNaN(*part.into) || *part.into < 0 || *part.into > maxPrice:
			return p, c.At(key(part.leaf), "", "%v is not a price from 0 to %d dollars per million tokens", *part.into, maxPrice)
		}
	}
	return p, nil
}
