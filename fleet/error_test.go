package fleet_test

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"testing"

	"agentstateloop/fleet"
	"agentstateloop/internal/testkit/fleettest"
)

// TestNoResponders checks that the error of a request without a responder suggests fleet create.
func TestNoResponders(t *testing.T) {
	t.Parallel()
	conn := fleettest.Start(t, "alice").Conn("")
	_, err := conn.Request(t.Context(), "nothing", nil, nil)
	if e, ok := errors.AsType[*fleet.Error](err); !ok || e.Code != 503 || !strings.Contains(err.Error(), "agentstateloop fleet create") {
		t.Errorf("%v", err)
	}
}

// TestServerWithoutKeys checks the error of a server that does not ask for a key, because it runs
// without its configuration.
func TestServerWithoutKeys(t *testing.T) {
	key := fleettest.NewKey(t)
	conn := &fleet.Conn{
		URL: "nats://127.0.0.1:4222", Handle: "alice",
		Seed: func(context.Context) (string, error) { return key.Seed, nil },
		Dial: func(context.Context, string, string) (net.Conn, error) {
			ours, theirs := net.Pipe()
			go func() {
				_, _ = io.WriteString(theirs, `INFO {"server_id":"x","version":"2.15.2","headers":true,"max_payload":1048576}`+"\r\n")
				_, _ = io.Copy(io.Discard, theirs)
			}()
			return ours, nil
		},
	}
	if _, err := conn.Request(t.Context(), "nothing", nil, nil); err == nil || !strings.Contains(err.Error(), "no keys configured") {
		t.Errorf("%v", err)
	}
}
