package view

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

// Receipt shows the progress of a message or a nudge, with times. A field is nil if its step
// has not happened or never does. A nudge has no turn of its own: its Turned is when the inbox
// had no more messages to run, and its Delivered when the outbox was empty.
type Receipt struct {
	Queued    *time.Time `json:"queued"`    // durable where it was put
	Polled    *time.Time `json:"polled"`    // taken by a commit
	Turned    *time.Time `json:"turned"`    // its turn has ended
	Delivered *time.Time `json:"delivered"` // its reply was accepted by the server
}

// Point is the step of a receipt that a caller waits for.
type Point string

// The points, in order.
const (
	PointQueued    Point = "queued"
	PointPolled    Point = "polled"
	PointTurned    Point = "turned"
	PointDelivered Point = "delivered"
)

var (
	// ErrHalted means that a HALT holds back the awaited step.
	ErrHalted = errors.New("the agent is HALTED: nothing runs and nothing is sent until resume")

	// ErrFailed means that a turn or a delivery failed.
	ErrFailed = errors.New("failed")
)

// Receipt returns the receipt of a message, from the history.
func (r Reader) Receipt(m state.Message) (Receipt, error) {
	got := Receipt{Queued: OrNull(m.At.UTC())}
	turn := ""
	for l, err := range r.Store.History() {
		if err != nil {
			return got, err
		}
		switch {
		case l.Kind == state.LineMessage && l.Key == m.Key && got.Polled == nil:
			got.Polled = OrNull(l.At)
		case l.Kind == state.LineTask && l.Ends(m.Key):
			got.Turned, turn = OrNull(l.At), l.TurnID
		case l.Kind == state.LineDelivery && turn != "" && l.ID == "reply."+turn && l.What == state.WordSent:
			got.Delivered = OrNull(l.At)
		}
	}
	return got, nil
}

// LetInBy returns the line with which a person let in the message under key despite a gate: they
// released it from quarantine, or answered a challenge about it. It is zero if the gates let it in.
func (r Reader) LetInBy(key string) (by state.Line, err error) {
	for l, err := range r.Store.History() {
		if err != nil {
			return by, err
		}
		if l.Key == key && (l.Kind == state.LineQuarantine && l.What == state.WordReleased || l.Kind == state.LineChallenge && l.What == state.WordAnswered) {
			by = l
		}
	}
	return by, nil
}

// RecordedNudge identifies a recorded nudge, for AwaitNudge.
type RecordedNudge struct {
	Mark string    // the beginning of its key
	At   time.Time // when it was recorded
}

// AwaitNudge waits until a nudge has reached a point, or ctx ends. The error wraps ErrHalted if
// HALT keeps the nudge from getting there, and ErrFailed if a turn or a delivery since the
// nudge failed. While it waits, it passes the reason to each of watch.
func (r Reader) AwaitNudge(ctx context.Context, nudge RecordedNudge, to Point, watch ...func(Waiting)) (Receipt, error) {
	got := Receipt{Queued: OrNull(nudge.At)}
	if to == PointQueued {
		return got, nil
	}
	tick := time.NewTicker(r.CheckEvery / 5)
	defer tick.Stop()
	for {
		reached, err := r.advance(&got, nudge.Mark, to)
		if err != nil || reached {
			return got, err
		}
		for _, tell := range watch {
			if w, ok := r.whyNudgeWaits(got); ok {
				tell(w)
			}
		}
		select {
		case <-ctx.Done():
			return got, fmt.Errorf("wait for the nudge to be %s: %w", to, context.Cause(ctx))
		case <-tick.C:
		}
	}
}

// advance records in got the steps since the last call, and reports whether the nudge has reached
// the point.
func (r Reader) advance(got *Receipt, mark string, to Point) (reached bool, err error) {
	s, err := r.Store.Read()
	if err != nil {
		return false, err
	}
	if got.Polled == nil {
		waits, err := r.waits(s, mark)
		if err != nil || waits {
			return false, err
		}
		if got.Polled, err = r.polledAt(mark); err != nil || got.Polled == nil {
			return false, err
		}
		if got.Polled.Before(*got.Queued) {
			got.Queued = got.Polled // a poll saw it before it was durable
		}
	}
	if to == PointPolled {
		return true, nil
	}
	if s.Halted() {
		return false, ErrHalted
	}
	if s.Turn.Status != state.HeadIdle || s.CanRun(*r.Policy, r.Now()) {
		return false, nil
	}
	if got.Turned == nil {
		got.Turned = OrNull(r.Now().UTC())
	}
	if to == PointDelivered && len(s.Outbox) > 0 {
		return false, nil
	}
	if to == PointDelivered {
		got.Delivered = OrNull(r.Now().UTC())
	}
	return true, r.failedSince(*got.Polled)
}

// waits reports whether no commit has taken the nudge yet.
func (r Reader) waits(s state.State, mark string) (bool, error) {
	list, err := r.Store.Nudges(s)
	if err != nil {
		return false, err
	}
	return slices.ContainsFunc(list.New, func(n store.NudgeFile) bool { return strings.HasPrefix(n.Key, mark) }), nil
}

// polledAt returns when a commit took the nudge, or nil.
func (r Reader) polledAt(mark string) (*time.Time, error) {
	for l, err := range r.Store.History(state.LineNudge) {
		if err != nil {
			return nil, err
		}
		if strings.HasPrefix(l.Key, mark) {
			return &l.At, nil
		}
	}
	return nil, nil
}

// failedSince returns an error for the first turn or delivery that failed since
// then.
func (r Reader) failedSince(then time.Time) error {
	for l, err := range r.Store.History(state.LineTask, state.LineDelivery) {
		if err != nil {
			return err
		}
		switch {
		case l.At.Before(then):
		case l.Kind == state.LineTask && l.Outcome != state.Success && l.Outcome != state.Partial:
			return fmt.Errorf("turn %s: %s: %w", l.TurnID, l.Outcome, ErrFailed)
		case l.Kind == state.LineDelivery && l.What == state.WordUndeliverable:
			return fmt.Errorf("%s could not be delivered: %s: %w", l.ID, l.Reason, ErrFailed)
		}
	}
	return nil
}
