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

	TimeFixed, CostFixed bool // see Assumed.Fix
}

// Source tells where the time or the cost of a turn comes from.
type Source string

// The sources of a figure.
const (
	FromFlag    Source = "flag"
	FromHistory Source = "history"
	FromDefault Source = "default"
)

// Sources returns the sources of the time and of the cost.
func (f Figure) Sources() (ofTime, ofCost Source) {
	return f.source(f.TimeFixed), f.source(f.CostFixed)
}

func (f Figure) source(fixed bool) Source {
	switch {
	case fixed:
		return FromFlag
	case f.Turns > 0:
		return FromHistory
	}
	return FromDefault
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
			f.Time, f.TimeFixed = *turnTime, true
		}
		if cost != nil {
			f.Cost, f.CostFixed = *cost, true
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
	began time.Time     // of the attempt that runs; zero between attempts
	took  time.Duration // by all attempts
	cost  state.Micros
	model string
	dear  state.Micros // the highest cost of one of its calls, which names the model
	low   bool
}

// Assume returns the figures of an agent with this history: the medians of the last turns that
// succeeded, with the model of the last of them. A turn takes the time of its attempts, without the time
// between them. free is set if the runner is free of charge.
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
		case l.Kind == state.LineTurn && l.What == state.WordRunning:
			if t == nil {
				t = &pastTurn{low: view.IsShort(tier), id: l.TurnID}
				running[l.TurnID] = t
			}
			t.began = l.At
		case t == nil:
		case l.Kind == state.LineSpend:
			t.add(*l.Spending)
		case l.Kind == state.LineTurn && (l.What == state.WordSuspended || l.What == state.WordReaped || l.What == state.WordGivenBack):
			t.pause(l.At)
		case l.Kind == state.LineTask && l.Outcome != state.Success && l.Outcome != state.Partial:
			delete(running, l.TurnID)
		case l.Kind == state.LineTask:
			t.pause(l.At)
			ended = append(ended, t)
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

// pause ends an attempt of the turn.
func (t *pastTurn) pause(at time.Time) {
	if !t.began.IsZero() {
		t.took += max(0, at.Sub(t.began))
	}
	t.began = time.Time{}
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
