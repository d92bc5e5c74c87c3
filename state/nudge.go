package state

import (
	"slices"
	"strings"
	"time"
)

// Nudging holds the nudges that were taken.
type Nudging struct {
	Nudges []string `json:"nudges,omitempty"` // keys of nudge files that may still be in nudges/

	// Rings are the nudges that no turn of the operator has seen, newest last. LastRing is the
	// newest nudge of all.
	Rings    []Ring `json:"rings,omitempty"`
	LastRing Ring   `json:"last_ring,omitzero"`
}

func (n Nudging) clone() Nudging {
	n.Nudges, n.Rings = slices.Clone(n.Nudges), slices.Clone(n.Rings)
	return n
}

func (n *Nudging) clampTimes(c clamp) {
	c.past(&n.LastRing.At)
	for i := range n.Rings {
		c.past(&n.Rings[i].At)
	}
}

// Nudged reports a nudge from a file or from the mesh.
type Nudged struct {
	Key, From, Reason string
	At                time.Time
	MeshID            string // the mesh holds it until it is acknowledged
}

// apply wakes an idle agent. A nudge adds no row to the inbox.
func (e Nudged) apply(m *machine) {
	m.acknowledgeLater(0, e.MeshID)
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
	m.noteRing(Ring{From: e.From, Reason: ringReason(e.Reason), Source: source, At: m.now})
	m.wokenFor = ringWords(m.LastRing)
	m.wake(nudgeReason(e), "", Thread{}, !m.nudgedLately())
	m.wokenFor = ""
}

func (e Nudged) rank() (int, time.Time) { return rankArrival, e.At }

// Redacted implements [Redactable].
func (e Nudged) Redacted(redact func(string) string) Event {
	e.Reason = redact(e.Reason)
	return e
}

// noteNudge remembers a nudge: one from a file until that file is gone, one from the mesh like any
// item of the mesh. It also remembers the sender of a mesh nudge that wakes the agent.
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

// Ring is a nudge as the ack, the next prompt and the status show it.
type Ring struct {
	From   string    `json:"from,omitempty"`
	Reason string    `json:"reason,omitempty"`
	Source Source    `json:"source,omitempty"` // nudge or mesh
	At     time.Time `json:"at,omitzero"`
}

// Limits on nudges: how many are kept until a turn sees them, and how many characters of a reason.
const (
	maxRings      = 10
	maxRingReason = 200
)

// noteRing keeps a nudge until a turn of the operator has seen it.
func (n *Nudging) noteRing(r Ring) {
	n.LastRing = r
	n.Rings = append(n.Rings, r)
	n.Rings = slices.Delete(n.Rings, 0, max(0, len(n.Rings)-maxRings))
}

// forgetRings forgets the nudges that the beginning turn sees: those from before its dispatch.
// Turns of other agents do not see nudges.
func (m *machine) forgetRings() {
	if msg, ok := m.TurnMessage(); ok && msg.Operator {
		m.Rings = slices.DeleteFunc(m.Rings, func(r Ring) bool { return !r.At.After(m.Turn.Since) })
	}
}

// ringReason returns a reason as one short line.
func ringReason(reason string) string {
	reason = strings.Join(strings.Fields(reason), " ")
	if runes := []rune(reason); len(runes) > maxRingReason {
		return string(runes[:maxRingReason]) + "…"
	}
	return reason
}

// ringWords returns who nudged and why, for the ack, or "".
func ringWords(r Ring) string {
	switch {
	case r.From == "":
		return r.Reason
	case r.Reason == "":
		return r.From
	}
	return r.From + ": " + r.Reason
}

// Ringing is an ack for a nudge of another agent, if no message has followed it yet.
type Ringing struct {
	From string    `json:"from"`
	At   time.Time `json:"at"`
}

// nudgedLately reports whether the agent that wakes us now also did so within the last hour, the
// operator was mailed, and no message followed (docs/design.md, "Phases").
func (h *Hourly) nudgedLately() bool {
	return h.WokenBy != "" && slices.ContainsFunc(h.Rung, func(r Ringing) bool { return r.From == h.WokenBy })
}

// noteNudgeAck remembers the new ack, if another agent caused it.
func (m *machine) noteNudgeAck() {
	if m.WokenBy != "" {
		m.Rung = append(m.Rung, Ringing{From: m.WokenBy, At: m.now})
	}
}

// messageFollowed forgets who woke the agent, because a message has come since.
func (h *Hourly) messageFollowed() {
	if by := h.WokenBy; by != "" {
		h.Rung = slices.DeleteFunc(h.Rung, func(r Ringing) bool { return r.From == by })
		h.WokenBy = ""
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

// apply forgets the keys of nudge files that are gone, because they cannot be seen again.
func (e NudgeFiles) apply(m *machine) {
	m.Nudges = slices.DeleteFunc(m.Nudges, func(key string) bool { return !slices.Contains(e.Keys, key) })
}

// TookNudge reports whether the nudge file with this key was committed.
func (n Nudging) TookNudge(key string) bool { return slices.Contains(n.Nudges, key) }

// TookFile reports that a file in nudges/ was taken as something other than a nudge.
type TookFile struct{ Key string }

// apply lets the file be removed.
func (e TookFile) apply(m *machine) {
	if !m.TookNudge(e.Key) {
		m.Nudges = append(m.Nudges, e.Key)
	}
}
