package simulator

import (
	"context"

	"agentstateloop/cycle"
	"agentstateloop/state"
)

// What the agent has to begin with, what a costly turn costs, and what is added
// at a time: two such turns and it is dead.
var budget = state.Budget{HasCredit: true, Credit: 6 * state.Dollar, Low: 5 * state.Dollar, Critical: 3 * state.Dollar}

const (
	costly = 4 * state.Dollar
	added  = 8 * state.Dollar
	plenty = 1000 * state.Dollar
)

// topUp is `credit`.
func (w *World) topUp(s Step, amount state.Micros) error {
	err, killed := w.run("credit", s.Faults, func(ctx context.Context, a *cycle.Agent) error {
		_, err := a.Credit(ctx, amount, "you")
		return err
	})
	w.saw.mu.Lock()
	defer w.saw.mu.Unlock()
	if killed || err != nil {
		w.saw.added.maybe++
	} else {
		w.saw.added.sure++
	}
	return err
}

// checkMoney: what was added is there, and each attempt has cost its price once.
func (w *World) checkMoney(h history) {
	w.saw.mu.Lock()
	defer w.saw.mu.Unlock()
	credited, spent := 0, map[string]int{}
	for _, l := range h.lines {
		switch {
		case l.Kind == "credit" && l.What == "topped up":
			credited++
		case l.Kind == "spend" && l.Spending != nil:
			if spent[l.Spending.ID]++; spent[l.Spending.ID] > 1 || l.Spending.Micros != int64(costly) {
				w.violate("budget", "%s: %d millionths, %d times", l.Spending.ID, l.Spending.Micros, spent[l.Spending.ID])
			}
		}
	}
	if !w.saw.added.within(credited) {
		w.violate("budget", "credit was added %d times, and counted %d", w.saw.added.sure, credited)
	}
}
