package replay

import (
	"iter"
	"slices"
	"sort"
	"time"

	"agentstateloop/cycle/view"
	"agentstateloop/state"
)

// Figure is the time and the cost of a turn.
type Figure struct {
	Time  time.Duration
	Cost  state.Micros
	Model string // "" if it is unknown
	Turns int    // in the history, from which the figure comes; 0: it is assumed
}

// Assumed holds the figures of the turns of a replay. Low is for the turns while money is short.
type Assumed struct{ Normal, Low Figure }

// Of returns the figure of a turn in a tier.
func (a Assumed) Of(t state.Tier) Figure {
	if view.IsShort(t) {
		return a.Low
	}
	return a.Normal
}

// Fix replaces the time or the cost of all turns; nil leaves it.
func (a *Assumed) Fix(turnTime *time.Duration, cost *state.Micros) {
	for _, f := range []*Figure{&a.Normal, &a.Low} {
		if turnTime != nil {
			f.Time = *turnTime
		}
		if cost != nil {
			f.Cost = *cost
		}
		if turnTime != nil && cost != nil {
			f.Turns = 0
		}
	}
}

// The assumed figures of a turn without a history.
const (
	assumedTime = 90 * time.Second
	assumedCost = state.Dollar / 10
)

// lastTurns is how many turns of the history count.
const lastTurns = 500

// pastTurn is a turn of the history.
type pastTurn struct {
	id    string
	began time.Time
	took  time.Duration
	cost  state.Micros
	model string
	dear  state.Micros // the highest cost of one of its calls, which names the model
	low   bool
}

// Assume returns the figures of an agent with this history: the medians of the last turns with the
// model that ran last. free is set if the runner is free of charge.
func Assume(history iter.Seq2[state.Line, error], free bool) (Assumed, error) {
	running := map[string]*pastTurn{}
	var ended []*pastTurn
	tier := state.TierNormal
	for l, err := range history {
		if err != nil {
			return Assumed{}, err
		}
		switch t := running[l.TurnID]; {
		case l.Kind == state.LineTier:
			tier = state.Tier(l.What)
		case l.Kind == state.LineTurn && l.What == state.WordRunning && t == nil:
			running[l.TurnID] = &pastTurn{began: l.At, low: view.IsShort(tier), id: l.TurnID}
		case t == nil:
		case l.Kind == state.LineSpend:
			t.add(*l.Spending)
		case l.Kind == state.LineTask:
			if t.took == 0 {
				t.took = max(1, l.At.Sub(t.began))
				ended = append(ended, t)
			}
			if len(ended) == 2*lastTurns {
				for _, old := range ended[:lastTurns] {
					delete(running, old.id)
				}
				ended = append(ended[:0], ended[lastTurns:]...)
			}
		}
	}
	normal := figureOf(ended, false)
	if normal.Turns == 0 {
		normal = Figure{Time: assumedTime, Cost: assumedCost}
		if free {
			normal.Cost = 0
		}
	}
	low := figureOf(ended, true)
	if low.Turns == 0 {
		low = normal
	}
	return Assumed{Normal: normal, Low: low}, nil
}

// add counts a call of the turn.
func (t *pastTurn) add(sp state.Spending) {
	t.cost += sp.Cost
	if t.model == "" || sp.Cost > t.dear {
		t.model, t.dear = sp.Model, sp.Cost
	}
}

// figureOf returns the medians of the turns with the model of the last one.
func figureOf(turns []*pastTurn, low bool) Figure {
	turns = slices.DeleteFunc(slices.Clone(turns), func(t *pastTurn) bool { return t.low != low })
	if len(turns) == 0 {
		return Figure{}
	}
	model := turns[len(turns)-1].model
	var times []time.Duration
	var costs []state.Micros
	for _, t := range turns[max(0, len(turns)-lastTurns):] {
		if t.model == model {
			times, costs = append(times, t.took), append(costs, t.cost)
		}
	}
	sort.Slice(times, func(i, j int) bool { return times[i] < times[j] }) // slices.Sort of such values would be new in the binary
	sort.Slice(costs, func(i, j int) bool { return costs[i] < costs[j] })
	return Figure{Time: times[len(times)/2], Cost: costs[len(costs)/2], Model: model, Turns: len(times)}
}
