package cycle_test

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"agentstateloop/state"

	"github.com/emersion/go-imap/v2"
)

// An empty cycle makes two calls: one mail session, which asks once for the headers of
// what may be new, and one GET of the mailbox (docs/design.md, "Promises" 9).
func TestEmptyPollMakesTwoCalls(t *testing.T) {
	h := newAwakeFixture(t)
	var headers, bodies, gets, others atomic.Int32
	fetch := func(_ imap.NumSet, body bool) error {
		if body {
			bodies.Add(1)
		} else {
			headers.Add(1)
		}
		return nil
	}
	request := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			gets.Add(1)
		} else {
			others.Add(1)
		}
	})
	h.onFetch.Store(&fetch)
	h.onMesh.Store(&request)
	h.poll()
	if headers.Load() != 1 || bodies.Load() != 0 || gets.Load() != 1 || others.Load() != 0 {
		t.Errorf("headers %d times, bodies %d times, %d GETs, %d other requests", headers.Load(), bodies.Load(), gets.Load(), others.Load())
	}
}

// The traffic of a poll with the mail server does not grow with the mailbox,
// except for the digits of its numbers (docs/design.md, "Promises" 8).
func TestLargeMailboxCostsNoMoreTraffic(t *testing.T) {
	emptyPoll := func(mails int) int64 {
		h := newFixture(t)
		raw := letter{from: "stranger@example.net", subject: "hello"}.raw()
		for range mails {
			h.receiveRaw(raw, imap.FlagSeen)
		}
		h.poll()
		before := h.traffic.n.Load()
		h.poll()
		return h.traffic.n.Load() - before
	}
	// The last words of a session may still be on their way: a hundred bytes.
	if small, large := emptyPoll(10), emptyPoll(5000); large > small+200 {
		t.Errorf("%d bytes with 10 mails, %d with 5,000", small, large)
	}
}

// The cost of a poll depends neither on the mailbox's size nor on the history's
// (docs/design.md, "Promises" 8). What grows with the mailbox here is the
// SELECT of the server in memory, which walks all of it.
func BenchmarkEmptyPoll(b *testing.B) {
	for _, mails := range []int{100, 10_000, 100_000} {
		b.Run(fmt.Sprintf("mails=%d", mails), func(b *testing.B) {
			h := newFixture(b)
			raw := letter{from: "stranger@example.net", subject: "hello"}.raw()
			for range mails {
				h.receiveRaw(raw, imap.FlagSeen)
			}
			h.benchmarkPolls(b)
		})
	}
	b.Run("unread-of-others=50000", func(b *testing.B) {
		h := newFixture(b)
		raw := letter{from: "stranger@example.net", subject: "hello"}.raw()
		for range 50_000 {
			h.receiveRaw(raw)
		}
		h.benchmarkPolls(b)
	})
	for _, lines := range []int{100, 100_000} {
		b.Run(fmt.Sprintf("history=%d", lines), func(b *testing.B) {
			h := newAwakeFixture(b)
			name := filepath.Join(h.agent.Store.Dir, "history-2025-12.jsonl")
			line := fmt.Sprintf(`{"serial":0,"n":0,"at":"2025-12-01T00:00:00Z","kind":%q}`+"\n", state.LineNote)
			check(b, os.WriteFile(name, []byte(strings.Repeat(line, lines)), 0o600))
			h.benchmarkPolls(b)
		})
	}
}

func (h *fixture) benchmarkPolls(b *testing.B) {
	h.poll()
	for b.Loop() {
		if r := h.poll(); r.Found() {
			b.Fatalf("found %+v", r)
		}
	}
}
