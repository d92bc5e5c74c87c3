package cycle

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"agentstateloop/state"
	"agentstateloop/state/store"
)

// MovedError refuses a change of an agent that was moved to another machine. Two machines that work
// for one agent would answer everything twice.
type MovedError struct {
	Handle string
	state.Moved
}

func (e *MovedError) Error() string {
	where := fmt.Sprintf("@%s was moved to %s on %s", e.Handle, e.To, e.At.UTC().Format("2006-01-02"))
	if e.Archive != "" {
		where += "; its archive is " + e.Archive
	}
	return where + ". Use it there, or bring it back with `agentstateloop move --cancel`."
}

// moved returns the error for a state of an agent that was moved, or nil.
func (c core) moved(s state.State) error {
	if s.Moved == nil {
		return nil
	}
	return &MovedError{Handle: c.handle, Moved: *s.Moved}
}

// here returns a MovedError if the agent was moved, and store.ErrNewer for a state of a newer program,
// of which no file may change. Any other error of the state is left to the caller's next step.
func (c core) here() error {
	s, err := c.store.Read()
	if errors.Is(err, store.ErrNewer) {
		return err
	}
	if err != nil {
		return nil
	}
	return c.moved(s)
}

// Here is Moved and Acts.
func (a *Agent) Here() error { return cmp.Or(a.Moved(), a.Acts()) }

// Moved returns a MovedError if the agent was moved to another machine, and store.ErrNewer for a
// state of a newer program.
func (a *Agent) Moved() error { return a.core().here() }

// Acts returns a *seat.StandbyError if another host acts for the agent, and a *seat.TroubleError if
// none may act from here, as far as it is known here. It uses no network.
func (a *Agent) Acts() error { return a.core().acts() }

// MarkRestored records that the state was restored from the backup from, made at made: everything
// that may have run or left since waits for a person (docs/protocol.md, "After a restore").
func (a *Agent) MarkRestored(ctx context.Context, made time.Time, from string) error {
	_, err := a.journal().commit(ctx, state.Restored{Made: made, From: from, Seed: store.NewID()})
	return err
}

// MarkMoved records that the agent was moved to the host to, with archive. From then on the state
// takes no other change.
func (a *Agent) MarkMoved(ctx context.Context, to, archive string) error {
	_, err := a.journal().commit(ctx, state.Moved{To: to, Archive: archive})
	return err
}

// MarkStays records that the agent lives here again, and that no other machine has worked since the
// move: its archive was unpacked here.
func (a *Agent) MarkStays(ctx context.Context) error {
	_, err := a.journal().commit(ctx, state.Unmoved{})
	return err
}
