package turn

import (
	"testing"

	"agentstateloop/state"
)

func TestCostOfModels(t *testing.T) {
	own := map[string]Price{"llama3": {Input: 0.10, Output: 0.20}}
	prices := NewPrices(own, 1)
	million := state.Tokens{Input: 1_000_000}
	for _, test := range []struct {
		model  string
		tokens state.Tokens
		want   state.Micros
		known  bool
	}{
		{"gpt-4o", million, 2_500_000, true},
		{"gpt-4o-2024-08-06", million, 2_500_000, true},
		{"gpt-4o-mini-2024-07-18", million, 150_000, true},
		{"gpt-4.1-nano-2025-04-14", million, 100_000, true},
		{"claude-sonnet-4-5-20250929", million, 3_000_000, true},
		{"claude-haiku-4-5-latest", million, 1_000_000, true},
		{"openai/o3-mini", million, 1_100_000, true},
		{"o1-2024-12-17", million, 15_000_000, true},
		{"llama3", million, 100_000, true},

		{"claude-sonnet-4-5", state.Tokens{Input: 1000, Output: 200, CacheRead: 10_000, CacheWrite: 400}, 3000 + 3000 + 3000 + 1500, true},
		{"gpt-4.1-nano", state.Tokens{Input: 1}, 1, true}, // a part of a millionth counts whole
		{"gpt-4o", state.Tokens{}, 0, true},
		{"gpt-4o", state.Tokens{Input: -5}, 0, true},

		// Another model of a family is unknown. These are more expensive.
		{"gpt-5-pro", million, 15_000_000, false},
		{"gpt-4", million, 15_000_000, false},
		{"o1-pro", state.Tokens{Output: 1_000_000}, 75_000_000, false},
		{"", million, 15_000_000, false},
		{"-", million, 15_000_000, false},
	} {
		if got, known := prices.Cost(test.model, test.tokens); got != test.want || known != test.known {
			t.Errorf("%+v of %q cost %v, known %v; want %v, %v", test.tokens, test.model, got, known, test.want, test.known)
		}
	}
	if got, _ := NewPrices(own, 1.3).Cost("gpt-4o", million); got != 3_250_000 {
		t.Errorf("thirty percent more is %v", got)
	}
	own = map[string]Price{"gpt-4o": {Input: 1}}
	if got, _ := NewPrices(own, 1).Cost("gpt-4o", million); got != 1_000_000 {
		t.Errorf("a price of the configuration's own: %v", got)
	}
	if got, known := (Prices{}).Cost("gpt-4o", million); got != 0 || known {
		t.Errorf("of no prices: %v, %v", got, known)
	}
}

// TestCostOfImpossibleCounts checks that an impossible count does not lower the cost.
func TestCostOfImpossibleCounts(t *testing.T) {
	prices := NewPrices(nil, 1)
	for _, c := range []struct {
		tokens state.Tokens
		want   state.Micros
	}{
		{state.Tokens{Input: -1_000_000_000, Output: 1_000_000}, 10 * state.Dollar},
		{state.Tokens{Input: 1_000_000, CacheRead: -1}, 2_500_000},
		{state.Tokens{Input: 1 << 62, Output: 1 << 62}, state.MaxSpent},
	} {
		for _, model := range []string{"gpt-4o", "unheard-of"} {
			if got, known := prices.Cost(model, c.tokens); known && got != c.want || got < c.want {
				t.Errorf("%s: %+v costs %v, want %v", model, c.tokens, got, c.want)
			}
		}
	}
}
