package view

import (
	"fmt"
	"slices"
	"time"

	"agentstateloop/internal/order"
	"agentstateloop/state"
)

// Band is the agent's past between two times: its phases and marks.
type Band struct {
	From   time.Time `json:"from"`
	To     time.Time `json:"to"`
	Phases []Span    `json:"phases"` // without gaps, the oldest first
	Marks  []Mark    `json:"marks"`  // the oldest first, at most maxMarks
}

// Span is one phase.
type Span struct {
	Phase state.Phase `json:"phase"`
	From  time.Time   `json:"from"`
	To    time.Time   `json:"to"`
}

// Mark is something that happened.
type Mark struct {
	Kind string     `json:"kind"` // "mail", "nudge", "turn", "answer", "halt"
	At   time.Time  `json:"at"`
	To   *time.Time `json:"to"` // the end of a turn or a halt; null for a moment
	Text string     `json:"text"`

	Count int `json:"count"` // 1, or the number of marks that were joined
}

// The kinds of marks. A mail is any message from outside.
const (
	MarkMail   = "mail"
	MarkNudge  = "nudge"
	MarkTurn   = "turn"
	MarkAnswer = "answer"
	MarkHalt   = "halt"
)

const kindsOfMarks = len([...]string{MarkMail, MarkNudge, MarkTurn, MarkAnswer, MarkHalt})

// maxMarks limits the marks of a band, and its spans. Beyond it the band is divided into slots of
// the same length: the marks of one kind that begin in a slot become one mark that counts them, and
// each slot has the phase that it had for the longest time.
const maxMarks = 400

// Band returns the band between two times, of which the later one is not after the last Read. The
// order of the history decides, not the clock: a line that a clock ahead of time wrote is shown at the
// time of the line after it, and so is a line of a clock that began at 1970.
func (p *Past) Band(from, to time.Time) Band {
	from, to = from.UTC(), to.UTC()
	times := p.times()
	return Band{From: from, To: to, Phases: p.spans(times, from, to), Marks: p.marks(times, from, to)}
}

// times returns the time of each fact. They rise.
func (p *Past) times() []time.Time {
	times := make([]time.Time, len(p.facts))
	next := p.now.UTC()
	for i := len(p.facts) - 1; i >= 0; i-- {
		if at := p.facts[i].at.UTC(); !at.Before(p.start) {
			next = earlier(next, at)
		}
		times[i] = next
	}
	return times
}

// spans returns the phases between from and to.
func (p *Past) spans(times []time.Time, from, to time.Time) []Span {
	spans := []Span{}
	phase, at := p.phase, from // without a change, the phase of now
	for _, f := range p.facts {
		if f.kind == factPhase {
			phase = f.old
			break
		}
	}
	enter := func(next state.Phase, t time.Time) {
		if !t.Before(to) {
			return
		}
		if next != phase && t.After(at) {
			spans = append(spans, Span{Phase: phase, From: at, To: t})
			at = t
		}
		phase = next
	}
	for i, f := range p.facts {
		if f.kind == factPhase {
			enter(f.new, times[i])
		}
	}
	if p.since.After(at) { // a damaged history may lack the last change
		enter(p.phase, p.since)
	}
	spans = joined(append(spans, Span{Phase: phase, From: at, To: to}))
	if len(spans) > maxMarks {
		return thinSpans(spans, from, to)
	}
	return spans
}

// joined joins neighbours of the same phase.
func joined(spans []Span) []Span {
	all := spans[:0]
	for _, s := range spans {
		if n := len(all); n > 0 && all[n-1].Phase == s.Phase {
			all[n-1].To = s.To
			continue
		}
		all = append(all, s)
	}
	return all
}

// thinSpans gives each slot of the band the phase that it had for the longest time.
func thinSpans(spans []Span, from, to time.Time) []Span {
	var thin []Span
	for slot := range maxMarks {
		start, end := slotStart(from, to, slot, maxMarks), slotStart(from, to, slot+1, maxMarks)
		for len(spans) > 1 && !spans[0].To.After(start) {
			spans = spans[1:]
		}
		lived := map[state.Phase]time.Duration{}
		longest := spans[0].Phase
		for _, s := range spans {
			if !s.From.Before(end) {
				break
			}
			lived[s.Phase] += earlier(s.To, end).Sub(Later(s.From, start))
			if lived[s.Phase] > lived[longest] {
				longest = s.Phase
			}
		}
		thin = append(thin, Span{Phase: longest, From: start, To: end})
	}
	return joined(thin)
}

