package cycle

import (
	"path"

	"agentstateloop/cycle/prompt"
	"agentstateloop/state"
	"agentstateloop/state/store"
	"agentstateloop/turn"
)

// Kinds are the kinds of tools that an agent of runner "acp" may use without asking
// anybody, depending on what caused the turn ([turn.acp]).
type Kinds struct {
	Operator, Peer, Event, Task []string
	Self                        []string // of what the agent planned in its operator's conversation
}

// granter decides what an attempt may do.
type granter struct {
	turn   *turn.Config
	store  *store.Store
	rights Rights
	kinds  Kinds

	prompts []ClockPrompt
}

// grants returns what an attempt of h at m may do: what its cause is granted, and what
// the operator has allowed in these reports. Only in the operator's own turns, in those
// that the agent planned there and in those of the clock, the operator is asked about the
// rest.
func (gr granter) grants(h state.Head, m state.Message, reports []prompt.Report) turn.ACPGrants {
	if gr.turn.Runner != turn.ACP {
		return turn.ACPGrants{}
	}
	g := turn.ACPGrants{Ask: mayAskForPermission(m)}
	switch m.Cause() {
	case state.CauseOperator:
		g.Kinds = gr.kinds.Operator
	case state.CauseSelf:
		g.Kinds = gr.kinds.Self
	case state.CauseTask:
		g.Kinds = gr.kinds.Task
	case state.CauseEvent:
		g.Kinds = gr.kinds.Event
	default:
		g.Kinds = gr.kinds.Peer
	}
	if g.Ask {
		g.Once, g.Refused = turn.Answered(gr.store.Path(path.Dir(attemptDir(h.TurnID, h.Epoch))), permissions(reports))
	}
	return g
}

// mayAskForPermission reports whether the operator is asked what a turn of this message may do:
// the message is theirs, or the agent or its clock has planned the turn for them. In any other
// turn a stranger could have them asked.
func mayAskForPermission(m state.Message) bool {
	cause := m.Cause()
	return cause == state.CauseOperator || cause == state.CauseSelf || cause == state.CauseTask
}

// permissions returns which of the operator's answers allow what the agent asked for, by
// the id of the question.
func permissions(reports []prompt.Report) map[string]bool {
	answers := map[string]bool{}
	for _, r := range reports {
		if r.Operator {
			answers[r.ID] = r.Option == turn.Allow
		}
	}
	return answers
}
