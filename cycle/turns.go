package cycle

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path"
	"time"

	"agentstateloop/state"
	"agentstateloop/state/store"
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
// refused: the next cycle tries again (DESIGN 10), also one that cron starts
// somewhat less than a minute later.
const credentialRest = 45 * time.Second

// Turns runs the inbox, one message at a time, until nothing can run, and says
// how many attempts were made. Another runner at work is no error: it takes
// what is there.
func (a *Agent) Turns(ctx context.Context) (int, error) {
	var r Report
	err := a.turns(ctx, &r)
	return r.Turns, err
}

// turns is Turns; it adds what was run and sent to the report.
func (a *Agent) turns(ctx context.Context, r *Report) error {
	if a.Turn == nil {
		return nil
	}
	for ctx.Err() == nil {
		s, err := a.Store.Read()
		if err != nil {
			return err
		}
		if !s.CanRun(a.Policy, a.Now()) {
			return nil
		}
		held, err := a.withLock(store.TurnLock, func() error { return a.drain(ctx, r) })
		if errors.Is(err, errRefused) {
			return nil
		}
		if err != nil || !held {
			return err
		}
	}
	return nil
}

// drain claims and runs messages until there is none. The caller holds
// turn.lock, so that a turn found under way has lost its owner.
func (a *Agent) drain(ctx context.Context, r *Report) error {
	if _, err := a.reap(ctx); err != nil {
		return err
	}
	if err := a.endSummary(ctx); err != nil {
		return err
	}
	var p past
	for ctx.Err() == nil {
		s, err := a.commit(ctx, state.Claimed{})
		if err != nil || s.Turn.Status != state.HeadDispatched {
			return err
		}
		s, err = a.runTurn(ctx, s, &p)
		refused := errors.Is(err, errRefused)
		if err != nil && !refused {
			return err
		}
		r.Turns++
		sent, err := a.sendDue(ctx, s) // the reply, or word of the refusal
		r.Sent += sent
		if err != nil {
			return err
		}
		if refused {
			return errRefused
		}
	}
	return nil
}

// runTurn makes one attempt at the message that s has just dispatched.
func (a *Agent) runTurn(ctx context.Context, s state.State, p *past) (state.State, error) {
	head := s.Turn
	msg, _ := s.Message(head.Key)
	w, err := a.load(head, msg)
	if err != nil {
		return a.deliver(ctx, s, w, turn.Result{Status: turn.Failed, Reason: err.Error()})
	}
	if head.Resumed {
		w.reports = a.reports(head.Waiting)
		w.said = turn.ReplayOutput(a.Store.Path(path.Dir(head.Box)))
	}
	if s, err = a.rotate(ctx, s); err != nil {
		return s, err
	}
	if !head.Resumed && s.Turn.Owns(head.TurnID, head.Epoch) && !a.affords(s, msg) {
		return a.commit(ctx, state.GivenBack{TurnID: head.TurnID, Epoch: head.Epoch, Reason: "the summary of its session took what money was left"})
	}
	history, err := a.recall(s, p, w.subject, w.text)
	if err != nil {
		return a.returned(ctx, s, err)
	}
	prompt, err := a.prompt(a.promptData(s, w, history))
	if err != nil {
		return a.returned(ctx, s, err)
	}
	dir := a.Store.Path(w.dir())
	if err := turn.Prepare(dir, w.context(history.text, prompt.System), a.carried(head)); err != nil {
		return a.returned(ctx, s, err)
	}
	session := a.goesOn(s)
	s, err = a.commit(ctx, state.Started{TurnID: head.TurnID, Epoch: head.Epoch})
	if err != nil || !s.Turn.Owns(head.TurnID, head.Epoch) {
		return s, err
	}

	env := map[string]string{"AGENTSTATELOOP_CONFIG": a.Config, "AGENTSTATELOOP_HANDLE": a.Handle}
	if head.Resumed {
		env["AGENTSTATELOOP_RESUMED"] = "1" // what it is told is new to the turn
	}
	guarded, release := a.guard(ctx, head)
	result, err := a.attempt(guarded, turn.Attempt{
		Dir: dir, TurnID: head.TurnID, Epoch: head.Epoch,
		Prompt: []byte(prompt.Stdin), Session: session, Extra: a.Rights.of(msg),
		Env: env,
	})
	release()
	switch {
	case errors.Is(err, errLost):
		return s, nil // nothing sent, nothing written
	case err != nil && ctx.Err() != nil:
		return a.letGo(ctx, head)
	case err != nil:
		return a.returned(ctx, s, err)
	}
	return a.conclude(ctx, w, result)
}

// attempt starts the agent and follows it to its end.
func (a *Agent) attempt(ctx context.Context, at turn.Attempt) (turn.Result, error) {
	if a.RunTurn != nil {
		return a.RunTurn(ctx, at)
	}
	return a.Turn.Run(ctx, at, nil)
}

