package fleet_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"agentstateloop/fleet"
	"agentstateloop/internal/testkit/fleettest"
)

// TestServersKeep checks what the servers keep, whatever an agent publishes: its blocks never change,
// and a full stream of heads refuses the next one and keeps the last one.
func TestServersKeep(t *testing.T) {
	t.Parallel()
	for name, start := range map[string]func(testing.TB, ...string) *fleettest.Engine{"one": fleettest.Start, "three": fleettest.StartCluster} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := start(t, "alice")
			c, ctx := e.Conn("alice"), t.Context()
			if err := c.PutBlock(ctx, 1, []byte("block")); err != nil {
				t.Fatal(err)
			}
			for _, header := range []map[string][]string{nil, {"Nats-Expected-Last-Subject-Sequence": {"1"}}, {"Nats-Rollup": {"sub"}}} {
				a, err := c.Request(ctx, "asl.hist.alice.1", []byte("other"), header)
				if err != nil || !strings.Contains(string(a.Data), `"error"`) {
					t.Errorf("a block is replaced with %v: %s, %v", header, a.Data, err)
				}
			}

			var info struct {
				Config map[string]json.RawMessage `json:"config"`
			}
			e.Ask("STREAM.INFO."+fleet.HeadStream, nil, &info)
			info.Config["max_bytes"] = json.RawMessage("102400")
			e.Ask("STREAM.UPDATE."+fleet.HeadStream, info.Config, nil)
			body := []byte(strings.Repeat("x", 20<<10))
			revision, heads := uint64(0), 0
			for {
				r, err := c.OfferHead(ctx, revision, body)
				if err != nil {
					full, ok := errors.AsType[*fleet.Error](err)
					if !ok || !full.Full() || fleet.Unsure(err) || heads < 4 {
						t.Errorf("a full stream, after %d heads: %v", heads, err)
					}
					break
				}
				revision, heads = r, heads+1
				if heads > 10 {
					t.Fatal("the stream is never full")
				}
			}
			e.Until("the last head can be read", func(context.Context) error {
				h, err := c.LoadHead(ctx)
				if err == nil && (h.Revision != revision || len(h.Body) != len(body) || !h.Signed) {
					err = errors.New("another head")
				}
				return err
			})
		})
	}
}