func slotStart(from, to time.Time, slot, slots int) time.Time {
	return from.Add(to.Sub(from) / time.Duration(slots) * time.Duration(slot))
}

// marks returns the marks between from and to. A turn or a halt that began earlier begins at from.
func (p *Past) marks(times []time.Time, from, to time.Time) []Mark {
	all := []Mark{}
	for _, m := range slices.Concat(p.moments(times), p.turns(times), p.halts(times)) {
		if m.At.After(to) || m.At.Before(from) && (m.To == nil || !m.To.After(from)) {
			continue
		}
		m.At, m.Count = Later(m.At, from), 1
		if m.To != nil && m.To.After(to) {
			m.To = &to
		}
		all = append(all, m)
	}
	order.Stable(all, func(a, b Mark) int { return a.At.Compare(b.At) })
	if len(all) > maxMarks {
		return thinMarks(all, from, to)
	}
	return all
}

// moments returns the marks without a length.
func (p *Past) moments(times []time.Time) (marks []Mark) {
	kinds := map[factKind]string{factMail: MarkMail, factNudge: MarkNudge, factAnswer: MarkAnswer}
	for i, f := range p.facts {
		if kind := kinds[f.kind]; kind != "" {
			marks = append(marks, Mark{Kind: kind, At: times[i], Text: f.text})
		}
	}
	return marks
}

// turns returns a mark for each attempt. One that runs now ends now. If a damaged history lacks the end
// of an attempt, its mark has no length.
func (p *Past) turns(times []time.Time) (marks []Mark) {
	running := ""
	first := true
	for i, f := range p.facts {
		switch f.kind {
		case factTurnBegins:
			if f.id != running {
				end := times[i]
				marks = append(marks, Mark{Kind: MarkTurn, At: times[i], To: &end, Text: f.text})
			} else if f.text != turnName(nil) {
				marks[len(marks)-1].Text = f.text
			}
			running, first = f.id, false
		case factTurnEnds, factAnswer:
			if first { // it began before the covered days
				marks = append(marks, Mark{Kind: MarkTurn, At: p.start, Text: turnName(nil)})
				running, first = f.id, false
			}
			if f.id == running {
				m := &marks[len(marks)-1]
				m.To, running = &times[i], ""
				if f.kind == factTurnEnds {
					m.Text += ": " + f.text
				}
			}
		}
	}
	if n := len(marks); n > 0 && running != "" && running == p.running {
		now := p.now.UTC()
		marks[n-1].To = &now
	}
	return marks
}

// halts returns a mark for each time in which a HALT was on, here or on the mesh.
func (p *Past) halts(times []time.Time) (marks []Mark) {
	on := map[string]bool{}
	for where, halted := range p.halted {
		i := slices.IndexFunc(p.facts, func(f fact) bool { return (f.kind == factHalt || f.kind == factGo) && f.id == where })
		if i >= 0 && p.facts[i].kind == factGo || i < 0 && halted {
			on[where] = true
		}
	}
	now := p.now.UTC()
	begin := func(at time.Time) { marks = append(marks, Mark{Kind: MarkHalt, At: at, To: &now, Text: "HALT"}) }
	if len(on) > 0 {
		begin(p.start)
	}
	for i, f := range p.facts {
		switch {
		case f.kind == factHalt:
			if len(on) == 0 {
				begin(times[i])
			}
			on[f.id] = true
		case f.kind == factGo && on[f.id]:
			if delete(on, f.id); len(on) == 0 {
				marks[len(marks)-1].To = &times[i]
			}
		}
	}
	return marks
}

// thinMarks joins the marks of one kind that begin in the same slot of the band.
func thinMarks(marks []Mark, from, to time.Time) []Mark {
	slot := to.Sub(from)/time.Duration(maxMarks/kindsOfMarks) + 1
	type place struct {
		kind string
		slot time.Duration
	}
	at := map[place]int{}
	thin := []Mark{}
	for _, m := range marks {
		key := place{m.Kind, m.At.Sub(from) / slot}
		i, known := at[key]
		if !known {
			at[key] = len(thin)
			thin = append(thin, m)
			continue
		}
		thin[i].Count++
		thin[i].Text = fmt.Sprintf("%d %s", thin[i].Count, noun(m.Kind))
		if m.To != nil && m.To.After(*thin[i].To) {
			thin[i].To = m.To
		}
	}
	return thin
}

// noun names several marks of a kind.
func noun(kind string) string {
	switch kind {
	case MarkMail:
		return "messages"
	case MarkNudge:
		return "nudges"
	case MarkTurn:
		return "turns"
	case MarkAnswer:
		return "answers"
	}
	return "times halted"
}
