package cycle

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"agentstateloop/state"
	"agentstateloop/state/store"
)

// Receipt says how far a message or a nudge has come, and when; nil for what has
// not happened, or never does: a nudge has no turn of its own, so that Turned is
// when nothing was left to run that it woke the agent for, and Delivered when
// nothing was left to send.
type Receipt struct {
	Queued    *time.Time `json:"queued"`    // durable where it was put
	Polled    *time.Time `json:"polled"`    // taken by a commit
	Turned    *time.Time `json:"turned"`    // its turn has ended
	Delivered *time.Time `json:"delivered"` // what came of it was accepted by its server
}

// Point is how far somebody waits for a receipt.
type Point string

// The points, in their order.
const (
	PointQueued    Point = "queued"
	PointPolled    Point = "polled"
	PointTurned    Point = "turned"
	PointDelivered Point = "delivered"
)

var (
	// ErrHalted: a HALT holds back what is waited for.
	ErrHalted = errors.New("the agent is HALTED: nothing runs and nothing is sent until resume")

	// ErrFailed: a turn failed, or something could not be delivered.
	ErrFailed = errors.New("failed")
)

// Receipt is that of a message, from the history.
func (a *Agent) Receipt(m state.Message) (Receipt, error) {
	r := Receipt{Queued: orNull(m.At.UTC())}
	turn := ""
	for l, err := range a.Store.History() {
		if err != nil {
			return r, err
		}
		switch {
		case l.Kind == state.LineMessage && l.Key == m.Key && r.Polled == nil:
			r.Polled = orNull(l.At)
		case l.Kind == state.LineTask && l.Key == m.Key:
			r.Turned, turn = orNull(l.At), l.TurnID
		case l.Kind == state.LineDelivery && turn != "" && l.ID == "reply."+turn && l.What == "sent":
			r.Delivered = orNull(l.At)
		}
	}
	return r, nil
}

// Rung is a nudge that is durable, for AwaitNudge.
type Rung struct {
	mark string
	at   time.Time
}

// RingMarked is Ring, for AwaitNudge.
func (a *Agent) RingMarked(from, reason string) (Rung, error) {
	mark, err := a.Store.RingMarked(from, reason)
	return Rung{mark, a.Now().UTC()}, err
}

// AwaitNudge waits until a nudge has come to a point, or ctx ends. It wraps
// ErrHalted where HALT keeps it from getting there, and ErrFailed where a turn
// since the nudge failed, or something could not be delivered.
func (a *Agent) AwaitNudge(ctx context.Context, nudge Rung, to Point) (Receipt, error) {
	r := Receipt{Queued: orNull(nudge.at)}
	if to == PointQueued {
		return r, nil
	}
	tick := time.NewTicker(lookEvery / 5)
	defer tick.Stop()
	for {
		reached, err := a.advance(&r, nudge.mark, to)
		if err != nil || reached {
			return r, err
		}
		select {
		case <-ctx.Done():
			return r, fmt.Errorf("wait for the nudge to be %s: %w", to, context.Cause(ctx))
		case <-tick.C:
		}
	}
}

// advance notes in r what has happened since it was last looked at.
func (a *Agent) advance(r *Receipt, mark string, to Point) (reached bool, err error) {
	s, err := a.Store.Read()
	if err != nil {
		return false, err
	}
	if r.Polled == nil {
		waits, err := a.waits(s, mark)
		if err != nil || waits {
			return false, err
		}
		if r.Polled, err = a.polledAt(mark); err != nil || r.Polled == nil {
			return false, err
		}
		if r.Polled.Before(*r.Queued) {
			r.Queued = r.Polled // it was seen before it was durable
		}
	}
	if to == PointPolled {
		return true, nil
	}
	if s.Halted() {
		return false, ErrHalted
	}
	if s.Turn.Status != state.HeadIdle || s.CanRun(a.Policy, a.Now()) {
		return false, nil
	}
	if r.Turned == nil {
		r.Turned = orNull(a.Now().UTC())
	}
	if to == PointDelivered && len(s.Outbox) > 0 {
		return false, nil
	}
	if to == PointDelivered {
		r.Delivered = orNull(a.Now().UTC())
	}
	return true, a.failedSince(*r.Polled)
}

// waits says whether no commit has taken the nudge.
func (a *Agent) waits(s state.State, mark string) (bool, error) {
	rung, err := a.Store.Rung()
	if err != nil {
		return false, err
	}
	return slices.ContainsFunc(rung, func(n store.NudgeFile) bool {
		return strings.HasPrefix(n.Key, mark) && !s.TookNudge(n.Key)
	}), nil
}

func (a *Agent) polledAt(mark string) (*time.Time, error) {
	for l, err := range a.Store.History() {
		if err != nil {
			return nil, err
		}
		if l.Kind == state.LineNudge && strings.HasPrefix(l.Key, mark) {
			return &l.At, nil
		}
	}
	return nil, nil
}

// failedSince tells of a turn or a delivery that failed since then.
func (a *Agent) failedSince(then time.Time) error {
	for l, err := range a.Store.History() {
		if err != nil {
			return err
		}
		switch {
		case l.At.Before(then):
		case l.Kind == state.LineTask && l.Outcome != state.Success && l.Outcome != state.Partial:
			return fmt.Errorf("turn %s: %s: %w", l.TurnID, l.Outcome, ErrFailed)
		case l.Kind == state.LineDelivery && l.What == "undeliverable":
			return fmt.Errorf("%s could not be delivered: %s: %w", l.ID, l.Reason, ErrFailed)
		}
	}
	return nil
}
