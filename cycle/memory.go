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

// ErrReset means that the memory was reset while this turn ran.
var ErrReset = errors.New("the memory was reset while this turn ran, so nothing was saved; the next turn can save")

// ErrPeer means that another agent has caused this turn, and that such a turn may
// not do this.
var ErrPeer = errors.New("this turn was caused by another agent; only a turn of your operator may do this")

// Remember replaces the agent's working memory by text, for the turn that it is
// called from. The new text is durable when Remember returns; the old text is
// kept in a file, and the history keeps every text. An empty text empties the
// memory. Remember returns ErrPeer for a turn that another agent has caused,
// unless PeersRemember is set: that agent's words would stand in every context.
func (a *Agent) Remember(ctx context.Context, in Inside, text string) error {
	if err := operatorOnly(a.Store, in); err != nil && !a.PeersRemember {
		return fmt.Errorf("remember: %w", err)
	}
	text = a.Secrets.Redact(strings.TrimSpace(strings.ToValidUTF8(text, "\uFFFD")))
	if len(text) > store.MaxMemory {
		return fmt.Errorf("the memory would have %d bytes, and the limit is %d: keep what matters, and put the rest into a file",
			len(text), store.MaxMemory)
	}
	s, err := a.journal().commitWith(ctx, func(next state.State) error {
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

// operatorOnly returns ErrPeer if another agent has caused the turn that is
// called from. It returns nil for a stale turn; the caller's commit reports that.
func operatorOnly(st *store.Store, in Inside) error {
	s, err := st.Read()
	if err != nil {
		return err
	}
	if msg, ok := s.TurnMessage(); ok && !msg.Operator && s.Turn.Owns(in.TurnID, in.Epoch) {
		return ErrPeer
	}
	return nil
}

// memoryChanged reports whether the step that led to s changed the memory.
func memoryChanged(s state.State) bool {
	return slices.ContainsFunc(s.Lines, func(l state.Line) bool { return l.Kind == state.LineMemory })
}
