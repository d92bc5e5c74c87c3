package state

import (
	"cmp"
	"slices"
)

// A chain is a message from outside, and what comes of it at whatever agent: turns,
// questions, reports, mails. All of them have its id (docs/design.md, "The contract
// between agents").

// mintTrace returns the id of the chain that begins with the item of this key. It is the
// same whenever the item is taken in, and nobody who does not know the seed can make it.
func (m *machine) mintTrace(key string) string {
	return "trace." + hashHex(m.Seed + "|trace|" + key)[:20]
}

// turnTrace returns the id of the chain that the turn belongs to, or "".
func (m *machine) turnTrace() string {
	msg, ok := m.TurnMessage()
	if !ok {
		return ""
	}
	return cmp.Or(msg.Trace, m.mintTrace(msg.Key)) // an older version took it in without one
}

// traceOf returns the id of the chain that a line belongs to: its turn's, its message's,
// or that of the event which is applied now.
func (m *machine) traceOf(l Line) string {
	trace := l.Trace
	if l.TurnID != "" && l.TurnID == m.Turn.TurnID {
		trace = cmp.Or(trace, m.turnTrace())
	}
	if row := m.message(l.Key); row != nil {
		trace = cmp.Or(trace, row.Trace)
	}
	return cmp.Or(trace, m.trace)
}

// IsOf reports whether the line belongs to the chain, or is the task of a turn that has
// answered a message of it with others.
func (l Line) IsOf(chain string) bool {
	return l.Trace == chain || slices.ContainsFunc(l.Collected, func(msg Message) bool { return msg.Trace == chain })
}

// enqueued records who has sent a message or a nudge that came in.
func (m *machine) enqueued(msg Message) {
	m.line(Line{Kind: LineEdge, What: edgeEnqueue, Source: msg.Source, From: msg.From, To: m.Agent, Request: msg.request(), Key: msg.Key})
}

// request returns the id that both ends of an edge know a message by: the one that a
// report on it repeats, or its key if no agent has sent it.
func (msg Message) request() string {
	if msg.Source == Mesh {
		return msg.Correlation
	}
	return msg.Key
}

// What an edge is about.
const (
	edgeEnqueue = "enqueue" // a message or a nudge came in, or a turn sends one
	edgeReport  = "report"  // an answer came in, or leaves
	edgeJoin    = "join"    // a turn has the answer that it waited for
)
