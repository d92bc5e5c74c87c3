package state

import (
	"cmp"
	"slices"
)

// A chain is a message from outside and its consequences at all agents: turns, questions, reports,
// mails. All of them have its id (docs/protocol.md, "The contract between agents").

// mintTrace returns the id of the chain that begins with the item under key. The id is the same
// each time the item is taken in. Only somebody who knows the seed can make it.
func (m *machine) mintTrace(key string) string {
	return "trace." + hashHex(m.Seed + "|trace|" + key)[:20]
}

// turnTrace returns the id of the turn's chain, or "".
func (m *machine) turnTrace() string {
	msg, ok := m.TurnMessage()
	if !ok {
		return ""
	}
	return cmp.Or(msg.Trace, m.mintTrace(msg.Key)) // an older version accepted the message without an id
}

// traceOf returns the id of a line's chain: the chain of its turn, of its message, or of the event
// that is applied now.
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

// IsOf reports whether the line belongs to the chain, or is the task of a turn that also answered a
// message of the chain.
func (l Line) IsOf(chain string) bool {
	return l.Trace == chain || slices.ContainsFunc(l.Collected, func(msg Message) bool { return msg.Trace == chain })
}

// enqueued records the sender of a message or a nudge that came in.
func (m *machine) enqueued(msg Message) {
	m.line(Line{Kind: LineEdge, What: edgeEnqueue, Source: msg.Source, From: msg.From, To: m.Agent, Request: msg.request(), Key: msg.Key})
}

// request returns the id by which both ends of an edge know a message: the id that a report on it
// repeats, or its key if it did not come from another agent.
func (msg Message) request() string {
	if msg.Source == Mesh {
		return msg.Correlation
	}
	return msg.Key
}

// The values of What in an edge line.
const (
	edgeEnqueue = "enqueue" // a message or a nudge came in, or a turn sends one
	edgeReport  = "report"  // an answer came in, or leaves
	edgeJoin    = "join"    // a turn has the answer that it waited for
)
