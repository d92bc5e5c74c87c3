package cycle

import (
	"path"

	"agentstateloop/cycle/prompt"
	"agentstateloop/state"
	"agentstateloop/state/store"
	"agentstateloop/turn"
)

// Kinds lists the kinds of tools that an agent of runner "acp" may use without asking, by the
// cause of the turn ([turn.acp]).
type Kinds struct {
	Operator, Peer, Event, Task []string
	Self                        []string // for turns that the agent planned in its operator's conversation
}

// granter determines the permissions of attempts.
type granter struct {
	turn   *turn.Config
	store  *store.Store
	rights Rights
	kinds  Kinds

	prompts []ClockPrompt
}

// grants returns the permissions of an attempt of h at m: those of its cause, and those that
// the operator has granted in these reports. The operator is asked for more only in their own
// turns, in turns that the agent planned there, and in turns of the clock.
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

// mayAskForPermission reports whether a turn of this message may ask the operator for
// permission: the message is theirs, or the agent or its clock has planned the turn for them.
// In any other turn a stranger could cause the question.
func mayAskForPermission(m state.Message) bool {
	cause := m.Cause()
	return cause == state.CauseOperator || cause == state.CauseSelf || cause == state.CauseTask
}

// permissions reports by question id whether the operator's answer allows the request.
func permissions(reports []prompt.Report) map[string]bool {
	answers := map[string]bool{}
	for _, r := range reports {
		if r.Operator {
			answers[r.ID] = r.Option == turn.Allow
		}
	}
	return answers
}
