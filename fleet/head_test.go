package fleet_test

import (
	"errors"
	"testing"

	"agentstateloop/fleet"
	"agentstateloop/internal/testkit/fleettest"
)

// TestHeads smoke.
func TestHeads(t *testing.T) {
	t.Parallel()
	for name, start := range map[string]func(testing.TB, ...string) *fleettest.Engine{"one": fleettest.Start, "three": fleettest.StartCluster} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := start(t, "alice", "bob").Conn("alice")
			h, err := c.LoadHead(t.Context())
			if err != nil || h.Revision != 0 || h.Body != nil {
				t.Fatal(h, err)
			}
			r, err := c.OfferHead(t.Context(), 0, []byte("one"))
			if err != nil {
				t.Fatal(err)
			}
			h, err = c.LoadHead(t.Context())
			if err != nil || h.Revision != r || string(h.Body) != "one" || !h.Signed {
				t.Fatal(h, err)
			}
			_, err = c.OfferHead(t.Context(), 0, []byte("two"))
			if e, ok := errors.AsType[*fleet.Refused](err); !ok || e.Last != r {
				t.Fatal(err)
			}
			_, err = c.OfferHead(t.Context(), r, []byte("two"))
			if err != nil {
				t.Fatal(err)
			}
		})
	}
}
