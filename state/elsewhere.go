package state

import (
	"fmt"
	"time"
)

// Two machines may work as one agent: a backup was restored while the old machine goes on, or its
// state directory was copied. Both answer the same mail. Each finds signs of the other: in the
// folder for sent mail, and in the registry of a mesh over NATS (docs/protocol.md, "Two machines").

const (
	// elsewhereFor is how long a sign counts, and the pause between two mails about it.
	elsewhereFor = 24 * time.Hour

	// elsewhereSlack is by how much a sign must be younger than the place of this state. The clocks
	// of two machines differ, and the machine that an agent left may have worked until then.
	elsewhereSlack = 10 * time.Minute
)

// Elsewhere is what this state knows about itself and another machine.
type Elsewhere struct {
	// Since is when the state got its Place, and HostSince when the mesh first knew it on Host.
	// Older signs are of the machine that the agent has left.
	Since     time.Time `json:"since,omitzero"`
	Host      string    `json:"host,omitempty"`
	HostSince time.Time `json:"host_since,omitzero"`

	Sign Sign      `json:"sign,omitzero"` // the newest of the last day
	Told time.Time `json:"told,omitzero"` // when the operator was told
}

// Sign shows that another machine works as this agent.
type Sign struct {
	Place string    `json:"place,omitempty"` // in a mail of ours that this state did not send
	Host  string    `json:"host,omitempty"`  // in the registry of the mesh
	At    time.Time `json:"at"`
}

// Other names the other machine.
func (s Sign) Other() string {
	if s.Host != "" {
		return "host " + s.Host
	}
	return "place " + s.Place
}

func (e *Elsewhere) clampTimes(c clamp) {
	c.past(&e.Since, &e.HostSince, &e.Sign.At, &e.Told)
}

// TwoMachines returns the newest sign of another machine that works as this agent. ok is false if
// there was none within a day.
func (s State) TwoMachines(now time.Time) (sign Sign, ok bool) {
	sign = s.Elsewhere.Sign
	return sign, !sign.At.IsZero() && now.Sub(sign.At) < elsewhereFor
}

// SignsSince returns from when on a mail of ours with another place is a sign.
func (s State) SignsSince(now time.Time) time.Time {
	return latest(s.Elsewhere.Since.Add(elsewhereSlack), now.Add(-elsewhereFor))
}

// ElsewhereSeen reports a sign of another machine.
type ElsewhereSeen Sign

// apply notes the sign, if it is the newest and not of a machine that the agent has left.
func (e ElsewhereSeen) apply(m *machine) {
	if m.policy.Fleet {
		return
	}
	sign, since := Sign(e), m.SignsSince(m.now)
	sign.At = earlier(sign.At.UTC(), m.now)
	if sign.Host != "" {
		since = latest(since, m.Elsewhere.HostSince.Add(elsewhereSlack))
	}
	known := m.Elsewhere.Sign
	if !sign.At.After(since) || !sign.At.After(known.At) {
		return
	}
	m.Elsewhere.Sign, m.newSign = sign, true
	if known.At.IsZero() {
		m.line(Line{Kind: LineRecovery, What: WordTwoMachines, Reason: sign.Other() + " at " + utc(sign.At)})
	}
}

// noteHost records on which host the mesh knows this state. A new name of the machine is a new host.
func (m *machine) noteHost(host string) {
	if host != m.Elsewhere.Host {
		m.Elsewhere.Host, m.Elsewhere.HostSince = host, m.now
	}
}

// setPlace gives the state another place. It drops the sign of the state that had the old one.
func (m *machine) setPlace(place string) {
	m.Place, m.Elsewhere.Since, m.Elsewhere.Sign = place, m.now, Sign{}
}

// endElsewhere forgets a sign after a day.
func (m *machine) endElsewhere() {
	sign := m.Elsewhere.Sign
	if sign.At.IsZero() || m.now.Sub(sign.At) < elsewhereFor {
		return
	}
	m.Elsewhere.Sign = Sign{}
	m.line(Line{Kind: LineRecovery, What: WordOneMachine, Reason: sign.Other() + " was last seen at " + utc(sign.At)})
}

// tellElsewhere tells the operator about a new sign of another machine, at most once a day.
func (m *machine) tellElsewhere() {
	if told := m.Elsewhere.Told; !m.newSign || !told.IsZero() && m.now.Sub(told) < elsewhereFor {
		return
	}
	sign := m.Elsewhere.Sign
	m.Elsewhere.Told = m.now
	m.tellOperator(Effect{Thread: m.subject("TWO MACHINES"), Text: fmt.Sprintf(
		"TWO MACHINES work as @%s: this one (%s), and another one (%s), which last worked at %s.\n\n"+
			"Both may answer your mail, so an answer may come twice, and a message from another agent reaches only one of them.\n\n"+
			"%s\n\nI will remind you once a day, until a day has passed without a sign of the other machine.",
		m.Agent, m.here(), sign.Other(), utc(sign.At), TwoMachinesHint)})
}

// here names this machine.
func (i Identity) here() string {
	if i.Elsewhere.Host == "" {
		return "place " + i.Place
	}
	return "host " + i.Elsewhere.Host + ", place " + i.Place
}

// TwoMachinesHint says what to do about two machines.
const TwoMachinesHint = "Run `agentstateloop move` on one of the two to bring the agent to the other, or `agentstateloop uninstall` on the one that should stop."
