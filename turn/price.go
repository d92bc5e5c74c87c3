package turn

import (
	"maps"
	"strings"
	"sync"

	"agentstateloop/state"
)

// Price is the price of a model, in dollars per million tokens.
type Price struct {
	Input      float64 `toml:"input"`
	Output     float64 `toml:"output"`
	CacheRead  float64 `toml:"cache_read"`
	CacheWrite float64 `toml:"cache_write"`
}

// Prices are prices by model. The zero Prices is empty.
type Prices struct {
	byModel func() map[string]Price
}

// NewPrices returns the prices of models.toml, overridden by those of own, all multiplied by
// factor.
func NewPrices(own map[string]Price, factor float64) Prices {
	return Prices{sync.OnceValue(func() map[string]Price {
		all := maps.Clone(models().Prices)
		maps.Copy(all, own)
		for model, p := range all {
			all[model] = Price{p.Input * factor, p.Output * factor, p.CacheRead * factor, p.CacheWrite * factor}
		}
		return all
	})}
}

func (p Prices) all() map[string]Price {
	if p.byModel == nil {
		return nil
	}
	return p.byModel()
}

// Of returns the price of a model. It looks for the model's own name, then for the name without
// the vendor in front ("openai/gpt-4o"), then for the longest name that lacks only dates, numbers
// or "latest" at the end ("claude-sonnet-4-5-20250929"). A name with other words at the end is
// another model, perhaps a much more expensive one ("gpt-5-pro").
func (p Prices) Of(model string) (price Price, known bool) {
	all := p.all()
	if price, ok := all[model]; ok {
		return price, true
	}
	model = model[strings.LastIndexByte(model, '/')+1:]
	for name := model; ; {
		if price, ok := all[name]; ok {
			return price, true
		}
		i := strings.LastIndexByte(name, '-')
		if i < 0 || !edition(name[i+1:]) {
			return Price{}, false
		}
		name = name[:i]
	}
}

// edition reports whether a part of a model's name names only an edition of the model.
func edition(part string) bool {
	return part == "latest" || part != "" && strings.Trim(part, "0123456789") == ""
}

// Cost returns the cost of tokens of a model. For a model without a known price it uses the
// prices of the most expensive known model.
func (p Prices) Cost(model string, t state.Tokens) (cost state.Micros, known bool) {
	if price, ok := p.Of(model); ok {
		return price.cost(t), true
	}
	for _, price := range p.all() {
		cost = max(cost, price.cost(t))
	}
	return cost, false
}

// cost returns the cost of the tokens: a dollar per million tokens is a micro-dollar per token. A
// negative count costs zero. A sum that is too large becomes state.MaxSpent.
func (p Price) cost(t state.Tokens) state.Micros {
	part := func(price float64, n int64) float64 { return price * float64(max(0, n)) }
	usd := (part(p.Input, t.Input) + part(p.Output, t.Output) +
		part(p.CacheRead, t.CacheRead) + part(p.CacheWrite, t.CacheWrite)) / float64(state.Dollar)
	cost, ok := state.Dollars(usd)
	if !ok {
		return state.MaxSpent
	}
	return cost
}
