package cycle

import (
	"context"
	"errors"
	"fmt"
	"time"

	"agentstateloop/cycle/files"
	"agentstateloop/cycle/view"
	"agentstateloop/mesh"
	"agentstateloop/state"
	"agentstateloop/state/store"
	"agentstateloop/turn"
)

// Pulled is a message that `inbox next` hands out. Earlier holds older messages of its sender
// that the same answer is for, the oldest first.
type Pulled struct {
	TurnID string       `json:"turn_id"`
	Epoch  uint64       `json:"turn_epoch"`
	Number string       `json:"number"` // of the message
	Key    string       `json:"key"`
	Source state.Source `json:"source"`
	From   string       `json:"from"`
	Text   string       `json:"text"`
	Note   string       `json:"note,omitempty"`

	ResultFields mesh.ResultFields    `json:"result_fields,omitempty"` // that its sender asks for
	Earlier      []PulledEarlier      `json:"earlier,omitempty"`
	Files        []files.ReceivedFile `json:"files,omitempty"` // that came with it
}

// PulledEarlier is a message that shares the turn of a newer one.
type PulledEarlier struct {
	Key   string               `json:"key"`
	At    time.Time            `json:"at"`
	Text  string               `json:"text"`
	Files []files.ReceivedFile `json:"files,omitempty"`
}

// pulledEarlier returns the other messages of a turn, as inbox next hands them out.
func (m turnMessage) pulledEarlier(list files.Incoming) (all []PulledEarlier) {
	for _, other := range m.others {
		all = append(all, PulledEarlier{Key: other.msg.Key, At: other.msg.At.UTC(), Text: other.text, Files: filesOfMessage(list, other).Files})
	}
	return all
}

// ErrNothing means that no message waits, no turn is active, or no exchange exists.
var ErrNothing = errors.New("no message is waiting")

// Next takes the next message for an agent that pulls. The watchdog reaps its turn unless
// `inbox done` follows within turn.timeout. Next returns ErrNothing if the inbox is empty.
func (a *Agent) Next(ctx context.Context) (Pulled, error) {
	if a.Turn != nil {
		return Pulled{}, errors.New(`turn.runner runs the messages: set it to "none" to pull them`)
	}
	puller := a.puller()
	var next Pulled
	held, err := withLock(a.Store, store.TurnLock, func() (err error) {
		if _, err = puller.watchdog.reap(ctx); err == nil {
			next, err = puller.next(ctx)
		}
		return err
	})
	if err == nil && !held {
		err = ErrBusy
	}
	return next, err
}

// puller hands messages out.
type puller struct {
	committer
	watchdog  *watchdog
	guard     *payloadGuard
	deliverer *deliverer
	flusher   *flusher
}

func (a *Agent) puller() *puller {
	return &puller{
		committer: a.committer(), watchdog: a.watchdog(), guard: a.payloadGuard(), deliverer: a.deliverer(a.mainBackend()),
		flusher: a.flusher(),
	}
}

// next takes the first readable message. It answers an unreadable message with the error. The
// caller holds turn.lock.
func (p *puller) next(ctx context.Context) (Pulled, error) {
	policy := *p.policy
	policy.Turns = true // for this agent, which takes its turn itself
	for {
		if _, err := p.guard.check(ctx, policy); err != nil {
			return Pulled{}, err
		}
		s, err := p.journal.commit(ctx, state.Claimed{Pull: true})
		if err != nil {
			return Pulled{}, err
		}
		head := s.Turn
		if head.Status == state.HeadRunning {
			return Pulled{}, fmt.Errorf("turn %s is not done: end it with `inbox done`", head.TurnID)
		}
		if head.Status != state.HeadDispatched {
			return Pulled{}, p.emptyReason(s)
		}
		if s, err = p.journal.commit(ctx, state.Started{TurnID: head.TurnID, Epoch: head.Epoch}); err != nil {
			return Pulled{}, err
		}
		msg, _ := s.Message(head.Key)
		m, err := readMessage(p.store, head, msg)
		m.collect(p.store, s.Collected())
		if err == nil {
			list := files.Incoming{Store: p.store}
			return Pulled{
				TurnID: head.TurnID, Epoch: head.Epoch, Number: *view.Numeral("", msg.Seq), Key: msg.Key, Source: msg.Source, From: msg.From,
				Text: m.text, Note: msg.Note, ResultFields: m.sent.ResultFields, Earlier: m.pulledEarlier(list),
				Files: filesOfMessage(list, m).Files,
			}, nil
		}
		if s, err = p.deliverer.deliver(ctx, s, m, turn.Result{Status: turn.Failed, Reason: err.Error()}); err != nil {
			return Pulled{}, err
		}
		if err := p.flusher.sendNow(ctx, s); err != nil {
			return Pulled{}, err
		}
	}
}

