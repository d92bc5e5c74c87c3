package cycle

import (
	"context"
	"errors"
	"time"

	"agentstateloop/state"
	"agentstateloop/state/store"
)

// MoveOptions describe a move.
type MoveOptions struct {
	To      string // the host that the agent goes to
	Archive string // the path of its archive
	Now     bool   // stop a running turn

	Waiting func(reason string) // is called once for each lock or turn that the move waits for
}

// moveCheck is how often Move looks whether a turn without a runner has ended.
const moveCheck = 50 * time.Millisecond

// ErrBeingRemoved means that `uninstall --purge` removes the agent, or was killed while it did.
var ErrBeingRemoved = errors.New("`uninstall --purge` has not ended: run it again, or `init` to keep the agent")

// Move ends the agent's work on this machine: it waits for the running turn, or stops it, commits
// Moved, removes the crontab lines or the timer, and then calls write, which makes the archive. No poll and no
// turn runs meanwhile. After a kill at any point, Move can be repeated. The error is ErrBeingRemoved
// if the agent is being removed.
func (a *Agent) Move(ctx context.Context, o MoveOptions, write func() error) error {
	if a.Store.BeingRemoved() {
		return ErrBeingRemoved
	}
	m := mover{core: a.core(), options: o, watchdog: a.watchdog(), stop: a.Stop}
	release, err := m.hold(ctx)
	if ctx.Err() != nil && err != nil {
		return ErrInterrupted
	}
	if err != nil {
		return err
	}
	defer release()
	s, err := a.Store.Read()
	if err != nil {
		return err
	}
	if s.Moved == nil || s.Moved.To != o.To || s.Moved.Archive != o.Archive {
		if s.Moved != nil { // to another place, and the first one may have worked
			if err := a.MarkRestored(ctx, s.Moved.At, s.Moved.Archive); err != nil {
				return err
			}
		}
		if err := a.MarkMoved(ctx, o.To, o.Archive); err != nil {
			return err
		}
	}
	if _, _, err := a.timers().stopPolls(ctx, s, false); err != nil {
		return err
	}
	return write()
}

// mover waits until nothing of the agent runs.
type mover struct {
	core
	options  MoveOptions
	watchdog *watchdog
	stop     func(ctx context.Context, reason string) error
}

// hold takes every lock under which a process commits results. The holder of cycle.lock only tries
// turn.lock, so turn.lock comes first.
func (m *mover) hold(ctx context.Context) (release func(), err error) {
	holders := map[string]string{
		store.TurnLock: "the running turn", store.CycleLock: "a poll", store.FetchLock: "the fetch of large mail",
		store.HookLock: "the calls of hooks", store.SentLock: "the copies of sent mail",
	}
	reported := ""
	waits := func(lock string) error {
		if m.store.BeingRemoved() {
			return ErrBeingRemoved
		}
		if lock != reported && m.options.Waiting != nil {
			reported = lock
			m.options.Waiting(holders[lock])
		}
		if lock == store.TurnLock && m.options.Now {
			return m.stopTurn(ctx)
		}
		return nil
	}
	releaseTurn, err := m.store.Hold(ctx, waits, store.TurnLock)
	if err != nil {
		return nil, err
	}
	if err := m.endTurn(ctx); err != nil {
		releaseTurn()
		return nil, err
	}
	releaseRest, err := m.store.Hold(ctx, waits, store.CycleLock, store.FetchLock, store.HookLock, store.SentLock)
	if err != nil {
		releaseTurn()
		return nil, err
	}
	return func() { releaseRest(); releaseTurn() }, nil
}

// stopTurn marks the running turn to stop, once.
func (m *mover) stopTurn(ctx context.Context) error {
	s, err := m.store.Read()
	if err != nil || !s.Turn.Stoppable() || s.Turn.Stop != "" {
		return err
	}
	if err := m.stop(ctx, "the agent moves to another machine"); !errors.Is(err, ErrNothing) {
		return err
	}
	return nil
}

// endTurn ends a turn without a runner. It holds turn.lock, so a turn that is under way has lost its
// runner, or a program has taken it with `inbox next`.
func (m *mover) endTurn(ctx context.Context) error {
	for first := true; ; first = false {
		s, err := m.store.Read()
		if err != nil || s.Moved != nil {
			return err
		}
		if s.Turn.Pulled && s.Turn.InAttempt() && m.options.Now {
			if err := m.stopTurn(ctx); err != nil {
				return err
			}
		}
		if s, err = m.watchdog.reap(ctx); err != nil {
			return err
		}
		if !s.Turn.InAttempt() || s.Turn.Status == state.HeadSuspended {
			return nil
		}
		if first && m.options.Waiting != nil {
			m.options.Waiting("the turn that a program has taken with `inbox next`")
		}
		if err := m.pause(ctx); err != nil {
			return err
		}
	}
}

func (m *mover) pause(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return ErrInterrupted
	case <-time.After(moveCheck):
		return nil
	}
}
