package cycle

import (
	"context"
	"errors"
	"fmt"
	"time"

	"agentstateloop/state"
	"agentstateloop/state/store"
	"agentstateloop/turn"
)

// What people and pulling agents do with the inbox.

// Pulled is a message that `inbox next` hands out.
type Pulled struct {
	TurnID string       `json:"turn_id"`
	Epoch  uint64       `json:"turn_epoch"`
	Key    string       `json:"key"`
	Source state.Source `json:"source"`
	From   string       `json:"from"`
	Text   string       `json:"text"`
	Note   string       `json:"note,omitempty"`
}

// ErrNothing: there is no message to take.
var ErrNothing = errors.New("nothing waits")

// Next takes the next message for an agent that pulls. Its turn is reaped when
// `inbox done` has not come within turn.timeout.
func (a *Agent) Next(ctx context.Context) (Pulled, error) {
	if a.Turn != nil {
		return Pulled{}, errors.New(`turn.runner runs the messages; set it to "none" to pull them`)
	}
	var next Pulled
	held, err := a.withLock(store.TurnLock, func() (err error) {
		if _, err = a.reap(ctx); err == nil {
			next, err = a.next(ctx)
		}
		return err
	})
	if err == nil && !held {
		err = ErrBusy
	}
	return next, err
}

// next takes the first message that can be read. One that cannot has its answer
// all the same. The caller holds turn.lock.
func (a *Agent) next(ctx context.Context) (Pulled, error) {
	for {
		s, err := a.commit(ctx, state.Claimed{Pull: true})
		if err != nil {
			return Pulled{}, err
		}
		head := s.Turn
		if head.Status == state.HeadRunning {
			return Pulled{}, fmt.Errorf("turn %s is not done: end it with `inbox done`", head.TurnID)
		}
		if head.Status != state.HeadDispatched {
			return Pulled{}, a.untaken(s)
		}
		if s, err = a.commit(ctx, state.Started{TurnID: head.TurnID, Epoch: head.Epoch}); err != nil {
			return Pulled{}, err
		}
		msg, _ := s.Message(head.Key)
		w, err := a.load(head, msg)
		if err == nil {
			return Pulled{
				TurnID: head.TurnID, Epoch: head.Epoch, Key: msg.Key, Source: msg.Source, From: msg.From,
				Text: w.text, Note: msg.Note,
			}, nil
		}
		if s, err = a.deliver(ctx, s, w, turn.Result{Status: turn.Failed, Reason: err.Error()}); err != nil {
			return Pulled{}, err
		}
		if err := a.sendNow(ctx, s); err != nil {
			return Pulled{}, err
		}
	}
}

// untaken says why there was no message to take: ErrNothing if none is there.
func (a *Agent) untaken(s state.State) error {
	broke := a.Broke(s)
	switch {
	case len(s.Inbox) == 0:
		return ErrNothing
	case s.Halted():
		return ErrHalted
	case a.Now().Before(s.CooldownUntil):
		return fmt.Errorf("after five failed turns the agent rests until %s", s.CooldownUntil.Format(time.RFC3339))
	case broke != "":
		return fmt.Errorf("the agent is out of money: %s", broke)
	case s.Tier(a.Policy, a.Now()) == state.TierCritical:
		return errors.New("money is short, and nothing of the operator's waits: see `agentstateloop status`")
	}
	return errors.New("what is there waits for a later time: see `agentstateloop inbox list`")
}

// Done ends the turn that Next has handed out, with its deliverable, and sends
// that.
func (a *Agent) Done(ctx context.Context, in Inside, text string) error {
	s, err := a.mine(in)
	if err != nil {
		return err
	}
	if !s.Turn.Pulled {
		return errors.New("that turn was not taken by `inbox next`")
	}
	if s, err = a.closed(ctx, s, turn.Result{Status: turn.Success, Text: text}); err != nil {
		return err
	}
	return a.sendNow(ctx, s)
}

// Retry queues a message again that waits for a later time or was given up.
func (a *Agent) Retry(ctx context.Context, key string) error {
	s, err := a.Store.Read()
	if err != nil {
		return err
	}
	msg, err := a.findMessage(s, key)
	if err != nil {
		return err
	}
	if _, waits := s.Message(key); waits && msg.Status != state.Deferred {
		return fmt.Errorf("%s is %s already", key, msg.Status)
	}
	_, err = a.commit(ctx, state.Retried{Message: msg})
	return err
}

// Drop takes a waiting message out of the inbox; it gets no turn.
func (a *Agent) Drop(ctx context.Context, key, reason string) error {
	s, err := a.Store.Read()
	if err != nil {
		return err
	}
	msg, waits := s.Message(key)
	if !waits {
		return fmt.Errorf("no message %s waits: see `inbox list`", key)
	}
	if msg.Status == state.Pending || msg.Status == state.Processing {
		return fmt.Errorf("%s has its turn now: use `stop`", key)
	}
	_, err = a.commit(ctx, state.Dropped{Key: key, Reason: reason})
	return err
}

// Stop marks the active turn; its runner ends the agent and delivers what there
// is, marked canceled. ErrNothing: no turn is active.
func (a *Agent) Stop(ctx context.Context, reason string) error {
	s, err := a.commit(ctx, state.Stopped{Reason: reason})
	if err != nil {
		return err
	}
	if s.Turn.Status == state.HeadIdle {
		return ErrNothing
	}
	if s, err = a.watch(ctx, s); err != nil {
		return err
	}
	return a.sendNow(ctx, s)
}
