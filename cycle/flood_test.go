package cycle_test

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/emersion/go-imap/v2"

	"agentstateloop/cycle"
	"agentstateloop/cycle/quarantine"
	"agentstateloop/internal/testkit/mailtest"
	"agentstateloop/state"
)

// flood is the number of forged mails in a flood.
const flood = 3500

// countBodies counts the bodies that the mailbox is asked for.
func (h *fixture) countBodies() *atomic.Int64 {
	var n atomic.Int64
	count := func(uids imap.NumSet, body bool) error {
		if set, ok := uids.(imap.UIDSet); ok && body {
			nums, _ := set.Nums()
			n.Add(int64(len(nums)))
		}
		return nil
	}
	h.onFetch.Store(&count)
	return &n
}

// TestFloodDelaysNoHalt checks that the first poll obeys a HALT behind thousands of rejected
// mails. It checks their cost too: beyond the quarantine's limit, no body is fetched and no
// history line is written for each.
func TestFloodDelaysNoHalt(t *testing.T) {
	t.Parallel()
	h := newAwakeFixture(t)
	for n := range flood {
		h.receive(letter{id: fmt.Sprintf("<%d@evil.example>", n), fields: "Auto-Submitted: auto-replied\r\n"})
	}
	h.receive(letter{id: "<halt@example.com>", body: "HALT"})
	fetched := h.countBodies()
	r := h.pollAfter(time.Minute)
	if !h.state().Halted() {
		t.Errorf("not halted: %+v", r)
	}
	if r.Rejected != flood {
		t.Errorf("%d mails were rejected, want %d", r.Rejected, flood)
	}
	const kept, told = 50, 100 // of one sender at one gate; one by one
	h.wantCounted(kept)
	if n := fetched.Load(); n != kept+1 {
		t.Errorf("%d bodies were fetched, want %d", n, kept+1)
	}
	if n := len(h.lines(state.LineGate)); n != kept+told+1 {
		t.Errorf("%d lines in the history, want %d", n, kept+told+1)
	}
	if s := h.state(); s.Unkept != flood-kept || len(s.Cursor.Owed) != 0 {
		t.Errorf("%d mails were not kept, want %d; the cursor is %+v", s.Unkept, flood-kept, s.Cursor)
	}

	// Nothing is counted twice, and what is kept can be released.
	if r := h.pollAfter(time.Minute); r.Rejected != 0 || h.state().Unkept != flood-kept {
		t.Errorf("the next poll rejected %d mails, %d not kept", r.Rejected, h.state().Unkept)
	}
	items, err := h.agent.View().Quarantined()
	check(t, err)
	h.release(items[0].Key)
	if !h.state().Accepts(items[0].Key) {
		t.Errorf("%s was not released", items[0].Key)
	}
}

// TestFloodDelaysNoChallengeAnswer checks that the answer of the operator to
// a challenge is found among mails that look like it until they are read.
func TestFloodDelaysNoChallengeAnswer(t *testing.T) {
	t.Parallel()
	h := newAskingFixture(t)
	h.receive(letter{id: "<mine@example.com>", body: "please do it"})
	h.poll()
	asked, token := h.lastChallenge()
	for n := range 300 {
		h.receive(letter{id: fmt.Sprintf("<%d@evil.example>", n)})
	}
	h.receive(replyTo(asked, "YES "+token))
	h.pollAfter(time.Minute)
	h.wantRuns(1)
}

// BenchmarkFlood is one poll of a mailbox on a real server with so many rejected
// mails before one of the operator.
func BenchmarkFlood(b *testing.B) {
	for _, forged := range []int{0, 3500, 20_000} {
		b.Run(fmt.Sprint(forged), func(b *testing.B) {
			server := mailtest.StartDovecot(b)
			for b.Loop() {
				b.StopTimer()
				h := newFixture(b)
				d := server.Fresh(b)
				smtp := h.agent.Mail.SMTP
				h.blueprint.IMAP, h.blueprint.Username, h.blueprint.Password = d.IMAP, d.Username, d.Password
				h.agent = h.blueprint.agent(h.clock.Now)
				h.agent.Self, h.agent.Mail.SMTP = []string{"/bin/false"}, smtp
				h.poll()
				for n := range forged {
					check(b, d.Append(letter{id: fmt.Sprintf("<%d@evil.example>", n), fields: "List-Id: <x.example>\r\n"}.raw(), false))
				}
				check(b, d.Append(letter{body: "HALT"}.raw(), false))
				h.clock.advance(time.Minute)
				b.StartTimer()
				r, err := h.agent.Poll(b.Context(), cycle.PollOptions{})
				b.StopTimer()
				if check(b, err); !h.state().Halted() {
					b.Fatalf("not halted: %+v", r)
				}
				items, err := quarantine.Folder{Store: h.agent.Store}.Items()
				check(b, err)
				b.ReportMetric(float64(len(items)), "kept")
				b.StartTimer()
			}
		})
	}
}