// conclude decides, from what the attempt came to, what becomes of its turn.
func (a *Agent) conclude(ctx context.Context, w turnMessage, r turn.Result) (state.State, error) {
	s, err := a.Store.Read()
	if err != nil {
		return s, err
	}
	id, epoch := w.head.TurnID, w.head.Epoch
	bill := a.bill(s, w.head, r.Bill)
	waits := endedWell(r) && len(s.Turn.Waiting) > 0 && s.Turn.Owns(id, epoch)
	switch {
	case s.Turn.Submitted != "":
		return a.deliver(ctx, s, w, r)
	case s.Turn.Stop != "" && (r.SessionStale || r.Credential != nil):
		r.Status, r.Reason = turn.Canceled, "stopped"
		return a.deliver(ctx, s, w, r)
	case r.SessionStale:
		return a.commit(ctx, append(bill,
			state.GivenBack{TurnID: id, Epoch: epoch, Reason: "its session was gone, a fresh one begins", Forget: true})...)
	case r.Credential != nil && r.Status != turn.Success:
		refused, _ := state.CredentialFailure(r.Credential)
		s, err = a.commit(ctx, append(bill,
			state.CredentialFailed{Name: refused.Name, Reason: refused.Err.Error()},
			state.GivenBack{TurnID: id, Epoch: epoch, Reason: refused.Error(), Wait: credentialRest})...)
		return s, cmp.Or(err, errRefused)
	case waits && a.overspent(s, w.head, bill):
		r.Status, r.Reason = turn.Partial, a.turnBudget()+" is used up, so that what it asked is not waited for"
	case waits:
		return a.commit(ctx, append(bill, state.Suspended{
			TurnID: id, Epoch: epoch, Box: path.Join(w.dir(), "output"), Session: a.session(s, r),
		})...)
	}
	return a.deliver(ctx, s, w, r)
}

// letGo ends an attempt whose runner was told to go: the message is given back,
// unless its turn is over all the same.
func (a *Agent) letGo(ctx context.Context, head state.Head) (state.State, error) {
	const reason = "its runner was told to stop"
	s, err := a.Store.Read()
	if err != nil || !s.Turn.Owns(head.TurnID, head.Epoch) {
		return s, err
	}
	if s.Turn.Submitted != "" || s.Turn.Stop != "" {
		return a.giveBack(ctx, s, reason)
	}
	return a.commit(ctx, append(a.billed(s, head), state.GivenBack{TurnID: head.TurnID, Epoch: head.Epoch, Reason: reason})...)
}

// endedWell says whether the agent came to its end by itself, or lingered after
// it was done.
func endedWell(r turn.Result) bool {
	return r.Exit == turn.ExitClean || r.Exit == turn.ExitIdle && r.Status == turn.Success
}

// returned gives a message back after a fault of ours, and tells the fault.
func (a *Agent) returned(ctx context.Context, s state.State, fault error) (state.State, error) {
	s, err := a.giveBack(ctx, s, fault.Error())
	return s, errors.Join(fault, err)
}

// session is what the next turn goes on with.
func (a *Agent) session(s state.State, r turn.Result) state.Session {
	if r.Session == "" {
		return state.Session{}
	}
	return state.Session{Runner: a.Turn.Runner, ID: r.Session, Context: holds(s, r), Window: r.Window}
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
	go a.Secrets.Guarded(func() {
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
	})()
	return guarded, func() { close(done); cancel(nil) }
}

// sendNow performs steps 4 and 5 for what a turn has put into the outbox, as s
// shows. When a cycle is under way, that one sends. Whoever finds cycle.lock
// taken here leaves, as from a cycle: so what came meanwhile is looked for, and
// left to a detached poll, since the caller may be busy with a turn for long.
func (a *Agent) sendNow(ctx context.Context, s state.State) error {
	_, err := a.sendDue(ctx, s)
	return err
}

// sendDue is sendNow, and says how many effects were sent.
func (a *Agent) sendDue(ctx context.Context, s state.State) (sent int, err error) {
	if len(s.DueEffects(a.Now())) == 0 && len(s.ToAck) == 0 && !a.misplaced(s) {
		return 0, nil
	}
	held, err := a.withLock(store.CycleLock, func() (err error) {
		s, sent, err = a.flush(ctx)
		return err
	})
	if err != nil || !held {
		return sent, err
	}
	again, err := a.unseen(&Report{serial: s.Serial})
	if err != nil || !again {
		return sent, err
	}
	return sent, a.Detach()
}

// flush is steps 4 and 5 alone. The caller holds cycle.lock.
func (a *Agent) flush(ctx context.Context) (s state.State, sent int, err error) {
	if s, err = a.Store.Read(); err != nil {
		return s, 0, err
	}
	if s, err = a.project(ctx, s, nil); err != nil {
		return s, 0, fmt.Errorf("project: %w", err)
	}
	return a.perform(ctx, s)
}
