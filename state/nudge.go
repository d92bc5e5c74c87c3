package state

import (
	"slices"
	"time"
)

// Nudged reports a nudge from a file or from the mesh.
type Nudged struct {
	Key, From, Reason string
	At                time.Time
	MeshID            string // the mesh holds it until it is acknowledged
}

// apply wakes an idle agent. A nudge adds no row to the inbox.
func (e Nudged) apply(m *machine) {
	m.owe(0, e.MeshID)
	if m.TookNudge(e.Key) || m.seen(e.Key) {
		return
	}
	source := Nudge
	if e.MeshID != "" {
		source = Mesh
	}
	m.noteNudge(source, e.Key, e.From)
	m.trace = m.mintTrace(e.Key)
	m.endSleeps("", nudgeReason(e))
	m.line(Line{Kind: LineNudge, Key: e.Key, Source: source, From: e.From, Reason: e.Reason})
	m.enqueued(Message{Source: Nudge, From: e.From, Key: e.Key})
	m.wake(nudgeReason(e), Thread{}, !m.rangLately())
}

func (e Nudged) rank() (int, time.Time) { return rankArrival, e.At }

// Redacted implements [Redactable].
func (e Nudged) Redacted(redact func(string) string) Event {
	e.Reason = redact(e.Reason)
	return e
}

// noteNudge remembers a nudge: one from a file until that file is gone, one from
// the mesh like any item of the mesh, and who sent it if it wakes.
func (m *machine) noteNudge(source Source, key, from string) {
	if source != Mesh {
		m.Nudges = append(m.Nudges, key)
		m.WokenBy = ""
		return
	}
	m.noteSeen(key)
	if m.Phase == IDLE {
		m.WokenBy = from
	}
}

// Ringing is an ack that was made for a nudge of another agent, which no message
// has followed so far.
type Ringing struct {
	From string    `json:"from"`
	At   time.Time `json:"at"`
}

// rangLately reports whether the agent that wakes us now did so within the hour,
// and the operator was mailed, and no message followed (docs/design.md, "Phases").
func (m *machine) rangLately() bool {
	return m.WokenBy != "" && slices.ContainsFunc(m.Rung, func(r Ringing) bool { return r.From == m.WokenBy })
}

// noteRinging remembers the ack that was just made, if another agent caused it.
func (m *machine) noteRinging() {
	if m.WokenBy != "" {
		m.Rung = append(m.Rung, Ringing{From: m.WokenBy, At: m.now})
	}
}

// messageFollowed forgets who woke the agent, because a message has come since.
func (m *machine) messageFollowed() {
	if by := m.WokenBy; by != "" {
		m.Rung = slices.DeleteFunc(m.Rung, func(r Ringing) bool { return r.From == by })
		m.WokenBy = ""
	}
}

func nudgeReason(e Nudged) string {
	reason := "nudge"
	if e.From != "" {
		reason += " from " + e.From
	}
	if e.Reason != "" {
		reason += ": " + e.Reason
	}
	return reason
}

// NudgeFiles reports the keys of all files in nudges/ now.
type NudgeFiles struct{ Keys []string }

// apply forgets the keys of nudge files that are gone: they cannot be seen again.
func (e NudgeFiles) apply(m *machine) {
	m.Nudges = slices.DeleteFunc(m.Nudges, func(key string) bool { return !slices.Contains(e.Keys, key) })
}

// TookNudge reports whether the nudge file with this key was committed.
func (s State) TookNudge(key string) bool { return slices.Contains(s.Nudges, key) }
