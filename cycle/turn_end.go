package cycle

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path"
	"time"

	"agentstateloop/cycle/files"
	"agentstateloop/state"
	"agentstateloop/state/store"
	"agentstateloop/turn"
)

// errDenied stops the running of messages in this cycle: the agent's own login was denied, and
// would be denied for the next message too.
var errDenied = errors.New("the agent's credential was denied")

// deniedRest is how long a message waits after the agent's own login was denied. The next cycle
// tries again, and cron may start it slightly less than a minute later (docs/design.md,
// "Credentials").
const deniedRest = 45 * time.Second

// turnEnder delivers, suspends or gives back a turn whose attempt has ended.
type turnEnder struct {
	committer
	deliverer *deliverer
	backend   backend
	sessions  sessions
	biller    *biller
}

// answer delivers the turn of an agent that has answered and whose process still runs. ok is
// false, without a commit, if the turn depends on more than its answer: it waits for other
// agents, its backend cannot be used, or its session cannot go on.
func (e *turnEnder) answer(ctx context.Context, m turnMessage, r turn.Result) (s state.State, ok bool, err error) {
	for {
		if s, err = e.store.Read(); err != nil {
			return s, false, err
		}
		if !s.Turn.Owns(m.head.TurnID, m.head.Epoch) || s.Turn.Waits() && !s.Turn.Finish || r.SessionFailed || r.Outage != nil || r.Credential != nil {
			return s, false, nil
		}
		seen := s.Turn.Submitted
		if s, err = e.deliverer.deliver(ctx, s, m, r); err != nil {
			return s, false, err
		}
		if s.Turn.Submitted == seen || !s.Turn.Owns(m.head.TurnID, m.head.Epoch) {
			return s, true, nil
		}
	}
}

// agentExited commits that the process of a lingering agent has ended, with the cost of the
// attempt. from caused the turn.
func (e *turnEnder) agentExited(ctx context.Context, head state.Head, from string, bill turn.Bill) (state.State, error) {
	live, _ := turn.ReadLive(e.store.Path(store.AttemptDir(head.TurnID, head.Epoch))) // without it the reason stays unknown
	s, err := e.store.Read()
	if err != nil {
		return s, err
	}
	e.tidy(s, head)
	return e.journal.commit(ctx, append(causedBy(from, e.biller.bill(s, head, bill)), e.deliverer.billedEvent(bill), agentEnded(head, live.Reason))...)
}

// orphanExited is agentExited for an agent whose runner has died.
func (e *turnEnder) orphanExited(ctx context.Context, head state.Head, reason string) (state.State, error) {
	s, err := e.store.Read()
	if err != nil {
		return s, err
	}
	e.tidy(s, head)
	return e.journal.commit(ctx, append(e.biller.orphanBill(s, head), agentEnded(head, reason))...)
}

// tidy clears the context folder of an agent that lingered, and takes the large files of its
// answer out of the output folder. The agent may have needed them while it ran.
func (e *turnEnder) tidy(s state.State, head state.Head) {
	clearContext(e.store, store.AttemptDir(head.TurnID, head.Epoch))
	for _, row := range s.Outbox {
		if row.Kind == state.Reply && row.TurnID == head.TurnID && row.Epoch == head.Epoch {
			files.Outgoing{Store: e.store}.TakeOut(row.Files)
		}
	}
}

func agentEnded(head state.Head, reason string) state.AgentEnded {
	return state.AgentEnded{TurnID: head.TurnID, Epoch: head.Epoch, Reason: reason}
}

// causedBy sets the sender who caused a bill. Once the turn is over, its message has left the
// inbox.
func causedBy(from string, bill []state.Event) []state.Event {
	for i, e := range bill {
		if spent, ok := e.(state.Spent); ok {
			spent.From = from
			bill[i] = spent
		}
	}
	return bill
}

