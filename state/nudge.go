package state

import (
	"slices"
	"time"
)

// Nudged: a doorbell rang.
type Nudged struct {
	Key, From, Reason string
	At                time.Time
	MeshID            string // held by the mesh until acknowledged
}

// apply rings: it wakes an idle agent, and leaves no row.
func (e Nudged) apply(m *machine) {
	m.owe(0, e.MeshID)
	if m.TookNudge(e.Key) || m.seen(e.Key) {
		return
	}
	source := Nudge
	if e.MeshID != "" {
		source = Mesh
	}
	m.tookNudge(source, e.Key)
	m.SleepUntil = time.Time{}
	m.line(Line{Kind: LineNudge, Key: e.Key, Source: source, From: e.From, Reason: e.Reason})
	m.wake(nudgeReason(e), Thread{}, true)
}

// Redacted implements [Redactable].
func (e Nudged) Redacted(redact func(string) string) Event {
	e.Reason = redact(e.Reason)
	return e
}

// tookNudge remembers a nudge: a file's until the file is gone, one held by the
// mesh like any message of it.
func (m *machine) tookNudge(source Source, key string) {
	if source == Mesh {
		m.remember(key)
		return
	}
	m.Nudges = append(m.Nudges, key)
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

// NudgeFiles: the keys of all files in nudges/ now, so that the keys of those
// that are gone can be forgotten.
type NudgeFiles struct{ Keys []string }

// apply drops the keys of nudge files that are gone, since they can
// never be seen again.
func (e NudgeFiles) apply(m *machine) {
	m.Nudges = slices.DeleteFunc(m.Nudges, func(key string) bool { return !slices.Contains(e.Keys, key) })
}

// TookNudge says whether the nudge file with this key was committed.
func (s State) TookNudge(key string) bool { return slices.Contains(s.Nudges, key) }
