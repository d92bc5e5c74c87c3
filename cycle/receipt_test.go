package cycle_test

import (
	"testing"
	"time"

	"agentstateloop/cycle/view"
)

// The points of a receipt come in their order, although the waiting begins long
// after the poll.
func TestReceiptOrder(t *testing.T) {
	t.Parallel()
	h := newFixture(t)
	rung, settle, err := h.agent.RingAtOnce("test", "")
	check(t, err)
	check(t, settle())
	h.clock.advance(time.Second)
	h.poll()
	h.clock.advance(time.Second)
	r, err := h.agent.View().AwaitNudge(t.Context(), rung, view.PointDelivered)
	check(t, err)
	for _, pair := range [][2]*time.Time{{r.Queued, r.Polled}, {r.Polled, r.Turned}, {r.Turned, r.Delivered}} {
		if pair[0] == nil || pair[1] == nil || pair[1].Before(*pair[0]) {
			t.Fatalf("out of order: queued %v, polled %v, turned %v, delivered %v", r.Queued, r.Polled, r.Turned, r.Delivered)
		}
	}
}
