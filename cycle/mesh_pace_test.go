package cycle_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"agentstateloop/mesh"
	"agentstateloop/state"
)

// unpacedCarrier is a carrier without a pace of its own: what was acknowledged does not come again.
type unpacedCarrier struct {
	*mesh.Client
	messages []mesh.Message
}

func (h *unpacedCarrier) Take(context.Context) (mesh.Mailbox, error) {
	return mesh.Mailbox{Messages: h.messages}, nil
}

func (h *unpacedCarrier) Ack(_ context.Context, id string) error {
	var left []mesh.Message
	for _, m := range h.messages {
		if m.ID != id {
			left = append(left, m)
		}
	}
	h.messages = left
	return nil
}

// On a mesh without a rate limit, five messages of a sender are taken within a minute, however
// many polls run. The others wait there.
func TestSenderPace(t *testing.T) {
	t.Parallel()
	h := newAwakeFixture(t)
	pile := &unpacedCarrier{Client: h.agent.Mesh.Carrier.(*mesh.Client)}
	h.agent.Mesh.Carrier, h.agent.Mesh.Paces = pile, true
	h.agent.Mesh.Peers = append(h.agent.Mesh.Peers, second)
	for i := range 12 {
		pile.messages = append(pile.messages, mesh.Message{ID: fmt.Sprint("m", i), From: peer, To: handle, Text: "hello", Kind: mesh.KindMessage, SentAt: h.clock.Now()})
	}
	pile.messages = append(pile.messages,
		mesh.Message{ID: "nudge.1", From: peer, To: handle, Kind: mesh.KindNudge, SentAt: h.clock.Now()},
		mesh.Message{ID: "other", From: second, To: handle, Text: "hello", Kind: mesh.KindMessage, SentAt: h.clock.Now()},
	)
	arrived := func(want int, left int) {
		t.Helper()
		if r := h.poll(); r.Arrived != want || len(pile.messages) != left {
			t.Fatalf("%d arrived, want %d; %d left on the mesh, want %d", r.Arrived, want, len(pile.messages), left)
		}
	}
	arrived(6, 7)
	h.clock.advance(20 * time.Second)
	arrived(0, 7)
	h.clock.advance(41 * time.Second)
	arrived(5, 2)
	h.clock.advance(61 * time.Second)
	arrived(2, 0)
	if s := h.state(); s.Phase != state.PREP {
		t.Errorf("the agent is in %s", s.Phase)
	}
}
