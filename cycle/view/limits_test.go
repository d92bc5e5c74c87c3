package view

import (
	"strings"
	"testing"
	"time"

	"agentstateloop/internal/testkit/limittest"
	"agentstateloop/state"
	"agentstateloop/state/store"
	"agentstateloop/turn"
)

var viewNoon = time.Date(2026, 1, 5, 12, 0, 0, 0, time.UTC)

// storeWith returns a store with a message of n bytes.
func storeWith(t *testing.T, n int64) *store.Store {
	st := &store.Store{Dir: t.TempDir()}
	if err := st.Keep("messages/m", strings.NewReader(strings.Repeat("x", int(n)))); err != nil {
		t.Fatal(err)
	}
	return st
}

func TestViewLimits(t *testing.T) {
	limittest.Run(t, []limittest.Limit{
		limittest.Duration("uncalledFor", 7*24*time.Hour-1, 1, func(_ *testing.T, d time.Duration) bool {
			return uncalledStatus(state.Uncalled{Count: 1, Last: viewNoon}, viewNoon.Add(d)) != nil
		}),
		{Const: "MaxTitle", Max: 80, Within: func(_ *testing.T, n int64) bool {
			return TitleOf(strings.Repeat("é", int(n))) == strings.Repeat("é", int(n))
		}},
		{Const: "wholeBudget", Max: 67_108_864, Within: func(t *testing.T, n int64) bool { return readsWhole(t, 100_000, n-100_000) }},
		{Const: "headlineRead", Max: 65_536, Within: func(t *testing.T, n int64) bool { return readsWhole(t, n, 64<<20) }},
		{Const: "headlineRead", Max: 65_536, Within: func(t *testing.T, n int64) bool {
			head, err := (&Headliner{Store: storeWith(t, n)}).Head("messages/m")
			return err == nil && len(head) == int(n)
		}},
		{Const: "subjectCells", Max: 120, Within: func(_ *testing.T, n int64) bool {
			return Beginning(strings.Repeat("é", int(n))) == strings.Repeat("é", int(n))
		}},
		{Const: "maxTurnID", Max: 64, Within: func(_ *testing.T, n int64) bool { return isTurnID(strings.Repeat("x", int(n))) }},
		limittest.Duration("pastDays", 15*24*time.Hour, 24*time.Hour, func(t *testing.T, d time.Duration) bool {
			p := past(t, state.State{}, monday, phased(monday.Add(-d), state.IDLE, state.PREP))
			return len(p.facts) == 1
		}),
		{Const: "straysRead", Max: 256, Within: func(t *testing.T, n int64) bool {
			lines := []state.Line{phased(monday, state.IDLE, state.PREP)}
			for range n {
				lines = append(lines, phased(time.Unix(60, 0), state.IDLE, state.PREP))
			}
			return len(past(t, state.State{}, monday, append(lines, phased(monday, state.IDLE, state.PREP))...).facts) == int(n)+2
		}},
		{Const: "maxMarks", Max: 400, Within: func(_ *testing.T, n int64) bool {
			p := Past{now: monday}
			for i := range n {
				p.facts = append(p.facts, fact{at: monday.Add(time.Duration(i-n) * time.Second), kind: factNudge})
			}
			return len(p.Band(monday.Add(-time.Hour), monday).Marks) == int(n)
		}},
		{Const: "maxMarks", Max: 400, Within: func(_ *testing.T, n int64) bool {
			phases := [...]state.Phase{state.IDLE, state.PREP}
			p := Past{now: monday, phase: phases[(n+1)%2]}
			for i := range n - 1 {
				p.facts = append(p.facts, fact{at: monday.Add(time.Duration(i-n) * time.Second), old: phases[i%2], new: phases[(i+1)%2]})
			}
			return len(p.Band(monday.Add(-time.Hour), monday).Phases) == int(n)
		}},
		limittest.Duration("scanLate", 2*time.Minute, 1, func(_ *testing.T, d time.Duration) bool {
			s := state.State{Timers: state.Timers{LastMailRead: viewNoon, LastStep: viewNoon.Add(time.Hour + d), NextDue: viewNoon}}
			return !offline(s, state.Policy{IdleInterval: time.Hour}, true)
		}),
		limittest.Duration("sendingLate", 5*time.Minute, 1, func(_ *testing.T, d time.Duration) bool {
			return !strings.Contains(holdText(state.State{Timers: state.Timers{LastStep: viewNoon}}, state.Effect{}, state.HoldSending, viewNoon.Add(d)), "killed")
		}),
		limittest.Duration("shortRest", 10*time.Second, 1, func(_ *testing.T, d time.Duration) bool {
			w, _ := Reader{Turn: &turn.Config{}, Now: func() time.Time { return viewNoon }}.waitForAll(state.State{Work: state.Work{CooldownUntil: viewNoon.Add(d)}})
			return !w.Never
		}),
		limittest.Duration("unpolledFor", 2*time.Minute, 1, func(_ *testing.T, d time.Duration) bool {
			return !Reader{}.pollIsLate(state.State{Timers: state.Timers{LastStep: viewNoon}}, viewNoon.Add(d))
		}),
		limittest.Duration("unpolledFor", 2*time.Minute, 1, func(_ *testing.T, d time.Duration) bool {
			return !Reader{}.pollIsLate(state.State{Timers: state.Timers{NextDue: viewNoon}}, viewNoon.Add(d))
		}),
	})
}

// readsWhole reports whether a list that has read so much reads a payload of n bytes whole,
// which finds that it is damaged.
func readsWhole(t *testing.T, n, read int64) bool {
	h := Headliner{Store: storeWith(t, n), read: read}
	return h.of(state.CLI, "messages/m", "other", 0).Damaged != ""
}
