package cycle

import (
	"context"
	"sync"
	"time"
)

// ackTimer sends an ack whose time comes while this process runs turns
// (docs/design.md, "Phases"). No poll may come before the answer does.
type ackTimer struct {
	core
	journal *journal
	flusher *flusher

	checkEvery time.Duration
}

// begin sends in the background what comes due, until stop is called. stop returns when
// nothing is being sent any more.
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

// watch looks at the state as often as checkEvery says.
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

// send has the ack made, and sends it if no other process holds cycle.lock.
func (t *ackTimer) send(ctx context.Context) error {
	s, err := t.journal.commit(ctx)
	if err != nil {
		return err
	}
	return t.flusher.sendNow(ctx, s)
}
