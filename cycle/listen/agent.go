package listen

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"agentstateloop/cycle"
	"agentstateloop/state"
)

// post is one agent's place in the listener.
type post struct {
	*cycle.Agent
	listener *Listener
	lock     *state.Lock
	cancel   context.CancelFunc // ends its goroutines
	running  sync.WaitGroup     // these
	woken    chan struct{}      // holds one: a poll is to be made
	kick     chan struct{}      // holds one: the mesh is to be asked without delay
	wakeURL  string             // what the mesh rings
	blind    bool               // nudges/ cannot be watched; used by the scan alone
}

// wake asks for a poll. However many ask while one runs, one more follows.
func (p *post) wake() { note(p.woken) }

// note leaves a word in a channel that holds one.
func note(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// run polls whenever it is woken.
func (p *post) run(ctx context.Context) {
	again := cycle.Backoff{Least: 100 * time.Millisecond, Most: time.Minute}
	for {
		select {
		case <-ctx.Done():
			return
		case <-p.woken:
		}
		err := p.poll(ctx)
		if err == nil || ctx.Err() != nil {
			again.Reset()
			continue
		}
		if !errors.Is(err, cycle.ErrBusy) {
			p.listener.Tell("@%s: poll: %v", p.Handle, err)
		}
		// The poll at work may have looked at the mail before ours came.
		select {
		case <-ctx.Done():
		case <-time.After(again.Next()):
		}
		p.wake()
	}
}

// poll is steps 1 to 6 of a cycle; the turns are left to a process of their own.
func (p *post) poll(ctx context.Context) error {
	select {
	case p.listener.slots <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-p.listener.slots }()
	r, err := p.Poll(ctx, cycle.PollOptions{NoTurn: true})
	if err != nil {
		return err
	}
	if !r.TurnWaiting {
		return nil
	}
	if err := p.Detach(); err != nil {
		return fmt.Errorf("run the turn: %w", err)
	}
	return nil
}

// check wakes if no wake waits already, and there is something to poll for.
func (p *post) check() {
	if len(p.woken) > 0 {
		return
	}
	why, err := p.PollReason()
	if err != nil {
		p.listener.Tell("@%s: %v", p.Handle, err)
	}
	if why != "" {
		p.wake()
	}
}
