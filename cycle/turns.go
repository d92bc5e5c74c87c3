package cycle

import (
	"context"
	"errors"
	"fmt"
	"time"

	"agentstateloop/state"
	"agentstateloop/turn"
)

// errLost is the cause with which a runner stops an agent whose turn is not its
// own any more.
var errLost = errors.New("the turn is not ours any more")

// lookEvery is how often a runner looks whether its turn is still its own and
// wanted.
const lookEvery = 500 * time.Millisecond

// Turns runs the inbox, one message at a time, until nothing can run, and says
// how many turns ended. Another runner at work is no error: it takes what is
// there.
func (a *Agent) Turns(ctx context.Context) (int, error) {
	if a.Turn == nil {
		return 0, nil
	}
	ran := 0
	for ctx.Err() == nil {
		s, err := a.Store.Read()
		if err != nil {
			return ran, err
		}
		if !s.CanRun(a.Policy, a.Now()) && !owned(s.Turn) {
			return ran, nil
		}
		lock, err := a.Store.TryLock(state.TurnLock)
		if err != nil || lock == nil {
			return ran, err
		}
		n, err := a.drain(ctx)
		lock.Unlock()
		ran += n
		if err != nil {
			return ran, err
		}
	}
	return ran, nil
}

// drain claims and runs messages until there is none. The caller holds
// turn.lock, so that a turn found under way has lost its owner.
func (a *Agent) drain(ctx context.Context) (int, error) {
	if _, err := a.reap(ctx); err != nil {
		return 0, err
	}
	for ran := 0; ; ran++ {
		s, err := a.commit(ctx, state.Claimed{})
		if err != nil || s.Turn.Status != state.HeadDispatched {
			return ran, err
		}
		if err := a.runTurn(ctx, s); err != nil {
			return ran, err
		}
		if err := a.sendNow(ctx); err != nil {
			return ran + 1, err
		}
		if ctx.Err() != nil {
			return ran + 1, nil
		}
	}
}

// runTurn runs one attempt at the message that s has just dispatched.
func (a *Agent) runTurn(ctx context.Context, s state.State) error {
	head := s.Turn
	msg, _ := s.Find(head.Key)
	w, err := a.load(head, msg)
	if err != nil {
		_, err = a.deliver(ctx, w, turn.Result{Status: turn.Failed, Reason: err.Error()})
		return err
	}
	dir := a.Store.Path(w.dir())
	if err := turn.Prepare(dir, w.context(), ""); err != nil {
		_, giveBackErr := a.giveBack(ctx, s, err.Error())
		return errors.Join(err, giveBackErr)
	}
	if s, err = a.commit(ctx, state.Started{TurnID: head.TurnID, Epoch: head.Epoch}); err != nil {
		return err
	}
	if !s.Turn.Owns(head.TurnID, head.Epoch) {
		return nil
	}

	guarded, release := a.guard(ctx, head)
	result, err := a.Turn.Run(guarded, turn.Attempt{
		Dir: dir, TurnID: head.TurnID, Epoch: head.Epoch, Prompt: a.prompt(w),
		Env: map[string]string{"AGENTSTATELOOP_CONFIG": a.Config, "AGENTSTATELOOP_HANDLE": a.Handle},
	}, nil)
	release()
	switch {
	case errors.Is(err, errLost):
		return nil // nothing sent, nothing written
	case ctx.Err() != nil:
		_, err = a.giveBack(ctx, s, "its runner was told to stop")
		return err
	case err != nil:
		_, giveBackErr := a.giveBack(ctx, s, err.Error())
		return errors.Join(err, giveBackErr)
	}
	_, err = a.deliver(ctx, w, result)
	return err
}

// guard gives a context that ends when the turn is not ours any more, or is to
// be stopped. The caller must call release.
func (a *Agent) guard(ctx context.Context, head state.Head) (guarded context.Context, release func()) {
	guarded, cancel := context.WithCancelCause(ctx)
	done := make(chan struct{})
	go func() {
		tick := time.NewTicker(lookEvery)
		defer tick.Stop()
		for {
			select {
			case <-done:
				return
			case <-guarded.Done():
				return
			case <-tick.C:
			}
			s, err := a.Store.Read()
			switch {
			case err != nil:
				continue // a state that cannot be read now says nothing about the turn
			case !s.Turn.Owns(head.TurnID, head.Epoch):
				cancel(errLost)
			case s.Turn.Stop != "":
				cancel(turn.ErrStopped)
			}
		}
	}()
	return guarded, func() { close(done); cancel(nil) }
}

// sendNow performs steps 4 and 5 for what a turn has put into the outbox. When
// a cycle is under way, that one sends.
func (a *Agent) sendNow(ctx context.Context) error {
	lock, err := a.Store.TryLock(state.CycleLock)
	if err != nil || lock == nil {
		return err
	}
	defer lock.Unlock()
	s, err := a.Store.Read()
	if err != nil {
		return err
	}
	if s, err = a.project(ctx, s, nil); err != nil {
		return fmt.Errorf("project: %w", err)
	}
	_, _, err = a.perform(ctx, s)
	return err
}
