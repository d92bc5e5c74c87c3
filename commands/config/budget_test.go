package config

import (
	"testing"

	"agentstateloop/state"
	"agentstateloop/turn"
)

// TestBudgetSettings checks the limits, and that the prices of a configuration replace built-in ones
// and are added to them.
func TestBudgetSettings(t *testing.T) {
	a := mustLoad(t, smallConfig+`
[budget]
credit_usd = 0
day_usd = 1
turn_usd = 0.25
low_usd = 0.3
critical_usd = 0.2
multiplier = 2
mails_an_hour = 7
[prices."gpt-4o"]
input = 4
output = 8
cache_read = 0
[prices."local/llama"]
input = 0
output = 0
`)
	want := state.Budget{HasCredit: true, Day: state.Dollar, Turn: state.Dollar / 4, Low: 300_000, Critical: 200_000}
	if a.Policy.Rate != 7 {
		t.Errorf("%d mails an hour, want 7", a.Policy.Rate)
	}
	if a.Policy.Budget != want {
		t.Errorf("budget %+v, want %+v", a.Policy.Budget, want)
	}
	for model, want := range map[string]turn.Price{
		"gpt-4o":      {Input: 8, Output: 16, CacheWrite: 8},
		"local/llama": {},
		"o3-mini":     {Input: 1.10 * 2, Output: 4.40 * 2, CacheRead: 0.55 * 2, CacheWrite: 1.10 * 2},
	} {
		if got := priceOf(a.Prices, model); got != want {
			t.Errorf("%s costs %+v, want %+v", model, got, want)
		}
	}
}

func priceOf(prices turn.Prices, model string) turn.Price {
	price, _ := prices.Of(model)
	return price
}
