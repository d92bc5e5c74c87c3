package simulator

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"agentstateloop/cycle"
	"agentstateloop/cycle/view"
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
	paid          map[string]bool   // the spendings, by id
	credits       int               // how often credit was added
}

// day returns the local day of a moment.
func (w *World) day(at time.Time) string {
	return at.In(w.clock.machine().Location()).Format(time.DateOnly)
}

// spent checks that each attempt costs its price, once, and adds that to the ledger.
func (v *historyChecker) spent(l line) {
	if l.Spending == nil {
		return
	}
	if v.money.paid[l.Spending.ID] || l.Spending.Cost != costly {
		v.broken("budget", "%s: %d millionths; before: %v", l.Spending.ID, l.Spending.Cost, v.money.paid[l.Spending.ID])
	}
	v.money.paid[l.Spending.ID] = true
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

// checkMoney checks that added credit is counted, that each spending that was reported is in the
// history, and that `status` shows those of today and of this month.
func (w *World) checkMoney(m ledger, shown view.StatusSpend) {
	if !w.record.added.within(m.credits) {
		w.violate("budget", "credit was added %d times but counted %d times", w.record.added.sure, m.credits)
	}
	for _, id := range w.record.paid {
		if !m.paid[id] {
			w.violate("budget", "%s was reported but is not counted", id)
		}
	}
	now, month := w.day(w.clock.machine()), state.Micros(0)
	for day, spent := range m.days {
		if strings.HasPrefix(day, now[:len("2006-01")]) {
			month += spent
		}
	}
	if today := m.days[now].USD(); shown.DayUSD != today || shown.MonthUSD != month.USD() {
		w.violate("budget", "status shows $%g today and $%g this month, want $%g and $%g", shown.DayUSD, shown.MonthUSD, today, month.USD())
	}
}
