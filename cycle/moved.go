package cycle

import (
	"context"
	"time"

	"agentstateloop/state"
	"agentstateloop/state/store"
)

// MarkRestored records that the state was restored from the backup from, made at made: everything
// that may have run or left since waits for a person (docs/protocol.md, "After a restore").
func (a *Agent) MarkRestored(ctx context.Context, made time.Time, from string) error {
	_, err := a.journal().commit(ctx, state.Restored{Made: made, From: from, Seed: store.NewID()})
	return err
}

// MarkMoved records that the agent was moved to the host to, with archive. From then on this state
// takes no other change.
func (a *Agent) MarkMoved(ctx context.Context, to, archive string) error {
	_, err := a.journal().commit(ctx, state.Moved{To: to, Archive: archive})
	return err
}

// MarkStays records that the agent lives here again: a move was taken back, or its archive was
// unpacked here.
func (a *Agent) MarkStays(ctx context.Context) error {
	_, err := a.journal().commit(ctx, state.Unmoved{})
	return err
}
