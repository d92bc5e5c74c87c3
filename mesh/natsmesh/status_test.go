package natsmesh_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"agentstateloop/internal/testkit/fleettest"
	"agentstateloop/mesh"
)

// TestMessageWithForgedStatus checks that mailbox and registry stay readable if an agent sends an
// empty message with a status, as the server does for a request without a responder.
func TestMessageWithForgedStatus(t *testing.T) {
	t.Parallel()
	e := fleettest.Start(t, "alice", "bob", "mallory")
	mallory, alice, bob := e.Conn("mallory"), e.Client("alice"), e.Client("bob")
	for _, subject := range []string{"asl.box.bob.mallory", "$KV.asl-who.mallory"} {
		answer, err := mallory.Request(t.Context(), subject, nil, map[string][]string{"Status": {"503"}})
		if err != nil || !strings.Contains(string(answer.Data), `"stream"`) {
			t.Fatalf("%s: %s, %v", subject, answer.Data, err)
		}
	}
	if _, err := alice.Send(t.Context(), mesh.Message{To: "bob", Text: "hello"}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	mailbox, err := bob.Take(ctx)
	if err != nil || len(mailbox.Messages) != 1 || mailbox.Messages[0].Text != "hello" {
		t.Errorf("bob got %+v, %v", mailbox, err)
	}
	if _, err := bob.Online(ctx); err != nil {
		t.Error(err)
	}
}
