package listen

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"agentstateloop/cycle"
	"agentstateloop/fleet/seat"
	"agentstateloop/state/store"
)

// servedAgent is an agent with the listener's data for it.
type servedAgent struct {
	*cycle.Agent
	listener  *Listener
	lock      *store.Lock
	cancel    context.CancelFunc // ends the goroutines of the agent
	running   sync.WaitGroup     // the goroutines of the agent
	requested chan struct{}      // holds one value: a poll is requested
	askMesh   chan struct{}      // holds one value: read the mesh mailbox at once
	wakeURL   string             // the address that the mesh calls
	unwatched bool               // set if the system cannot watch nudges/; used only by scan
	failing   string             // the sources that failed in the last poll; used only by run
	seatNote  string             // what the log says about the seat; used only by run
}

// requestPoll requests a poll. Any number of requests during a poll cause one
// more poll.
func (p *servedAgent) requestPoll() { signal(p.requested) }

// signal sends on a channel that holds one value, unless it is full.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// pollPauses returns the pauses after a failed poll.
func pollPauses() cycle.Backoff { return cycle.Backoff{Min: 100 * time.Millisecond, Max: time.Minute} }

// Of an agent with several hosts: seatEvery is how often a listener renews the lease, or looks who
// acts, without a request. seatPause is the pause after a look of a standby: each message for the
// agent rings it.
const (
	seatEvery = time.Minute
	seatPause = time.Second
)

// run polls at each request.
func (p *servedAgent) run(ctx context.Context) {
	again := pollPauses()
	var seat <-chan time.Time
	if p.Seat != nil {
		tick := time.NewTicker(min(seatEvery, p.Seat.PollEvery()))
		defer tick.Stop()
		seat = tick.C
		p.requestPoll() // so that the log says who acts
	}
	for {
		o := cycle.PollOptions{NoTurn: true, LeaveLarge: true, LivesOn: true}
		select {
		case <-ctx.Done():
			return
		case <-p.requested:
		case <-seat:
			o.IfDue = true
		}
		err := p.poll(ctx, o)
		note, ofSeat := noteOf(err)
		if ctx.Err() == nil && note != p.seatNote {
			p.seatNote = note
			p.listener.Logf("@%s: %s", p.Handle, cmp.Or(note, "this host acts"))
		}
		pause := again.Next()
		switch {
		case err == nil || ctx.Err() != nil:
			again.Reset()
			continue
		case ofSeat:
			pause = seatPause
		case !errors.Is(err, cycle.ErrBusy):
			p.listener.Logf("@%s: poll: %v", p.Handle, err)
		}
		// The other poll may have read the mailbox before the new mail came.
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
		if !ofSeat {
			p.requestPoll()
		}
	}
}

// noteOf returns what the log says after a poll of an agent with several hosts: that another host
// acts, or why none does. It is "" for any other result.
func noteOf(err error) (note string, ofSeat bool) {
	if standby, ok := errors.AsType[*seat.StandbyError](err); ok {
		known := *standby
		known.Ago = -1 // so that the note stays the same
		return "standby: " + known.Error(), true
	}
	_, stopped := errors.AsType[*seat.TroubleError](err)
	_, unanswered := errors.AsType[*cycle.SeatError](err)
	if stopped || unanswered {
		return err.Error(), true
	}
	return "", false
}

// standsBy reports whether err says that another host acts.
func standsBy(err error) bool {
	_, standby := errors.AsType[*seat.StandbyError](err)
	return standby
}

// poll runs a cycle without its turns, and leaves those to a detached process.
func (p *servedAgent) poll(ctx context.Context, o cycle.PollOptions) error {
	select {
	case p.listener.pollSlots <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-p.listener.pollSlots }()
	r, err := p.Poll(ctx, o)
	if err != nil {
		return err
	}
	p.logFailures(r.Failed)
	if !r.TurnWaiting {
		return nil
	}
	if err := p.Detach(); err != nil {
		return fmt.Errorf("run the turn: %w", err)
	}
	return nil
}

// logFailures logs the sources that a poll failed to read or to send to, if they have changed
// since the last poll.
func (p *servedAgent) logFailures(failed []cycle.SourceFailure) {
	var sources, reasons []string
	for _, f := range failed {
		sources = append(sources, string(f.Source))
		reasons = append(reasons, string(f.Source)+": "+f.Reason)
	}
	failing := strings.Join(sources, ", ")
	switch {
	case failing == p.failing:
	case failing == "":
		p.listener.Logf("@%s: working again: %s", p.Handle, p.failing)
	default:
		p.listener.Logf("@%s: %s", p.Handle, strings.Join(reasons, "; "))
	}
	p.failing = failing
}

// check requests a poll if there is a reason for one and no request is pending.
func (p *servedAgent) check() {
	if len(p.requested) > 0 {
		return
	}
	why, err := p.PollReason()
	if err != nil {
		p.listener.Logf("@%s: %v", p.Handle, err)
	}
	if why != "" {
		p.requestPoll()
	}
}
