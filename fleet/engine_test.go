package fleet_test

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"agentstateloop/fleet"
	"agentstateloop/internal/testkit/fleettest"
)

// TestServersKeep checks what the servers keep, whatever an agent publishes: its blocks never change, a
// head drops the one eight before it, and a full stream of heads refuses the next one and keeps the last one.
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

			revision := uint64(0)
			for range 10 {
				var err error
				if revision, err = c.OfferHead(ctx, revision, []byte("head")); err != nil {
					t.Fatal(err)
				}
			}
			var info struct {
				Config map[string]json.RawMessage `json:"config"`
				State  struct {
					Messages int `json:"messages"`
				} `json:"state"`
			}
			e.Ask("STREAM.INFO."+fleet.HeadStream, nil, &info)
			if info.State.Messages != 8 {
				t.Errorf("%d heads are kept, want 8", info.State.Messages)
			}
			info.Config["max_bytes"] = json.RawMessage("102400")
			e.Ask("STREAM.UPDATE."+fleet.HeadStream, info.Config, nil)
			body := []byte(strings.Repeat("x", 20<<10))
			heads := 0
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

// TestSilentServer checks that an offer without an answer is made once, and that the next call goes to
// another server.
func TestSilentServer(t *testing.T) {
	t.Parallel()
	c := fleettest.StartCluster(t, "alice").Conn("alice")
	c.Timeout = time.Second
	var mu sync.Mutex
	var servers []string
	offers := 0
	wire := fleettest.Wire{Pass: func(f fleettest.Frame) bool {
		mu.Lock()
		defer mu.Unlock()
		if f.Verb == "HPUB" {
			offers++
		}
		return len(servers) > 1 || f.Verb != "MSG"
	}}
	c.Dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
		mu.Lock()
		servers = append(servers, addr)
		mu.Unlock()
		return wire.Dial(ctx, network, addr)
	}
	if _, err := c.OfferHead(t.Context(), 0, []byte("head")); !fleet.Unsure(err) || offers != 1 {
		t.Errorf("after %d offers: %v", offers, err)
	}
	c.Timeout = 0
	_, err := c.OfferHead(t.Context(), 0, []byte("head"))
	if refused, ok := errors.AsType[*fleet.Refused](err); !ok || refused.Last == 0 {
		t.Errorf("the repeat: %v", err)
	}
	if len(servers) != 2 || servers[0] == servers[1] {
		t.Errorf("the offers went to %s", servers)
	}
}

// TestOfferWithoutInbox checks that an offer is unsure if its answer cannot be heard.
func TestOfferWithoutInbox(t *testing.T) {
	t.Parallel()
	e := fleettest.StartBare(t, 1, "alice")
	e.Configure(func(text string) string { return strings.ReplaceAll(text, `"_INBOX_alice.>"`, `"_INBOX_other.>"`) })
	e.Create()
	_, err := e.Conn("alice").OfferHead(t.Context(), 0, []byte("head"))
	if denied, ok := errors.AsType[*fleet.Error](err); !ok || !denied.Denied || !fleet.Unsure(err) {
		t.Error(err)
	}
	var info struct {
		State struct {
			Messages int `json:"messages"`
		} `json:"state"`
	}
	if e.Ask("STREAM.INFO."+fleet.HeadStream, nil, &info); info.State.Messages != 1 {
		t.Errorf("%d heads are stored, want 1", info.State.Messages)
	}
}