// conclude commits the end of an attempt with the result r: its turn is delivered, suspended,
// or given back. errDenied means that the agent's login was denied.
func (e *turnEnder) conclude(ctx context.Context, m turnMessage, r turn.Result) (state.State, error) {
	s, err := e.store.Read()
	if err != nil {
		return s, err
	}
	id, epoch := m.head.TurnID, m.head.Epoch
	bill := e.biller.bill(s, m.head, r.Bill)
	asks := s.Turn.AsksPermission() && r.Exit == turn.ExitError
	if asks { // its program gives up without the permission
		r.Status, r.Reason = turn.Partial, "it waits for permission"
	}
	waits := (endedWell(r) || asks) && s.Turn.Waits() && !s.Turn.Finish && s.Turn.Owns(id, epoch)
	switch {
	case s.Turn.Submitted != "":
		return e.deliverer.deliver(ctx, s, m, r)
	case s.Turn.Stop != "" && (r.SessionFailed || r.Outage != nil || r.Credential != nil):
		r.Status, r.Reason = turn.Canceled, "stopped"
		return e.deliverer.deliver(ctx, s, m, r)
	case r.SessionFailed && !waits:
		clearContext(e.store, m.dir())
		reason := "its session could not be continued, so it is tried with a fresh one: " + r.Reason
		return e.journal.commit(ctx, append(bill, state.GivenBack{TurnID: id, Epoch: epoch, Reason: reason, Fresh: true})...)
	case r.Outage != nil && !e.mayTryAgain(s, m, r, bill): // deliver records the outage
	case r.Outage != nil:
		return e.putOff(ctx, s, m, r, bill)
	case r.Credential != nil && r.Status != turn.Success && !e.backend.isOnly():
		denied, _ := state.CredentialFailure(r.Credential)
		r.Outage = &turn.Outage{Kind: state.LoginRefused, Reason: denied.Err.Error()}
		return e.putOff(ctx, s, m, r, append(bill, state.CredentialFailed{Name: denied.Name, Reason: denied.Err.Error()}))
	case r.Credential != nil && r.Status != turn.Success:
		denied, _ := state.CredentialFailure(r.Credential)
		clearContext(e.store, m.dir())
		s, err = e.journal.commit(ctx, append(bill,
			state.CredentialFailed{Name: denied.Name, Reason: denied.Err.Error()},
			giveBackDenied(m.head, denied))...)
		return s, cmp.Or(err, errDenied)
	case waits && e.biller.overspent(s, m.head, bill):
		r.Status, r.Reason = turn.Partial, e.biller.turnBudget()+" is used up, so the turn does not wait for its answers"
	case waits:
		clearContext(e.store, m.dir())
		s, err = e.journal.commit(ctx, append(bill, state.Suspended{
			TurnID: id, Epoch: epoch, Box: path.Join(m.dir(), "output"), Session: e.deliverer.nextSession(s, m, r),
		}, state.BackendWorked{Backend: e.backend.name()})...)
		if err == nil {
			turn.DropEarlier(e.store.Path(m.dir()), r.Output)
		}
		return s, err
	}
	return e.deliverer.deliver(ctx, s, m, r)
}

// putOff gives back the message of an attempt whose backend cannot be used now.
func (e *turnEnder) putOff(ctx context.Context, s state.State, m turnMessage, r turn.Result, bill []state.Event) (state.State, error) {
	clearContext(e.store, m.dir())
	back := state.GivenBack{TurnID: m.head.TurnID, Epoch: m.head.Epoch, Reason: r.Outage.Reason, Worked: r.Worked, Counts: countsAsAttempt(r)}
	if r.Worked {
		back.Session = e.sessions.after(s, r)
	}
	return e.journal.commit(ctx, append(bill, e.backend.failed(*r.Outage), back)...)
}

// countsAsAttempt reports whether an attempt whose backend failed counts as one of the attempts
// that a turn may have. It does if the agent has done some work and the outage has no known end.
func countsAsAttempt(r turn.Result) bool {
	return r.Outage.Kind == state.Overload && (r.Worked || r.Text != "")
}

// mayTryAgain reports whether the turn may have another attempt after its backend failed.
func (e *turnEnder) mayTryAgain(s state.State, m turnMessage, r turn.Result, bill []state.Event) bool {
	return !(countsAsAttempt(r) && m.msg.Attempts >= e.policy.MaxAttempts) && !e.biller.overspent(s, m.head, bill)
}

// giveBackDenied returns the event of an attempt whose login was denied.
func giveBackDenied(head state.Head, denied *state.CredentialError) state.GivenBack {
	return state.GivenBack{TurnID: head.TurnID, Epoch: head.Epoch, Reason: denied.Error(), Wait: deniedRest}
}

