package simulator

import (
	"context"
	"errors"
	"fmt"
	"time"

	"agentstateloop/cycle"
	"agentstateloop/state"
)

// budget limits the spending in all, in a day and in one turn. A turn has room for one costly
// attempt, a day for two. Two of them use up the credit.
var budget = state.Budget{
	HasCredit: true, Credit: 6 * state.Dollar, Low: 5 * state.Dollar, Critical: 3 * state.Dollar,
	Day: 10 * state.Dollar, Turn: 7 * state.Dollar,
}

const (
	costly = 4 * state.Dollar
	added  = 8 * state.Dollar
	plenty = 1000 * state.Dollar
)

// latest is how long before midnight an agent may begin to work into the next day.
// Most stories should not skip a day.
const latest = 4 * time.Hour

// topUp runs the command `credit`.
func (w *World) topUp(s Step, amount state.Micros) error {
	err, killed := w.run("credit", s.Faults, func(ctx context.Context, a *cycle.Agent) error {
		_, err := a.Credit(ctx, amount, "you")
		return err
	})
	w.record.mu.Lock()
	defer w.record.mu.Unlock()
	if killed || err != nil {
		w.record.added.maybe++
	} else {
		w.record.added.sure++
	}
	return err
}

// pay plays an agent that reports its costs while it works. A spending that was accepted stays
// counted, even if the runner dies or the turn is over.
func (a *livingAgent) pay() {
	id := fmt.Sprintf("call.%s.%d", a.in.TurnID, a.in.Epoch)
	err, killed := a.command("spend", func(ctx context.Context, c *cycle.Agent) error {
		return c.Spend(ctx, a.in, state.Spending{ID: id, Model: "costly"}, costly.USD())
	})
	saw := a.world.record
	saw.mu.Lock()
	defer saw.mu.Unlock()
	if !killed && (err == nil || errors.Is(err, cycle.ErrStale)) {
		saw.paid = append(saw.paid, id)
	}
}

// midnight returns the next midnight in the time zone of now.
func midnight(now time.Time) time.Time {
	y, m, d := now.Date()
	return time.Date(y, m, d+1, 0, 0, 0, 0, now.Location())
}

// sleepOver lets time pass until a minute after midnight.
func (w *World) sleepOver() {
	now := w.clock.machine()
	w.clock.pass(midnight(now).Sub(now) + time.Minute)
}

// ledger adds up the history: the costs of each day and each turn, and the added credit. It uses no
// balance that the program keeps.
type ledger struct {
	days, turns   map[string]state.Micros
	spent, topped state.Micros
	begun         map[string]string // the day on which a turn was last dispatched
}

func newLedger() ledger {
	return ledger{days: map[string]state.Micros{}, turns: map[string]state.Micros{}, begun: map[string]string{}}
}

// day returns the local day of a moment.
func (w *World) day(at time.Time) string {
	return at.In(w.clock.machine().Location()).Format(time.DateOnly)
}

func (v *historyChecker) spent(l line) {
	if l.Spending == nil {
		return
	}
	day := v.world.day(l.At)
	v.money.days[day] += l.Spending.Cost
	v.money.turns[l.TurnID] += l.Spending.Cost
	v.money.spent += l.Spending.Cost
	if v.money.turns[l.TurnID] >= budget.Turn {
		v.happened("a turn used up its budget")
	}
	if v.money.days[day] >= budget.Day {
		v.happened("a day's budget was used up")
	}
	if begun := v.money.begun[l.TurnID]; begun != "" && begun < day {
		v.happened("a day ended in the middle of a turn")
	}
}

// runs reports whether the budget suffices, at a moment, for a turn. operator says
// that the operator caused the turn, not another agent.
func (v *historyChecker) runs(at time.Time, operator bool) bool {
	m := &v.money
	left := min(budget.Credit+m.topped-m.spent, budget.Day-m.days[v.world.day(at)])
	return left >= budget.Critical || left > 0 && operator
}

// affords checks that an attempt is dispatched only if the budgets are not used up.
func (v *historyChecker) affords(l line) {
	m, day := &v.money, v.world.day(l.At)
	m.begun[l.TurnID] = day
	switch {
	case m.spent >= budget.Credit+m.topped:
		v.broken("budget", "turn %s was dispatched although the credit was used up: %d of %d", l.TurnID, m.spent, budget.Credit+m.topped)
	case m.days[day] >= budget.Day:
		v.broken("budget", "turn %s was dispatched although the budget of %s was used up: %d", l.TurnID, day, m.days[day])
	case m.turns[l.TurnID] >= budget.Turn:
		v.broken("budget", "turn %s was resumed although its budget was used up: %d", l.TurnID, m.turns[l.TurnID])
	}
	for other, spent := range m.days {
		if other < day && spent >= budget.Day {
			v.happened("turns began again with the next day")
		}
	}
}

// checkMoney checks that added credit is counted, that each attempt has cost its price once, and
// that `status` shows the spending of today.
func (w *World) checkMoney(h history) {
	status, err := w.status()
	if err != nil {
		w.violate("6", "status: %v", err)
	}
	w.record.mu.Lock()
	defer w.record.mu.Unlock()
	credited, spent, today, thisMonth := 0, map[string]int{}, state.Micros(0), state.Micros(0)
	now := w.day(w.clock.machine())
	for _, l := range h.lines {
		switch {
		case l.Kind == "credit" && l.What == state.WordToppedUp:
			credited++
		case l.Kind == "spend" && l.Spending != nil:
			if spent[l.Spending.ID]++; spent[l.Spending.ID] > 1 || l.Spending.Cost != costly {
				w.violate("budget", "%s: %d millionths, %d times", l.Spending.ID, l.Spending.Cost, spent[l.Spending.ID])
			}
			if day := w.day(l.At); day == now {
				today += l.Spending.Cost
			}
			if w.day(l.At)[:len("2006-01")] == now[:len("2006-01")] {
				thisMonth += l.Spending.Cost
			}
		}
	}
	if !w.record.added.within(credited) {
		w.violate("budget", "credit was added %d times but counted %d times", w.record.added.sure, credited)
	}
	for _, id := range w.record.paid {
		if spent[id] == 0 {
			w.violate("budget", "%s was reported but is not counted", id)
		}
	}
	if day, month := today.USD(), thisMonth.USD(); status.Spend.DayUSD != day || status.Spend.MonthUSD != month {
		w.violate("budget", "status shows $%g today and $%g this month, want $%g and $%g",
			status.Spend.DayUSD, status.Spend.MonthUSD, day, month)
	}
}
