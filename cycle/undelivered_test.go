package cycle_test

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"agentstateloop/cycle"
	"agentstateloop/mesh"
)

// refusedReply makes a reply that is refused for good, while everything else passes.
func refusedReply(t *testing.T) *fixture {
	h := newAwakeFixture(t)
	h.agent.Policy.Ack = false
	h.refusesContent("reply", 554, "content rejected")
	h.receive(letter{id: "<one@example.com>", body: "the secret of the red door"})
	h.poll()
	return h
}

// A permanently refused mail is kept, and reported by mail without its text.
func TestPermanentRefusalIsKeptAndReported(t *testing.T) {
	t.Parallel()
	h := refusedReply(t)
	h.wantSent("notice")
	rows, err := h.agent.Outbox()
	check(t, err)
	if len(rows) != 1 || rows[0].Status != cycle.RowUndelivered || !rows[0].Told {
		t.Fatalf("outbox: %+v", rows)
	}
	notice := h.sentOf("notice")[0]
	for _, word := range []string{rows[0].ID, "554 content rejected", rows[0].File, `the answer to "@goulard3120 hello"`, operator, "agentstateloop outbox retry"} {
		if !strings.Contains(notice.text, word) {
			t.Errorf("the notice lacks %q:\n%s", word, notice.text)
		}
	}
	wantNoWords(t, notice.raw, "red door")
	if _, err := os.Stat(rows[0].File); err != nil {
		t.Errorf("its bytes: %v", err)
	}
}

// A notice that is refused as well is made again when a mail went through, and does not
// go round.
func TestRefusedNoticeWaitsForNextMail(t *testing.T) {
	t.Parallel()
	h := newAwakeFixture(t)
	h.agent.Policy.Ack, h.agent.Policy.HasMesh, h.agent.Mesh = false, false, nil
	h.refuses(550, "not now")
	h.receive(letter{id: "<one@example.com>"})
	h.poll()
	h.pollAfter(time.Minute)
	if got := h.state(); len(got.Outbox) != 0 || len(got.Undelivered) != 1 {
		t.Fatalf("%+v, %+v", got.Outbox, got.Undelivered)
	}
	h.onRcpt.Store(nil)
	h.pollAfter(time.Minute)
	h.wantSent("")
	h.receive(letter{id: "<two@example.com>"})
	h.poll()
	h.wantSent("reply notice")
	h.poll()
	h.wantSent("reply notice")
}

// Retry sends an undelivered row again with the same id and bytes.
func TestRetrySendsTheSameBytes(t *testing.T) {
	h := refusedReply(t)
	row := h.state().Undelivered[0]
	kept, err := os.ReadFile(h.agent.Store.Path(row.File))
	check(t, err)
	r, sent, err := h.agent.RetryEffect(t.Context(), row.ID)
	if err != nil || sent || r.Status != cycle.RowUndelivered || !strings.Contains(r.Reason, "554") {
		t.Fatalf("retry: %+v, %v, %v", r, sent, err)
	}
	h.onData.Store(nil)
	if _, sent, err = h.agent.RetryEffect(t.Context(), row.ID); err != nil || !sent {
		t.Fatalf("retry: %v, %v", sent, err)
	}
	if got := h.sentOf("reply"); len(got) != 1 || got[0].raw != string(kept) {
		t.Errorf("sent %+v, kept\n%s", got, kept)
	}
	if s := h.state(); len(s.Undelivered)+len(s.Outbox) != 0 {
		t.Errorf("%+v, %+v", s.Undelivered, s.Outbox)
	}
	h.wantEmpty("outbox")
}

// A retry of a row whose bytes are gone changes nothing.
func TestRetryWithoutBytes(t *testing.T) {
	t.Parallel()
	h := refusedReply(t)
	row := h.state().Undelivered[0]
	check(t, os.Remove(h.agent.Store.Path(row.File)))
	if _, _, err := h.agent.RetryEffect(t.Context(), row.ID); err == nil || !strings.Contains(err.Error(), "missing") {
		t.Errorf("retry: %v", err)
	}
	if n := len(h.state().Undelivered); n != 1 {
		t.Errorf("%d rows", n)
	}
}

// drop removes a row with its bytes: one that was given up, and one that waits.
func TestDropRemovesTheBytes(t *testing.T) {
	t.Parallel()
	h := refusedReply(t)
	check(t, h.agent.DropEffect(t.Context(), h.state().Undelivered[0].ID, "told by telephone"))
	h.wantEmpty("outbox")
	h.onData.Store(nil)
	h.refuses(451, "later")
	h.receive(letter{id: "<two@example.com>"})
	h.poll()
	check(t, h.agent.DropEffect(t.Context(), h.state().Outbox[0].ID, ""))
	h.wantEmpty("outbox")
	if err := h.agent.DropEffect(t.Context(), "reply.none", ""); err == nil {
		t.Error("dropped what is not there")
	}
}

// A row that is being sent cannot be dropped.
func TestDropRefusesRowBeingSent(t *testing.T) {
	t.Parallel()
	h := newAwakeFixture(t)
	h.agent.Policy.Ack = false
	var dropped error
	during := func(net.Conn, []byte) error {
		dropped = h.agent.DropEffect(t.Context(), h.state().Outbox[0].ID, "")
		return nil
	}
	h.onData.Store(&during)
	h.receive(letter{id: "<one@example.com>"})
	h.poll()
	if dropped == nil || !strings.Contains(dropped.Error(), "being sent") {
		t.Errorf("drop: %v", dropped)
	}
	h.wantSent("reply")
}

// Prune keeps the bytes of an undelivered row until they are too old.
func TestPruneKeepsUndeliveredRows(t *testing.T) {
	t.Parallel()
	h := refusedReply(t)
	h.agent.Keep = 48 * time.Hour
	file := h.agent.Store.Path(h.state().Undelivered[0].File)
	old := h.clock.Now().Add(-365 * 24 * time.Hour)
	check(t, os.Chtimes(file, old, old))
	h.pollAfter(25 * time.Hour)
	if _, err := os.Stat(file); err != nil {
		t.Fatal(err)
	}
	h.pollAfter(25 * time.Hour)
	if s := h.state(); len(s.Undelivered) != 0 {
		t.Errorf("kept: %+v", s.Undelivered)
	}
	if names, _ := filepath.Glob(filepath.Join(filepath.Dir(file), "*")); len(names) != 0 {
		t.Errorf("left: %v", names)
	}
}

// A peer that is asked to tell learns no subject and no path.
func TestRelayRevealsNoSubject(t *testing.T) {
	h := newAwakeFixture(t)
	h.agent.Policy.Ack = false
	h.refuses(550, "no such user")
	h.receive(letter{id: "<one@example.com>"})
	h.poll()
	got := h.peerItems(mesh.KindRelay)
	if len(got) != 1 || strings.Contains(got[0].Text, "hello") || strings.Contains(got[0].Text, h.agent.Store.Dir) {
		t.Errorf("relays: %+v", got)
	}
}
