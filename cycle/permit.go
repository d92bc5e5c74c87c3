package cycle

import (
	"context"
	"fmt"
	"path"

	"agentstateloop/cycle/prompt"
	"agentstateloop/state"
	"agentstateloop/state/store"
	"agentstateloop/turn"
)

// An agent asks for permission to call a tool if its own program cannot decide (docs/protocol.md,
// "Permissions").

// Permission is the decision about such a request.
type Permission struct {
	// Decision is turn.PermissionUsed, which alone permits the call, turn.PermissionAsked,
	// turn.PermissionDenied or turn.PermissionRefused.
	Decision string `json:"decision"`
	Why      string `json:"why"` // the reason, in words for the agent
}

// Permit decides whether the agent of a turn may call a tool. A permission of the operator in
// this turn counts once. Otherwise they are asked, and the attempt is to end: the same turn
// goes on with their answer. Only turns of the operator, of the agent itself and of the clock
// may ask. The errors are ErrStale and those of the disk.
func (a *Agent) Permit(ctx context.Context, in Inside, r turn.ToolRequest) (Permission, error) {
	return a.permitter().permit(ctx, in, r)
}

// permitter decides about the tool calls of an agent.
type permitter struct {
	journal  *journal
	prompter *prompter
	asker    *operatorAsker
}

func (a *Agent) permitter() permitter {
	return permitter{journal: a.journal(), prompter: a.prompter(a.mainBackend()), asker: a.operatorAsker()}
}

func (p permitter) permit(ctx context.Context, in Inside, r turn.ToolRequest) (Permission, error) {
	s, err := in.state(p.journal.core)
	if err != nil {
		return Permission{}, err
	}
	if r.Name == turn.ClaudeAsks {
		return Permission{turn.PermissionRefused, "your operator is not at a terminal; ask them with ask_operator of the server " + turn.ToolServerName}, nil
	}
	if msg, ok := s.TurnMessage(); !ok || !mayAskForPermission(msg) {
		return Permission{turn.PermissionRefused, "the message is not from your operator, so they are not asked; continue without this tool"}, nil
	}
	if s.Turn.AsksPermission() {
		return waitForOperator(), nil
	}
	identity := r.Identity()
	denied := false
	for _, w := range s.Turn.Waiting {
		if w.Permit != identity {
			continue
		}
		if answer, _ := p.prompter.operatorAnswer(w, ""); answer.Option != turn.Allow {
			denied = true
			continue
		}
		used, err := p.use(ctx, in, w.ID)
		if used || err != nil {
			return Permission{Decision: turn.PermissionUsed}, err
		}
	}
	if denied {
		return Permission{turn.PermissionDenied, "your operator was asked about exactly this call and did not allow it; continue without it"}, nil
	}
	return p.ask(ctx, in, r, identity)
}

// use consumes the permission that answered a question. It returns false if another call has
// used it.
func (p permitter) use(ctx context.Context, in Inside, question string) (used bool, err error) {
	s, err := p.journal.commitWith(ctx, func(next state.State) error {
		for _, l := range next.Lines {
			used = used || l.Kind == state.LineTurn && l.What == state.WordPermitted
		}
		return nil
	}, state.Permitted{TurnID: in.TurnID, Epoch: in.Epoch, Question: question})
	if err != nil {
		return false, err
	}
	return used, in.check(s)
}

// ask asks the operator. It refuses a request that cannot be shown whole, because the operator
// cannot judge it.
func (p permitter) ask(ctx context.Context, in Inside, r turn.ToolRequest, identity string) (Permission, error) {
	text, err := r.Question()
	if err != nil {
		return Permission{turn.PermissionRefused, err.Error()}, nil
	}
	id, err := p.asker.ask(ctx, in, OperatorQuestion{Text: text, Options: []string{turn.Allow, turn.Refuse}}, identity)
	if id == "" { // an error along with an id concerns the mail, which is sent later
		return Permission{turn.PermissionRefused, fmt.Sprintf("your operator could not be asked: %v", err)}, nil
	}
	return waitForOperator(), nil
}

func waitForOperator() Permission {
	return Permission{turn.PermissionAsked, "your operator is asked by mail; this turn continues with their answer"}
}

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
		g.Once, g.Refused = turn.Decisions(gr.store.Path(path.Dir(store.AttemptDir(h.TurnID, h.Epoch))), permissions(reports))
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
