package fleettest_test

import (
	"context"
	"errors"
	"testing"

	"agentstateloop/fleet"
	"agentstateloop/internal/testkit/fleettest"
	"agentstateloop/mesh"
)

// TestEngines checks that one server and three carry a message, also after the leader of
// the mailboxes was killed and has come back.
func TestEngines(t *testing.T) {
	for name, start := range map[string]func(testing.TB, ...string) *fleettest.Engine{"one": fleettest.Start, "three": fleettest.StartCluster} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := start(t, "alice", "bob")
			alice, bob := e.Client("alice"), e.Client("bob")
			for _, text := range []string{"first", "second"} {
				if _, err := alice.Send(context.Background(), mesh.Message{To: "bob", Text: text}); err != nil {
					t.Fatal(err)
				}
				var box mesh.Mailbox
				// The server that a mailbox is read on may be behind the others for a moment.
				e.Until("bob has the "+text+" message", func(ctx context.Context) (err error) {
					if box, err = bob.Take(ctx); err == nil && box.Empty() {
						err = errors.New("the mailbox is empty")
					}
					return err
				})
				if len(box.Messages) != 1 || box.Messages[0].Text != text || !box.Messages[0].Proven {
					t.Fatalf("bob got %+v", box)
				}
				if err := bob.Ack(context.Background(), box.Messages[0].ID); err != nil {
					t.Fatal(err)
				}
				e.Leader(fleet.MailboxStream).Restart()
			}
		})
	}
}
