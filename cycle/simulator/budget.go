package simulator

import (
	"context"
	"errors"
	"fmt"
	"time"

	"agentstateloop/cycle"
	"agentstateloop/state"
)

// What the agent may spend: of its credit, in a day, and in one turn. A costly
// attempt costs as much as leaves room for one of them in a turn, and for two in
// a day; two of them, and the credit is used up, until as much is added.
var budget = state.Budget{
	HasCredit: true, Credit: 6 * state.Dollar, Low: 5 * state.Dollar, Critical: 3 * state.Dollar,
	Day: 10 * state.Dollar, Turn: 7 * state.Dollar,
}

const (
	costly = 4 * state.Dollar
	added  = 8 * state.Dollar
	plenty = 1000 * state.Dollar
)

// latest is how long before midnight an agent may begin that works until the
// next day: a story that is not about that has no use for a day that is skipped.
const latest = 4 * time.Hour

// topUp is `credit`.
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

// pay is an agent that tells what it spends while it works. What it was told is
// counted stays counted, though its runner die, or its turn be over.
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

// midnight is the next one where the machine is.
func midnight(now time.Time) time.Time {
	y, m, d := now.Date()
	return time.Date(y, m, d+1, 0, 0, 0, 0, now.Location())
}

// sleepOver lets time pass until a minute after midnight.
func (w *World) sleepOver() {
	now := w.clock.machine()
	w.clock.pass(midnight(now).Sub(now) + time.Minute)
}

// ledger is what an outsider makes of the history: what was spent on which day
// and in which turn, and what was added. It knows no balance that the program
// keeps.
type ledger struct {
	days, turns   map[string]int64
	spent, topped int64
	begun         map[string]string // the day on which a turn was last begun
}

func newLedger() ledger {
	return ledger{days: map[string]int64{}, turns: map[string]int64{}, begun: map[string]string{}}
}

// day is the local day of a moment.
func (w *World) day(at time.Time) string {
	return at.In(w.clock.machine().Location()).Format(time.DateOnly)
}

func (v *historyChecker) spent(l line) {
	if l.Spending == nil {
		return
	}
	day := v.world.day(l.At)
	v.money.days[day] += l.Spending.Micros
	v.money.turns[l.TurnID] += l.Spending.Micros
	v.money.spent += l.Spending.Micros
	if v.money.turns[l.TurnID] >= int64(budget.Turn) {
		v.happened("a turn used up its budget")
	}
	if v.money.days[day] >= int64(budget.Day) {
		v.happened("a day's budget was used up")
	}
	if begun := v.money.begun[l.TurnID]; begun != "" && begun < day {
		v.happened("a day ended in the middle of a turn")
	}
}

// runs says whether there is money, at a moment, for a turn that the operator
// caused, or another agent.
func (v *historyChecker) runs(at time.Time, operator bool) bool {
	m := &v.money
	left := min(int64(budget.Credit)+m.topped-m.spent, int64(budget.Day)-m.days[v.world.day(at)])
	return left >= int64(budget.Critical) || left > 0 && operator
}

// affords: no attempt is begun for which there is no money.
func (v *historyChecker) affords(l line) {
	m, day := &v.money, v.world.day(l.At)
	m.begun[l.TurnID] = day
	switch {
	case m.spent >= int64(budget.Credit)+m.topped:
		v.broken("budget", "turn %s was begun, and the credit was used up: %d of %d", l.TurnID, m.spent, int64(budget.Credit)+m.topped)
	case m.days[day] >= int64(budget.Day):
		v.broken("budget", "turn %s was begun, and the budget of %s was used up: %d", l.TurnID, day, m.days[day])
	case m.turns[l.TurnID] >= int64(budget.Turn):
		v.broken("budget", "turn %s went on, and its budget was used up: %d", l.TurnID, m.turns[l.TurnID])
	}
	for other, spent := range m.days {
		if other < day && spent >= int64(budget.Day) {
			v.happened("turns began again with the next day")
		}
	}
}

// checkMoney: what was added is there, each attempt has cost its price once, and
// `status` says what was spent today.
func (w *World) checkMoney(h history) {
	status, err := w.status()
	if err != nil {
		w.violate("6", "status: %v", err)
	}
	w.record.mu.Lock()
	defer w.record.mu.Unlock()
	credited, spent, today, thisMonth := 0, map[string]int{}, int64(0), int64(0)
	now := w.day(w.clock.machine())
	for _, l := range h.lines {
		switch {
		case l.Kind == "credit" && l.What == "topped up":
			credited++
		case l.Kind == "spend" && l.Spending != nil:
			if spent[l.Spending.ID]++; spent[l.Spending.ID] > 1 || l.Spending.Micros != int64(costly) {
				w.violate("budget", "%s: %d millionths, %d times", l.Spending.ID, l.Spending.Micros, spent[l.Spending.ID])
			}
			if day := w.day(l.At); day == now {
				today += l.Spending.Micros
			}
			if w.day(l.At)[:len("2006-01")] == now[:len("2006-01")] {
				thisMonth += l.Spending.Micros
			}
		}
	}
	if !w.record.added.within(credited) {
		w.violate("budget", "credit was added %d times, and counted %d", w.record.added.sure, credited)
	}
	for _, id := range w.record.paid {
		if spent[id] == 0 {
			w.violate("budget", "%s was told, and is not counted", id)
		}
	}
	if day, month := state.Micros(today).USD(), state.Micros(thisMonth).USD(); status.Spend.DayUSD != day || status.Spend.MonthUSD != month {
		w.violate("budget", "status says $%g today and $%g this month, and it was $%g and $%g",
			status.Spend.DayUSD, status.Spend.MonthUSD, day, month)
	}
}
