package demo

import (
	"context"
	"fmt"
	"time"

	"agentstateloop/cycle"
)

// doorbell is the doorbell of an agent that listens.
type doorbell struct {
	rung   chan struct{} // holds one value
	cancel context.CancelFunc
	ended  chan struct{}
}

// hang starts to listen, and waits until the mesh is reached.
func (d *doorbell) hang(ctx context.Context, agent *cycle.Agent) error {
	ctx, d.cancel = context.WithCancel(ctx)
	d.rung, d.ended = make(chan struct{}, 1), make(chan struct{})
	reached := make(chan struct{}, 1)
	signal := func(c chan struct{}) func() {
		return func() {
			select {
			case c <- struct{}{}:
			default:
			}
		}
	}
	go func() {
		agent.WatchMesh(ctx, nil, signal(reached), signal(d.rung))
		close(d.ended)
	}()
	return within(ctx, reached, "the mesh cannot be heard")
}

// wait waits for the next ring.
func (d *doorbell) wait(ctx context.Context) error {
	return within(ctx, d.rung, "the doorbell does not ring")
}

// stop stops listening.
func (d *doorbell) stop() {
	if d.cancel != nil {
		d.cancel()
		<-d.ended
	}
}

// within waits for a signal, but no longer than patience.
func within(ctx context.Context, signal <-chan struct{}, otherwise string) error {
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-signal:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return fmt.Errorf("%w: %s", ErrDeviates, otherwise)
	}
}
