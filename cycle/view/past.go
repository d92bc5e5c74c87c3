package view

import (
	"cmp"
	"fmt"
	"time"

	"agentstateloop/internal/order"
	"agentstateloop/internal/plain"
	"agentstateloop/state"
	"agentstateloop/state/store"
)

// pastDays is how many days a Past covers. Costs of a local day need one more.
const pastDays = 15

// pastRead limits how many bytes of the history are read for a Past.
const pastRead = 256 << 20

// straysRead is how many lines in a row from before the covered days end the reading. A few of them
// may have the time of a clock that was wrong.
const straysRead = 256

// pastKinds are the kinds of lines that a Past reads.
var pastKinds = []state.LineKind{
	state.LineTransition, state.LineMessage, state.LineNudge, state.LineTurn, state.LineTask, state.LineHalt, state.LineSpend,
}

// Past holds the last days of an agent for its bands and costs. It reads each line of the history once.
type Past struct {
	Store  *store.Store
	Policy *state.Policy

	facts  []fact // in the order of the history
	days   map[string]*dayCost
	serial uint64 // of the state at the last Read
	place  string // of that state
	last   fact   // the newest line
	latest time.Time

	phase   state.Phase
	since   time.Time       // of the phase
	halted  map[string]bool // here, on the mesh
	running string          // the attempt that runs, or ""
	start   time.Time       // of the covered days
	now     time.Time       // of the last Read
}

// fact is a line of the history, without the rest of its fields.
type fact struct {
	serial   uint64
	n        int
	at       time.Time
	kind     factKind
	old, new state.Phase
	id       string // of a turn: its attempt; of a halt: where it was set
	text     string
}

// factKind is the kind of a fact.
type factKind byte

const (
	factPhase factKind = iota
	factMail
	factNudge
	factTurnBegins
	factTurnEnds // without an answer
	factAnswer   // ends a turn
	factHalt
	factGo
)

// dayCost is the cost of one local day.
type dayCost struct {
	cost  state.Micros
	turns map[string]bool
}

// DayCost is the known cost of a local day.
type DayCost struct {
	Day   string // 2026-11-28
	Cost  state.Micros
	Turns int // that cost something or may have
}

// Read brings p up to date for a state that was read before. It reads the lines since the last Read,
// or those of the covered days.
func (p *Past) Read(s state.State, now time.Time) error {
	// The lines that a clock ahead of time wrote may be in a file that comes after the newest lines.
	if p.days == nil || s.Serial < p.serial || s.Place != p.place || p.latest.After(now) {
		*p = Past{Store: p.Store, Policy: p.Policy, days: map[string]*dayCost{}, place: s.Place}
	}
	p.now, p.start = now, now.Add(-pastDays*24*time.Hour)
	p.phase, p.since = s.Phase, s.PhaseSince
	p.halted = map[string]bool{"here": s.HaltedHere, "mesh": s.HaltedMesh}
	p.running = ""
	if h := s.Turn; h.Status == state.HeadDispatched || h.Status == state.HeadRunning {
		p.running = attemptID(h.TurnID, h.Epoch)
	}
	if s.Serial == p.serial {
		return nil
	}
	lines, err := p.newLines(s)
	if err != nil {
		return err
	}
	for _, l := range lines {
		p.add(l)
	}
	for len(p.facts) > 0 && p.facts[0].at.Before(p.start) {
		p.facts = p.facts[1:]
	}
	oldest := p.Policy.Day(p.start)
	for day := range p.days {
		if day < oldest {
			delete(p.days, day)
		}
	}
	p.serial = s.Serial
	return nil
}

// newLines returns the lines after the last one that p has, in the order of the history.
func (p *Past) newLines(s state.State) ([]state.Line, error) {
	var lines []state.Line
	strays := 0
	for l, err := range p.Store.Newest(pastRead, pastKinds...) {
		if err != nil {
			return nil, fmt.Errorf("read history: %w", err)
		}
		if !l.After(p.last.serial, p.last.n) {
			break
		}
		if !l.At.Before(p.start) {
			strays = 0
		} else if strays++; strays > straysRead {
			break
		}
		lines = append(lines, l)
	}
	order.Sort(lines, func(a, b state.Line) int { return cmp.Or(cmp.Compare(a.Serial, b.Serial), a.N-b.N) })
	last := state.Line{Serial: p.last.serial, N: p.last.n}
	if n := len(lines); n > 0 {
		last = lines[n-1]
	}
	for _, l := range s.Lines { // the files may lack those of the newest commit
		if l.After(last.Serial, last.N) {
			lines = append(lines, l)
		}
	}
	return lines, nil
}