// emptyReason returns the reason why no message could be taken: ErrNothing if the inbox is empty.
func (p *puller) emptyReason(s state.State) error {
	now := p.now()
	noMoney := view.OutOfMoney(s, *p.policy, now)
	switch {
	case len(s.Inbox) == 0:
		return ErrNothing
	case s.Halted():
		return view.ErrHalted
	case now.Before(s.CooldownUntil):
		return fmt.Errorf("five turns in a row failed: no message is handed out until %s", s.CooldownUntil.Format(time.RFC3339))
	case noMoney != "":
		return fmt.Errorf("the agent is out of money: %s", noMoney)
	case s.Tier(*p.policy, now) == state.TierCritical:
		return errors.New("money is short: only the operator's messages are handed out, and none is waiting: see `agentstateloop status`")
	}
	return errors.New("the waiting messages are deferred: see `agentstateloop inbox list`")
}

// PulledTurn returns the turn of a message that Next has handed out. which is its number
// or key.
func (a *Agent) PulledTurn(which string) (Inside, error) {
	s, err := a.Store.Read()
	if err != nil {
		return Inside{}, err
	}
	key, err := view.KeyOf(a.Store, s, which)
	if err != nil {
		return Inside{}, err
	}
	msg, ok := s.Message(key)
	if !ok || !s.Turn.Pulled || !s.SharesTurn(msg) {
		return Inside{}, fmt.Errorf("%s was not taken by `inbox next`, or its turn is over", which)
	}
	return Inside{TurnID: s.Turn.TurnID, Epoch: s.Turn.Epoch}, nil
}

// Done ends the turn that Next has handed out, and sends its deliverable.
func (a *Agent) Done(ctx context.Context, in Inside, text string, fields ...Field) error {
	s, err := in.state(a.core())
	if err != nil {
		return err
	}
	if !s.Turn.Pulled {
		return errors.New("that turn was not taken by `inbox next`")
	}
	if len(fields) > 0 {
		if err := a.Submit(ctx, in, Submission{Text: text, Fields: fields}); err != nil {
			return err
		}
		if s, err = in.state(a.core()); err != nil {
			return err
		}
	}
	if s, err = a.turnEnder(a.mainBackend()).closeTurn(ctx, s, turn.Result{Status: turn.Success, Text: text}); err != nil {
		return err
	}
	return a.flusher().sendNow(ctx, s)
}

// Retry queues a message again that waits for a later time, was given up, or is held since a
// restore. A wakeup has its turn now; held is the reason that still prevents the turn, or "".
func (a *Agent) Retry(ctx context.Context, key, origin string) (held string, err error) {
	s, err := a.Store.Read()
	if err != nil {
		return "", err
	}
	msg, err := view.FindMessage(a.Store, s, key)
	if err != nil {
		return "", err
	}
	if _, waits := s.Message(key); waits && msg.Status != state.Deferred && !msg.Held {
		return "", fmt.Errorf("%s is already %s", key, msg.Status)
	}
	if s, err = a.journal().commit(ctx, state.Retried{Message: msg, Origin: origin}); err != nil {
		return "", err
	}
	return s.SelfHeld(msg, a.Policy, a.Now()), nil
}

// Drop removes a waiting message from the inbox without a turn. An unfetched mail is not tried
// again.
func (a *Agent) Drop(ctx context.Context, key, reason string) error {
	s, err := a.Store.Read()
	if err != nil {
		return err
	}
	if s.IsUnfetched(key) {
		_, err = a.journal().commit(ctx, state.Dropped{Key: key, Reason: reason})
		return err
	}
	msg, waits := s.Message(key)
	if !waits {
		return fmt.Errorf("no message %s in the inbox: see `inbox list`", key)
	}
	if msg.Status == state.Pending || msg.Status == state.Processing {
		return fmt.Errorf("the turn of %s is running: use `stop`", key)
	}
	_, err = a.journal().commit(ctx, state.Dropped{Key: key, Reason: reason})
	return err
}
