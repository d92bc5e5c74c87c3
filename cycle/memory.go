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

// Remember replaces the working memory of the calling turn's principal: the operator, or the
// agent that caused the turn. The new text is durable when Remember returns. The old text is
// kept in a file, and the history keeps every text. An empty text empties the memory.
func (a *Agent) Remember(ctx context.Context, in Inside, text string) error {
	text = a.Secrets.Redact(strings.TrimSpace(strings.ToValidUTF8(text, "\uFFFD")))
	if len(text) > store.MaxMemory {
		return fmt.Errorf("the memory would have %d bytes, and the limit is %d: keep what matters, and put the rest into a file",
			len(text), store.MaxMemory)
	}
	s, err := a.journal().commitWith(ctx, func(next state.State) error {
		if !memoryChanged(next) {
			return nil
		}
		return a.Store.KeepMemory(next.TurnPrincipal(), text)
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

// memoryChanged reports whether the step that led to s changed the memory.
func memoryChanged(s state.State) bool {
	return slices.ContainsFunc(s.Lines, func(l state.Line) bool { return l.Kind == state.LineMemory })
}
