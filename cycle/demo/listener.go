package demo

import (
	"context"
	"fmt"
	"net"
	"time"

	"agentstateloop/cycle"
	"agentstateloop/cycle/listen"
	"agentstateloop/cycle/timeline"
	"agentstateloop/state"
)

// meshNudge lets another agent nudge through the mesh while a listener is running. Here only the
// listener polls: cron and the commands do not.
func (s *stage) meshNudge(ctx context.Context) error {
	if err := s.until(ctx, "10:20"); err != nil {
		return err
	}
	s.Now = s.clock("10:20").Add(7 * time.Second)
	stop, err := s.listen(ctx)
	if err != nil {
		return err
	}
	s.Event(timeline.In, "nudge from %s via the mesh: %q", peer, "the deployment hangs")
	err = s.peer.Nudge(ctx, handle, "", "the deployment hangs")
	if err == nil {
		err = s.untilPrep(ctx)
	}
	if stopped := stop(); err == nil {
		err = stopped
	}
	if err != nil {
		return err
	}
	if err := s.showPoll(cycle.Report{Before: state.IDLE, After: state.PREP}); err != nil {
		return err
	}
	return s.expect(state.PREP, "*/1 * * * *", "goulard3120 standing by. what do you need?\n\nwoken by dorlange3120: the deployment hangs")
}

// listen starts a listener. stop ends it.
func (s *stage) listen(ctx context.Context) (stop func() error, err error) {
	web, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	s.Event(timeline.Between, "agentstateloop listen: IMAP IDLE, the long poll of the mesh, nudges/, a webhook")
	ctx, cancel := context.WithCancel(ctx)
	l := &listen.Listener{Agents: []*cycle.Agent{s.agent}, Web: web, Logf: func(string, ...any) {}}
	ended := make(chan error, 1)
	go func() { ended <- l.Run(ctx) }()
	return func() error { cancel(); return <-ended }, nil
}

// patience is the timeout for events that usually take milliseconds.
const patience = 20 * time.Second

// untilPrep waits until the agent is in PREP and its outbox and acks are empty.
func (s *stage) untilPrep(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		now, err := s.agent.Store.Read()
		if err != nil {
			return err
		}
		if now.Phase == state.PREP && len(now.Outbox) == 0 && len(now.ToAck) == 0 {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w: the phase is %s, and the nudge had no effect", ErrDeviates, now.Phase)
		case <-tick.C:
		}
	}
}

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
	return within(ctx, reached, "the listener cannot reach the mesh")
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
