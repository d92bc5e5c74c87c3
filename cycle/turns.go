package cycle

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path"
	"time"

	"agentstateloop/state"
	"agentstateloop/turn"
)

// errLost is the cause with which a runner stops an agent whose turn is not its
// own any more.
var errLost = errors.New("the turn is not ours any more")

// errRefused ends the running of messages for this cycle: the agent's own login
// was refused, and would be for the next message, too.
var errRefused = errors.New("the agent's credential was refused")

// lookEvery is how often a runner looks whether its turn is still its own and
// wanted.
const lookEvery = 500 * time.Millisecond

// credentialRest is how long a message waits when the agent's own login was
// refused: the next cycle tries again (DESIGN 10).
const credentialRest = time.Minute

// Turns runs the inbox, one message at a time, until nothing can run, and says
// how many attempts were made. Another runner at work is no error: it takes
// what is there.
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
		if !s.CanRun(a.Policy, a.Now()) {
			return ran, nil
		}
		held, err := a.under(state.TurnLock, func() error {
			n, err := a.drain(ctx)
			ran += n
			return err
		})
		if errors.Is(err, errRefused) {
			return ran, nil
		}
		if err != nil || !held {
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
			return ran, err // a refused login is no error of the poll, see Turns
		}
		if err := a.sendNow(ctx); err != nil {
			return ran + 1, err
		}
		if ctx.Err() != nil {
			return ran + 1, nil
		}
	}
}

// runTurn makes one attempt at the message that s has just dispatched.
func (a *Agent) runTurn(ctx context.Context, s state.State) error {
	head := s.Turn
	msg, _ := s.Find(head.Key)
	w, err := a.load(head, msg)
	if err != nil {
		return a.close(ctx, w, turn.Result{Status: turn.Failed, Reason: err.Error()})
	}
	if head.Resumed {
		w.reports = a.reports(head.Waiting)
		w.said = turn.Said(a.Store.Path(path.Dir(head.Box)))
	}
	history, err := a.recall(s.Reset)
	if err != nil {
		return a.returned(ctx, s, err)
	}
	dir := a.Store.Path(w.dir())
	if err := turn.Prepare(dir, w.context(history), a.carried(head)); err != nil {
		return a.returned(ctx, s, err)
	}
	session, prompt := a.goesOn(s), a.prompt(s, w, history)
	if s, err = a.commit(ctx, state.Started{TurnID: head.TurnID, Epoch: head.Epoch}); err != nil {
		return err
	}
	if !s.Turn.Owns(head.TurnID, head.Epoch) {
		return nil
	}

	guarded, release := a.guard(ctx, head)
	result, err := a.attempt(guarded, turn.Attempt{
		Dir: dir, TurnID: head.TurnID, Epoch: head.Epoch,
		Prompt: prompt, Session: session, Extra: a.Rights.of(msg),
		Env: map[string]string{"AGENTSTATELOOP_CONFIG": a.Config, "AGENTSTATELOOP_HANDLE": a.Handle},
	})
	release()
	switch {
	case errors.Is(err, errLost):
		return nil // nothing sent, nothing written
	case err != nil && ctx.Err() != nil:
		_, err = a.commit(ctx, state.GivenBack{TurnID: head.TurnID, Epoch: head.Epoch, Reason: "its runner was told to stop"})
		return err
	case err != nil:
		return a.returned(ctx, s, err)
	}
	return a.settle(ctx, w, result)
}

// attempt starts the agent and follows it to its end.
func (a *Agent) attempt(ctx context.Context, at turn.Attempt) (turn.Result, error) {
	if a.Attempt != nil {
		return a.Attempt(ctx, at)
	}
	return a.Turn.Run(ctx, at, nil)
}

// settle decides, from what the attempt came to, what becomes of its turn.
func (a *Agent) settle(ctx context.Context, w work, r turn.Result) error {
	s, err := a.Store.Read()
	if err != nil {
		return err
	}
	id, epoch := w.head.TurnID, w.head.Epoch
	switch {
	case s.Turn.Submitted != "":
		return a.close(ctx, w, r)
	case r.SessionStale:
		_, err = a.commit(ctx, state.GivenBack{TurnID: id, Epoch: epoch, Reason: "its session was gone, a fresh one begins", Forget: true})
		return err
	case r.Credential != nil && r.Status != turn.Success:
		refused, _ := state.CredentialFailure(r.Credential)
		_, err = a.commit(ctx,
			state.CredentialFailed{Name: refused.Name, Reason: refused.Err.Error()},
			state.GivenBack{TurnID: id, Epoch: epoch, Reason: refused.Error(), Wait: credentialRest})
		return cmp.Or(err, errRefused)
	case endedWell(r) && len(s.Turn.Waiting) > 0 && s.Turn.Owns(id, epoch):
		_, err = a.commit(ctx, state.Suspended{
			TurnID: id, Epoch: epoch, Box: path.Join(w.dir(), "output"), Session: a.session(r),
		})
		return err
	}
	return a.close(ctx, w, r)
}

// endedWell says whether the agent came to its end by itself, or lingered after
// it was done.
func endedWell(r turn.Result) bool {
	return r.Exit == turn.ExitClean || r.Exit == turn.ExitIdle && r.Status == turn.Success
}

// returned gives a message back after a fault of ours, and tells the fault.
func (a *Agent) returned(ctx context.Context, s state.State, fault error) error {
	_, err := a.giveBack(ctx, s, fault.Error())
	return errors.Join(fault, err)
}

// session is what the next turn goes on with.
func (a *Agent) session(r turn.Result) state.Session {
	if r.Session == "" {
		return state.Session{}
	}
	return state.Session{Runner: a.Turn.Runner, ID: r.Session}
}

// carried is the output box that a resumed attempt begins with.
func (a *Agent) carried(h state.Head) string {
	if !h.Resumed || h.Box == "" {
		return ""
	}
	return a.Store.Path(h.Box)
}

// of gives the arguments for a turn by its cause.
func (r Rights) of(m state.Message) []string {
	if m.Operator {
		return r.Operator
	}
	return r.Peer
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
// a cycle is under way, that one sends. Whoever finds cycle.lock taken here
// leaves, as from a cycle: so what came meanwhile is looked for, and left to a
// detached poll, since the caller may be busy with a turn for long.
func (a *Agent) sendNow(ctx context.Context) error {
	var s state.State
	held, err := a.under(state.CycleLock, func() (err error) {
		s, err = a.flush(ctx)
		return err
	})
	if err != nil || !held {
		return err
	}
	again, err := a.unseen(&Report{serial: s.Serial})
	if err != nil || !again {
		return err
	}
	return a.Detach()
}

// flush is steps 4 and 5 alone. The caller holds cycle.lock.
func (a *Agent) flush(ctx context.Context) (state.State, error) {
	s, err := a.Store.Read()
	if err != nil {
		return s, err
	}
	if s, err = a.project(ctx, s, nil); err != nil {
		return s, fmt.Errorf("project: %w", err)
	}
	s, _, err = a.perform(ctx, s)
	return s, err
}
