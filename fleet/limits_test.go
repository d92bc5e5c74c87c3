package fleet

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"

	"agentstateloop/internal/limittest"
)

// streamOf returns the stream of this name as it should be.
func streamOf(name string) Stream {
	assets := Assets(1)
	return assets[slices.IndexFunc(assets, func(a Asset) bool { return a.Stream.Name == name })].Stream
}

// rung hears n calls of the doorbell.
func rung(n int64) (Heard, *bell) {
	b := &bell{rung: make(chan *nats.Msg, n), halt: make(chan *nats.Msg)}
	for range n - 1 {
		b.rung <- &nats.Msg{}
	}
	return new(Conn).hear(b, &nats.Msg{}), b
}

// pauses returns how long a call waits before it is tried again, for each of so many
// times.
func pauses(t *testing.T, times int) (all []time.Duration) {
	synctest.Test(t, func(t *testing.T) {
		c := &Conn{link: &link{nc: &nats.Conn{}}, Timeout: time.Hour}
		last := time.Now()
		_ = c.do(t.Context(), func(context.Context, *link) error {
			all = append(all, time.Since(last))
			if last = time.Now(); len(all) > times {
				return nil
			}
			return lostError("n1", 503, errNoAnswer)
		})
	})
	return all[1:]
}

func TestLimits(t *testing.T) {
	limittest.Run(t, []limittest.Limit{
		// Streams. Of a message the engine counts the headers too.
		{Const: "boxBody", Max: 66 << 10, Within: func(_ *testing.T, n int64) bool { return int(n)+4<<10 <= streamOf(BoxStream).MaxSize }},
		{Const: "headerRoom", Max: 4 << 10, Within: func(_ *testing.T, n int64) bool { return 66<<10+int(n) <= streamOf(BoxStream).MaxSize }},
		{Const: "blobChunk", Max: 256 << 10, Within: func(_ *testing.T, n int64) bool { return int(n)+4<<10 <= streamOf(BlobStream).MaxSize }},
		{Const: "maxReplicas", Max: 3, Within: func(_ *testing.T, n int64) bool { return Replicas(int(n)) == int(n) }},
		{Const: "besideOnLoopback", Max: 63_535, Within: func(_ *testing.T, n int64) bool {
			_, err := parseServer(fmt.Sprint("127.0.0.1:", n))
			return err == nil
		}},
		{Const: "atOnce", Max: 8, Within: func(t *testing.T, n int64) (within bool) {
			synctest.Test(t, func(t *testing.T) {
				var asked atomic.Int64
				goOn := make(chan struct{})
				c := creation{Wanted: Wanted{Check: true}, ask: func(context.Context, string, []byte) ([]byte, error) {
					asked.Add(1)
					<-goOn
					return json.Marshal(map[string]any{"config": Mailbox("a")})
				}}
				go c.mailboxes(t.Context(), make([]string, n))
				synctest.Wait()
				within = asked.Load() == n
				close(goOn)
			})
			return within
		}},

		// Files.
		{Const: "chunkSize", Max: 256 << 10, Within: func(_ *testing.T, n int64) bool { return chunks(n) == 1 }},
		{Const: "chunkSize", Max: 256 << 10, Within: func(_ *testing.T, n int64) bool { // of a chunk that comes
			header := nats.Header{headerSize: {"1"}, "Nats-Sequence": {"1"}, "Nats-Time-Stamp": {"2026-01-02T03:04:05Z"}}
			_, _, err := new(Blob).chunk(&flight{link: &link{}}, answer{Msg: &nats.Msg{Header: header, Data: make([]byte, n)}}, 0)
			return err == nil
		}},
		{Const: "chunksAhead", Max: 8, Within: func(_ *testing.T, n int64) bool { return (&Blob{count: int(n)}).ahead() == int(n) }},

		// Calls.
		limittest.Duration("tryTime", 5*time.Second, 1, func(_ *testing.T, d time.Duration) bool { return (&Conn{Timeout: 2 * d}).patience() == d }),
		{Const: "queued", Max: 1024, Within: func(_ *testing.T, n int64) bool {
			_, b := rung(n)
			return len(b.rung) == 0
		}},
		{Const: "maxRings", Max: 64, Within: func(_ *testing.T, n int64) bool {
			h, _ := rung(n)
			return len(h.Rings) == int(n)
		}},
		limittest.Duration("firstPause", 50*time.Millisecond, 1, func(t *testing.T, d time.Duration) bool { return pauses(t, 1)[0] >= d }),
	})
}

// TestRingsThatStay checks that a call of the doorbell that is too many to be read now is
// read by the next call.
func TestRingsThatStay(t *testing.T) {
	if _, b := rung(queued + 2); len(b.rung) != 2 {
		t.Errorf("%d calls are left, want 2", len(b.rung))
	}
}

// TestPauses checks that the pause before each try doubles, up to a second.
func TestPauses(t *testing.T) {
	want := []time.Duration{50, 100, 200, 400, 800, 1000, 1000}
	for i := range want {
		want[i] *= time.Millisecond
	}
	if got := pauses(t, len(want)); !slices.Equal(got, want) {
		t.Errorf("the pauses are %v, want %v", got, want)
	}
}

// TestDomains checks that what an agent signs for one purpose counts for no other: each
// kind of message is signed, and its signature tried with the first line of each kind.
func TestDomains(t *testing.T) {
	seed, public, err := NewKey()
	if err != nil {
		t.Fatal(err)
	}
	c := &Conn{Handle: "alice", Seed: func(context.Context) (string, error) { return seed, nil }}
	at := time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC)
	signed := at.Format(timeLayout)
	message := func(m *nats.Msg, err error) *nats.Msg {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	halt := message(c.haltMessage(t.Context(), true, at, 7))
	body := halt.Data // the same for all: the lines alone must tell them apart
	kinds := map[string]struct {
		*nats.Msg
		line string
	}{
		"box":    {message(c.posted(t.Context(), "bob", "id-1", at, body)), boxLine("bob", "alice", "id-1", signed)},
		"halt":   {halt, haltLine},
		"task":   {message(c.task(t.Context(), at, body)), taskLine("alice", signed)},
		"who":    {message(c.row(t.Context(), whoSubject("alice"), "alice", body, at)), whoLine("alice", signed)},
		"wakeup": {message(c.ring(t.Context(), "bob")), ringLine("bob", "alice")},
	}
	for name, kind := range kinds {
		if !strings.HasPrefix(kind.line, "asl1 "+name) {
			t.Errorf("the line of %s is %q", name, kind.line)
		}
		for other, tried := range kinds {
			data := kind.Data
			if name == "wakeup" {
				data = nil // its line says everything
			}
			if got := verifies(public, kind.Header.Get(headerSignature), tried.line, data); got != (name == other) {
				t.Errorf("a signature of %s counts for %s: %t", name, other, got)
			}
		}
	}
}

// TestEveryLineHasADomain checks that TestDomains knows each line that is signed.
func TestEveryLineHasADomain(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	lines := map[string]bool{}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, call := range regexp.MustCompile(`\.sign\(ctx, (\w+)`).FindAllStringSubmatch(string(text), -1) {
			lines[call[1]] = true
		}
	}
	if got, want := slices.Sorted(maps.Keys(lines)), []string{"boxLine", "haltLine", "ringLine", "taskLine", "whoLine"}; !slices.Equal(got, want) {
		t.Errorf("the lines that are signed are %q, and TestDomains tries %q", got, want)
	}
}
