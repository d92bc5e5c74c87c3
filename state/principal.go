package state

// Principal is whom a turn answers: the operator, another agent whose name was
// proved, or a name that nothing proved. Each kind has a form of its own, and what a
// sender calls itself comes after a colon. So no name turns one principal into
// another (docs/design.md, "Conversations"). The zero value is nobody.
type Principal string

// OperatorPrincipal is the operator, whichever of their addresses or terminals a
// message comes from.
const OperatorPrincipal Principal = "operator"

// Proof is what proved the handle that another agent sent a message under. It is ""
// in a row of a version that did not record it.
type Proof string

// The proofs.
const (
	ByToken Proof = "token"
	ByNone  Proof = "none" // trust.mesh = "open" let it in, or a person did

	// ByProgram is of a program on this machine, which could send what it sent. It is
	// not of an agent.
	ByProgram Proof = "program"
)

// The forms of other principals; a name follows. Nobody but the messages of an older
// version themselves is the last.
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

// Principal returns whom the turn of a message answers.
func (m Message) Principal() Principal {
	if m.Operator {
		return OperatorPrincipal
	}
	return AgentPrincipal(m.From, m.Proof)
}

// Cause is what a turn's rights depend on ([turn.permissions], [api.tools]).
type Cause string

// The causes of turns.
const (
	CauseOperator Cause = "operator"
	CausePeer     Cause = "peer"
	CauseSelf     Cause = "self"  // the agent itself, in its operator's conversation
	CauseEvent    Cause = "event" // a program
	CauseTask     Cause = "task"  // a prompt of the clock
)

// Cause returns what causes the turn of a message. What an agent plans in the turn of
// another agent, or of a program, is caused by that one: it must not gain rights on the
// way.
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

// TurnPrincipal returns whom the active turn answers, or nobody if no turn is
// active.
func (s State) TurnPrincipal() Principal {
	msg, ok := s.TurnMessage()
	if !ok {
		return ""
	}
	return msg.Principal()
}
