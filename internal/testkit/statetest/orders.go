package statetest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"agentstateloop/state"
)

// Recorded is a Step with its arguments.
type Recorded struct {
	State  state.State
	Events []state.Event
	Policy state.Policy
	Now    time.Time
}

// In returns the result of the step, in JSON, with the rules of each group in the order that the
// function returns.
func (r Recorded) In(t *testing.T, order func([]state.Rule) []state.Rule) string {
	return JSON(t, state.StepInOrder(&r.State, r.Events, r.Policy, r.Now, order))
}

// Observe runs play with a replacement of state.Step that any goroutine may call. It calls f
// with every step that play makes, and returns their number.
func Observe(play func(state.StepFunc), f func(Recorded)) (steps int) {
	var mu sync.Mutex
	play(func(s state.State, events []state.Event, p state.Policy, now time.Time) state.State {
		mu.Lock()
		steps++
		f(Recorded{s, events, p, now})
		mu.Unlock()
		return state.Step(s, events, p, now)
	})
	return steps
}

// CheckOrders runs play as Observe does. It checks that every step has the same result with the rules
// of each group in other orders that heed After. It returns the number of steps.
func CheckOrders(t *testing.T, play func(state.StepFunc)) (steps int) {
	const orders = 2 // of each step
	return Observe(play, func(r Recorded) {
		if t.Failed() {
			return
		}
		want := r.In(t, nil)
		random := rand.New(rand.NewPCG(r.State.Serial, uint64(r.Now.UnixNano())))
		for range orders {
			ran := []string{"the order:"}
			got := r.In(t, func(group []state.Rule) []state.Rule {
				group = Shuffle(random, group)
				ran = append(ran, fmt.Sprint(rows(group, func(r state.Rule) string { return r.Name })))
				return group
			})
			if got != want {
				t.Errorf("step %d at %v with %T: %s\nthe result:\n%s\nwant\n%s", r.State.Serial, r.Now, r.Events, strings.Join(ran, "\n"), difference(got, want), difference(want, got))
			}
		}
	})
}

// Shuffle returns rules in a random order in which each comes after those that it names. It returns
// nil if such an order does not exist.
func Shuffle(random *rand.Rand, rules []state.Rule) (shuffled []state.Rule) {
	for left := slices.Clone(rules); len(left) > 0; {
		free := slices.DeleteFunc(slices.Clone(left), func(r state.Rule) bool {
			return slices.ContainsFunc(left, func(other state.Rule) bool { return slices.Contains(r.After, other.Name) })
		})
		if len(free) == 0 {
			return nil
		}
		next := free[random.IntN(len(free))]
		shuffled = append(shuffled, next)
		left = slices.DeleteFunc(left, func(r state.Rule) bool { return r.Name == next.Name })
	}
	return shuffled
}

// difference returns text from where it begins to differ from other.
func difference(text, other string) string {
	n := 0
	for n < min(len(text), len(other)) && text[n] == other[n] {
		n++
	}
	return "… " + text[max(0, n-60):min(len(text), n+300)]
}
