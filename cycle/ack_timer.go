package cycle

import (
	"context"
	"sync"
	"time"
)

// ackTimer sends an ack that falls due while this process runs turns (docs/design.md,
// "Phases"). The next poll may come only after the answer.
type ackTimer struct {
	core
	journal *journal
	flusher *flusher

	checkEvery time.Duration
}

// begin sends due acks in the background until stop is called. stop returns when the last send
// has ended.
func (t *ackTimer) begin(ctx context.Context) (stop func()) {
	if t.policy.AckAfter <= 0 {
		return func() {}
	}
	over := make(chan struct{})
	var watching sync.WaitGroup
	watching.Go(t.secrets.Guarded(func() { t.watch(ctx, over) }))
	return func() {
		close(over)
		watching.Wait()
	}
}

// watch reads the state every checkEvery, and sends an ack that is due.
func (t *ackTimer) watch(ctx context.Context, over <-chan struct{}) {
	tick := time.NewTicker(t.checkEvery)
	defer tick.Stop()
	for {
		select {
		case <-over:
			return
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		s, err := t.store.Read()
		if err != nil || !s.AckDue(t.now()) {
			continue // the next poll reports the error
		}
		if err := t.send(ctx); err != nil {
			t.logf("ack: %v", err)
		}
	}
}

// send commits the ack that is due, and sends it if no other process holds cycle.lock.
func (t *ackTimer) send(ctx context.Context) error {
	s, err := t.journal.commit(ctx)
	if err != nil {
		return err
	}
	return t.flusher.sendNow(ctx, s)
}
