package listen

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"agentstateloop/cycle"
	"agentstateloop/state/store"
)

// servedAgent is one agent's place in the listener.
type servedAgent struct {
	*cycle.Agent
	listener  *Listener
	lock      *store.Lock
	cancel    context.CancelFunc // ends its goroutines
	running   sync.WaitGroup     // these
	woken     chan struct{}      // holds one: a poll is to be made
	askMesh   chan struct{}      // holds one: the mesh is to be asked without delay
	wakeURL   string             // what the mesh rings
	unwatched bool               // nudges/ cannot be watched; used by the scan alone
}

// wake asks for a poll. However many ask while one runs, one more follows.
func (p *servedAgent) wake() { signal(p.woken) }

// signal leaves a word in a channel that holds one.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// run polls whenever it is woken.
func (p *servedAgent) run(ctx context.Context) {
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
			p.listener.Logf("@%s: poll: %v", p.Handle, err)
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
func (p *servedAgent) poll(ctx context.Context) error {
	select {
	case p.listener.pollSlots <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-p.listener.pollSlots }()
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
func (p *servedAgent) check() {
	if len(p.woken) > 0 {
		return
	}
	why, err := p.PollReason()
	if err != nil {
		p.listener.Logf("@%s: %v", p.Handle, err)
	}
	if why != "" {
		p.wake()
	}
}
