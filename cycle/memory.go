package cycle

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"agentstateloop/state"
	"agentstateloop/state/store"
)

// ErrReset: the memory was reset while this turn ran, and the turn is of before.
var ErrReset = errors.New("the memory was reset during this turn, which is of before: nothing was remembered; the next turn can")

// ErrPeer: another agent has caused this turn, which may do less.
var ErrPeer = errors.New("another agent has caused this turn, and this is for your operator's alone")

// Remember replaces the agent's working memory by text, for the turn that it is
// called from: gated, durable when it returns, the text before it kept. The
// history keeps every text. An empty one empties the memory. A peer's turn may
// do so only where the agent lets it (ErrPeer): what stands in every context
// would be the peer's.
func (a *Agent) Remember(ctx context.Context, in Inside, text string) error {
	if err := a.forOperator(in); err != nil && !a.PeersRemember {
		return fmt.Errorf("remember: %w", err)
	}
	text = a.Secrets.Redact(strings.TrimSpace(strings.ToValidUTF8(text, "\uFFFD")))
	if len(text) > store.LongestMemory {
		return fmt.Errorf("the memory would have %d bytes, and holds %d: keep what matters, and put the rest into a file",
			len(text), store.LongestMemory)
	}
	s, err := a.commitWith(ctx, func(next state.State) error {
		if !memoryChanged(next) {
			return nil
		}
		return a.Store.KeepMemory(text)
	}, state.Remembered{TurnID: in.TurnID, Epoch: in.Epoch, Text: text})
	if err != nil {
		return fmt.Errorf("remember: %w", err)
	}
	if err := in.check(s); err != nil {
		return err
	}
	if !memoryChanged(s) {
		return ErrReset
	}
	return nil
}

// forOperator refuses the turn that is called from if another agent has caused
// it. What is stale is for the caller's commit to tell.
func (a *Agent) forOperator(in Inside) error {
	s, err := a.Store.Read()
	if err != nil {
		return err
	}
	if msg, ok := s.TurnMessage(); ok && !msg.Operator && s.Turn.Owns(in.TurnID, in.Epoch) {
		return ErrPeer
	}
	return nil
}

// memoryChanged says whether the step that led to s changed the memory.
func memoryChanged(s state.State) bool {
	return slices.ContainsFunc(s.Lines, func(l state.Line) bool { return l.Kind == state.LineMemory })
}

// Reset begins the agent's memory anew, with a note for its next context. Its
// working memory is set aside: what it held was learnt before.
func (a *Agent) Reset(ctx context.Context, note, origin string) error {
	_, err := a.commitWith(ctx, func(state.State) error { return a.Store.SetMemoryAside() },
		state.MemoryReset{Note: note, Origin: origin})
	return err
}
