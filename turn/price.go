package turn

import (
	"strings"

	"agentstateloop/state"
)

// Price is what a model costs, in dollars for a million tokens.
type Price struct {
	Input, Output, CacheRead, CacheWrite float64
}

// Prices are prices by model.
type Prices map[string]Price

// BuiltIn are the list prices of the providers as they were in the first half of
// 2026. A cache is written at the price of the five minutes it lives by
// default; where writing it costs nothing extra, that is the price of the input.
func BuiltIn() Prices {
	return Prices{
		"gpt-4o":       {2.50, 10, 1.25, 2.50},
		"gpt-4o-mini":  {0.15, 0.60, 0.075, 0.15},
		"gpt-4.1":      {2, 8, 0.50, 2},
		"gpt-4.1-mini": {0.40, 1.60, 0.10, 0.40},
		"gpt-4.1-nano": {0.10, 0.40, 0.025, 0.10},
		"gpt-5":        {1.25, 10, 0.125, 1.25},
		"gpt-5-mini":   {0.25, 2, 0.025, 0.25},
		"gpt-5-nano":   {0.05, 0.40, 0.005, 0.05},
		"gpt-5.1":      {1.25, 10, 0.125, 1.25},
		"gpt-5.2":      {1.75, 14, 0.175, 1.75},
		"o1":           {15, 60, 7.50, 15},
		"o3":           {2, 8, 0.50, 2},
		"o3-mini":      {1.10, 4.40, 0.55, 1.10},
		"o4-mini":      {1.10, 4.40, 0.275, 1.10},

		"claude-sonnet-4-5": {3, 15, 0.30, 3.75},
		"claude-haiku-4-5":  {1, 5, 0.10, 1.25},
		"claude-opus-4-5":   {5, 25, 0.50, 6.25},
		"claude-opus-4-1":   {15, 75, 1.50, 18.75},

		// For prompts of up to 200,000 tokens.
		"gemini-2.5-pro":        {1.25, 10, 0.125, 1.25},
		"gemini-2.5-flash":      {0.30, 2.50, 0.03, 0.30},
		"gemini-2.5-flash-lite": {0.10, 0.40, 0.01, 0.10},
	}
}

// Times are the prices, each multiplied.
func (p Prices) Times(by float64) Prices {
	times := Prices{}
	for model, price := range p {
		times[model] = Price{price.Input * by, price.Output * by, price.CacheRead * by, price.CacheWrite * by}
	}
	return times
}

// Cost is what tokens cost of a model. Where no price of it is known, it is
// what the dearest known model would have cost for them.
func (p Prices) Cost(model string, t state.Tokens) (cost state.Micros, known bool) {
	if price, ok := p.find(model); ok {
		return price.cost(t), true
	}
	for _, price := range p {
		cost = max(cost, price.cost(t))
	}
	return cost, false
}

// find gives the price of a model under its own name, without the vendor's in
// front ("openai/gpt-4o"), or of the model that it is an edition of: the
// longest name of which only a date or a number is left over
// ("claude-sonnet-4-5-20250929"). What goes on in words is another model, and
// may well be a much dearer one ("gpt-5-pro").
func (p Prices) find(model string) (Price, bool) {
	if price, ok := p[model]; ok {
		return price, true
	}
	_, model = cutLast(model, "/")
	for name := model; ; {
		if price, ok := p[name]; ok {
			return price, true
		}
		i := strings.LastIndexByte(name, '-')
		if i < 0 || !edition(name[i+1:]) {
			return Price{}, false
		}
		name = name[:i]
	}
}

// edition says whether a part of a model's name tells only which edition of
// the model it is.
func edition(part string) bool {
	return part == "latest" || part != "" && strings.Trim(part, "0123456789") == ""
}

// cutLast is strings.Cut at the last sep; without one, all comes after.
func cutLast(s, sep string) (before, after string) {
	if i := strings.LastIndex(s, sep); i >= 0 {
		return s[:i], s[i+len(sep):]
	}
	return "", s
}

// cost is that of the tokens: a dollar for a million is a millionth for one. A
// count below nothing takes nothing off the others, and what is more than any
// money is the most that one spending can be.
func (p Price) cost(t state.Tokens) state.Micros {
	part := func(price float64, n int64) float64 { return price * float64(max(0, n)) }
	usd := (part(p.Input, t.Input) + part(p.Output, t.Output) +
		part(p.CacheRead, t.CacheRead) + part(p.CacheWrite, t.CacheWrite)) / float64(state.Dollar)
	cost, ok := state.Dollars(usd)
	if !ok {
		return state.MostSpent
	}
	return cost
}
