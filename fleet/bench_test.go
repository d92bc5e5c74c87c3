package fleet_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"agentstateloop/internal/testkit/fleettest"
)

// trips counts round trips: the answers of a server that come right after a frame of the client.
type trips struct {
	mu    sync.Mutex
	n     int
	asked bool
}

func (t *trips) pass(f fleettest.Frame) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch f.Verb {
	case "MSG", "HMSG", "PONG":
		if t.asked {
			t.n++
		}
		t.asked = false
	default:
		t.asked = true
	}
	return true
}

// take returns the round trips since the last call.
func (t *trips) take() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := t.n
	t.n, t.asked = 0, false
	return n
}

// TestRoundTrips checks how many round trips each call needs. A new connection also has those of TCP
// and TLS, and half of one for the greeting.
func TestRoundTrips(t *testing.T) {
	t.Parallel()
	c := fleettest.Start(t, "alice").Conn("alice")
	count := &trips{}
	c.Dial = fleettest.Wire{Pass: count.pass}.Dial
	ctx, body := t.Context(), bytes.Repeat([]byte("x"), 3000)
	sum := sha256.Sum256(body)
	revision := uint64(0)
	for _, call := range []struct {
		name string
		do   func() error
		want int
	}{
		{"LoadHead on a new connection", func() error { _, err := c.LoadHead(ctx); return err }, 2},
		{"LoadHead", func() error { _, err := c.LoadHead(ctx); return err }, 1},
		{"OfferHead", func() (err error) { revision, err = c.OfferHead(ctx, revision, body); return err }, 1},
		{"the next OfferHead", func() (err error) { revision, err = c.OfferHead(ctx, revision, body); return err }, 1},
		{"PutFile of 3 KB", func() error { return c.PutFile(ctx, hex.EncodeToString(sum[:]), 3000, bytes.NewReader(body)) }, 1},
		{"PutBlock", func() error { return c.PutBlock(ctx, 1, body) }, 1},
		{"PutBlock again", func() error { return c.PutBlock(ctx, 1, body) }, 2},
		{"GetBlocks of one block", func() error { return c.GetBlocks(ctx, 1, 1, func(uint64, []byte) error { return nil }) }, 1},
		{"SetWish", func() error { return c.SetWish(ctx, body) }, 1},
		{"LoadWish", func() error { _, _, err := c.LoadWish(ctx); return err }, 1},
	} {
		count.take()
		if err := call.do(); err != nil {
			t.Fatalf("%s: %v", call.name, err)
		}
		if n := count.take(); n != call.want {
			t.Errorf("%s: %d round trips, want %d", call.name, n, call.want)
		}
	}
}

// BenchmarkOfferHead measures the time of a compare-and-set of 20 KB, on one server and on three, and
// reports the median and the 99th percentile in milliseconds.
//
//	go test -bench OfferHead -benchtime 1000x -run '^$' ./fleet
func BenchmarkOfferHead(b *testing.B) {
	for name, start := range map[string]func(testing.TB, ...string) *fleettest.Engine{"one": fleettest.Start, "three": fleettest.StartCluster} {
		b.Run(name, func(b *testing.B) {
			c := start(b, "alice").Conn("alice")
			body := []byte(strings.Repeat("x", 20<<10))
			revision, err := c.OfferHead(b.Context(), 0, body)
			if err != nil {
				b.Fatal(err)
			}
			var times []time.Duration
			for range b.N {
				began := time.Now()
				if revision, err = c.OfferHead(b.Context(), revision, body); err != nil {
					b.Fatal(err)
				}
				times = append(times, time.Since(began))
			}
			slices.Sort(times)
			ms := func(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
			b.ReportMetric(ms(times[len(times)/2]), "p50-ms")
			b.ReportMetric(ms(times[len(times)*99/100]), "p99-ms")
			b.ReportMetric(0, "ns/op")
		})
	}
}
