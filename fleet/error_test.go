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

// TestNoResponders checks the error of a request that no part of the server serves, which
// says what may be missing.
func TestNoResponders(t *testing.T) {
	t.Parallel()
	conn := fleettest.Start(t, "alice").Conn("")
	_, err := conn.Request(t.Context(), "nothing", nil, nil)
	if e, ok := errors.AsType[*fleet.Error](err); !ok || e.Code != 503 || !strings.Contains(err.Error(), "agentstateloop fleet create") {
		t.Errorf("%v", err)
	}
}

// TestServerWithoutKeys checks what is said of a server that greets without asking for a
// key, as one does that runs without its configuration.
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