// endedWell reports whether the agent ended by itself, or was ended because it stayed on after
// its work was done.
func endedWell(r turn.Result) bool {
	return r.Exit == turn.ExitClean || r.Exit == turn.ExitIdle && r.Status == turn.Success
}

// releaseTurn ends an attempt whose runner was told to stop. It gives the message back, unless its
// turn was submitted or stopped.
func (e *turnEnder) releaseTurn(ctx context.Context, head state.Head) (state.State, error) {
	const reason = "its runner was told to stop"
	s, err := e.store.Read()
	if err != nil || !s.Turn.Owns(head.TurnID, head.Epoch) {
		return s, err
	}
	if s.Turn.Submitted != "" || s.Turn.Stop != "" {
		return e.giveBack(ctx, s, reason)
	}
	clearContext(e.store, store.AttemptDir(head.TurnID, head.Epoch))
	return e.journal.commit(ctx, append(e.biller.orphanBill(s, head), state.GivenBack{TurnID: head.TurnID, Epoch: head.Epoch, Reason: reason})...)
}

// returnMessage returns a message to the inbox after a fault on this machine, and returns the
// fault. The next poll tries again.
func (e *turnEnder) returnMessage(ctx context.Context, s state.State, fault error) (state.State, error) {
	head := s.Turn
	if head.Submitted != "" || head.Stop != "" {
		s, err := e.giveBack(ctx, s, fault.Error())
		return s, errors.Join(fault, err)
	}
	clearContext(e.store, store.AttemptDir(head.TurnID, head.Epoch))
	s, err := e.journal.commit(ctx, append(e.biller.orphanBill(s, head),
		e.backend.failed(turn.Outage{Kind: state.Obstacle, Reason: fault.Error()}),
		state.GivenBack{TurnID: head.TurnID, Epoch: head.Epoch, Reason: fault.Error()})...)
	return s, errors.Join(fault, err)
}

// GiveBack returns a turn's message to the inbox for another attempt. It closes a turn that was
// submitted or stopped, or has used up its attempts or its budget.
func (e *turnEnder) giveBack(ctx context.Context, s state.State, reason string) (state.State, error) {
	head := s.Turn
	msg, ok := s.Message(head.Key)
	bill := e.biller.orphanBill(s, head)
	switch {
	case head.Submitted != "":
		return e.closeTurn(ctx, s, turn.Result{Status: turn.Success})
	case head.Stop != "":
		return e.closeTurn(ctx, s, turn.Result{Status: turn.Canceled, Reason: "stopped; " + reason})
	case ok && msg.Attempts >= e.policy.MaxAttempts:
		return e.closeTurn(ctx, s, turn.Result{
			Status: turn.Failed,
			Reason: fmt.Sprintf("%s, and this was attempt %d of %d", reason, msg.Attempts, e.policy.MaxAttempts),
		})
	case e.biller.overspent(s, head, bill):
		return e.closeTurn(ctx, s, turn.Result{Status: turn.Failed, Reason: reason + ", and " + e.biller.turnBudget() + " is used up"})
	}
	clearContext(e.store, store.AttemptDir(head.TurnID, head.Epoch))
	return e.journal.commit(ctx, append(bill, state.Reaped{TurnID: head.TurnID, Epoch: head.Epoch, Reason: reason})...)
}

// closeTurn closes the turn of s with a fallback deliverable: the ending r, the agent's output
// so far, and the files in its output folder.
func (e *turnEnder) closeTurn(ctx context.Context, s state.State, r turn.Result) (state.State, error) {
	msg, _ := s.TurnMessage()
	m, err := readMessage(e.store, s.Turn, msg)
	if err != nil {
		r.Notes = append(r.Notes, err.Error())
	}
	m.collect(e.store, s.Collected())
	dir := e.store.Path(m.dir())
	if r.Text == "" {
		r.Text = earlierOutput(e.store, m.dir(), s.Turn.Waiting)
	}
	if !m.head.Pulled {
		r.Bill = e.deliverer.biller.replayBill(dir)
	}
	if list, notes, err := turn.ListOutput(dir); err == nil {
		r.Output, r.Notes = list, append(r.Notes, notes...)
	}
	return e.deliverer.deliver(ctx, s, m, r)
}