// add adds a line, which comes after the others.
func (p *Past) add(l state.Line) {
	f := fact{serial: l.Serial, n: l.N, at: l.At}
	p.last, p.latest = f, Later(p.latest, l.At)
	switch {
	case l.Kind == state.LineSpend && l.Spending != nil:
		d := p.days[l.Day]
		if d == nil {
			d = &dayCost{turns: map[string]bool{}}
			p.days[l.Day] = d
		}
		d.cost += l.Spending.Cost
		d.turns[l.TurnID] = true
		return
	case l.Kind == state.LineTransition:
		f.kind, f.old, f.new = factPhase, l.Old, l.New
	case l.Kind == state.LineMessage && l.What == "" && l.Message != nil && fromOutside(*l.Message):
		f.kind, f.text = factMail, messageName(*l.Message)
	case l.Kind == state.LineNudge:
		f.kind, f.text = factNudge, "nudge"
		if l.From != "" {
			f.text += " by " + nameOf(l.From)
		}
	case l.Kind == state.LineTurn && (l.What == state.WordDispatched || l.What == state.WordRunning):
		f.kind, f.id, f.text = factTurnBegins, attemptID(l.TurnID, l.Epoch), turnName(l.Row)
	case l.Kind == state.LineTurn && (l.What == state.WordSuspended || l.What == state.WordReaped || l.What == state.WordGivenBack):
		f.kind, f.id, f.text = factTurnEnds, attemptID(l.TurnID, l.Epoch), string(l.What)
	case l.Kind == state.LineTask:
		f.kind, f.id, f.text = factTurnEnds, attemptID(l.TurnID, l.Epoch), string(l.Outcome)
		if l.Outcome == state.Success || l.Outcome == state.Partial {
			f.kind, f.text = factAnswer, "answer to "+senderOf(l.Row)
		}
	case l.Kind == state.LineHalt:
		f.kind, f.id = factHalt, l.From
		if l.What == state.WordGo {
			f.kind = factGo
		}
	default:
		return
	}
	p.facts = append(p.facts, f)
}

func attemptID(turnID string, epoch uint64) string { return fmt.Sprintf("%s/%d", turnID, epoch) }

// fromOutside reports whether a message came to the agent, and was not planned by it or its clock.
func fromOutside(m state.Message) bool { return m.Source != state.Self && m.Source != state.Clock }

func messageName(m state.Message) string {
	if m.Source == state.Mail {
		return "mail from " + nameOf(m.From)
	}
	return "message from " + nameOf(m.From)
}

func turnName(row *state.Message) string { return "turn for " + senderOf(row) }

// senderOf names the cause of a turn.
func senderOf(row *state.Message) string {
	switch {
	case row == nil:
		return "a message"
	case row.Source == state.Self:
		return "its own plan"
	case row.Source == state.Clock:
		return "the prompt " + nameOf(row.From)
	}
	return nameOf(row.From)
}

// nameOf returns a foreign name for the text of a mark.
func nameOf(from string) string { return cmp.Or(plain.Shorten(plain.Line(from), MaxTitle), "somebody") }

// Costs returns the costs of the last n local days, at most 14, the oldest first.
func (p *Past) Costs(n int, now time.Time) []DayCost {
	days := []DayCost{}
	local := now.UTC()
	if p.Policy.Location != nil {
		local = now.In(p.Policy.Location)
	}
	for i := n - 1; i >= 0; i-- {
		// At noon, because a day of a clock change does not have 24 hours.
		noon := time.Date(local.Year(), local.Month(), local.Day()-i, 12, 0, 0, 0, local.Location())
		d := DayCost{Day: noon.Format(time.DateOnly)}
		if known := p.days[d.Day]; known != nil {
			d.Cost, d.Turns = known.cost, len(known.turns)
		}
		days = append(days, d)
	}
	return days
}
