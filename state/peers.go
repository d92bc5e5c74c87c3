package state

import (
	"time"
)

// Principal is the party that a turn answers: the operator, another agent with a proven name, or an
// unproven name. Each kind has its own form, and the name that a sender chose comes after a colon.
// So no name turns one principal into another (docs/design.md, "Conversations"). The zero value is
// nobody.
type Principal string

// OperatorPrincipal is the operator, at any of their addresses or terminals.
const OperatorPrincipal Principal = "operator"

// Proof is the proof of the handle under which another agent sent a message. It is "" in a row of a
// version that did not record it.
type Proof string

// The proofs.
const (
	ByToken Proof = "token"
	ByNone  Proof = "none" // trust.mesh = "open" let it in, or a person did

	// ByProgram is for a program on this machine, never for an agent. Its access to this machine is
	// the proof.
	ByProgram Proof = "program"
)

// The forms of other principals; a name follows. olderForm is only for the messages of an older
// version.
const (
	provenForm   = "peer:"
	unprovenForm = "unproven:"
	olderForm    = "older:"
	eventForm    = "event:"
)

// AgentPrincipal returns the principal of another agent, or of a program.
func AgentPrincipal(name string, proof Proof) Principal {
	switch proof {
	case ByToken:
		return Principal(provenForm + name)
	case ByNone:
		return Principal(unprovenForm + name)
	case ByProgram:
		return Principal(eventForm + name)
	}
	return Principal(olderForm + name)
}

// Principal returns the principal that the turn of a message answers.
func (m Message) Principal() Principal {
	if m.Operator {
		return OperatorPrincipal
	}
	return AgentPrincipal(m.From, m.Proof)
}

// Cause determines the rights of a turn ([turn.permissions], [api.tools]).
type Cause string

// The causes of turns.
const (
	CauseOperator Cause = "operator"
	CausePeer     Cause = "peer"
	CauseSelf     Cause = "self"  // the agent itself, in its operator's conversation
	CauseEvent    Cause = "event" // a program
	CauseTask     Cause = "task"  // a prompt by the clock
)

// Cause returns the cause of a message's turn. If an agent plans a row in the turn of another
// agent, or of a program, that one is the cause: the row must not gain rights on the way.
func (m Message) Cause() Cause {
	switch {
	case !m.Operator && m.Proof == ByProgram:
		return CauseEvent
	case !m.Operator:
		return CausePeer
	case m.Source == Clock || m.ByClock:
		return CauseTask
	case m.Source == Self:
		return CauseSelf
	}
	return CauseOperator
}

// TurnPrincipal returns the principal that the active turn answers, or "" if no turn is active.
func (s State) TurnPrincipal() Principal {
	msg, ok := s.TurnMessage()
	if !ok {
		return ""
	}
	return msg.Principal()
}

// MaxHandle is the maximum length of a handle, in characters.
const MaxHandle = 32

// HandleRule is the rule of ValidHandle in words, for errors.
const HandleRule = "a handle has 1 to 32 lower-case letters, digits and hyphens, and does not begin with a hyphen"

// ValidHandle reports whether s is a handle, the name of an agent: a lower-case
// letter or digit, followed by at most 31 lower-case letters, digits and hyphens
// (docs/design.md, "Glossary").
func ValidHandle(s string) bool {
	if s == "" || len(s) > MaxHandle || s[0] == '-' {
		return false
	}
	for _, r := range s {
		if !HandleRune(r) {
			return false
		}
	}
	return true
}

// HandleRune reports whether r is allowed in a handle.
func HandleRune(r rune) bool {
	return r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r == '-'
}

// Published is the last report about this agent to the registry of the mesh (docs/protocol.md, "The
// mesh").
type Published struct {
	Phase  Phase     `json:"phase,omitempty"`
	Asleep bool      `json:"asleep,omitempty"`
	Tier   Tier      `json:"tier,omitempty"`
	At     time.Time `json:"at,omitzero"`
}

// Registered reports that the mesh's registry has the agent's phase, sleep and tier, or that the
// mesh does not take them.
type Registered struct {
	Phase  Phase
	Asleep bool
	Tier   Tier
	Host   string // of this machine, if the mesh knows hosts
}

func (e Registered) apply(m *machine) {
	m.noteHost(e.Host)
	m.Published = Published{Phase: e.Phase, Asleep: e.Asleep, Tier: e.Tier, At: m.now}
}
