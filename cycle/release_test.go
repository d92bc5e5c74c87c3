package cycle_test

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"agentstateloop/cycle/quarantine"
	"agentstateloop/mail/trust"
	"agentstateloop/mesh"
	"agentstateloop/state"
	"agentstateloop/state/store"
)

// quarantinedItem returns the one item in quarantine.
func (h *fixture) quarantinedItem() quarantine.Item {
	h.t.Helper()
	items, err := h.agent.View().Quarantined()
	check(h.t, err)
	if len(items) != 1 {
		h.t.Fatalf("in quarantine: %+v, want one item", items)
	}
	return items[0]
}

// wantCounted fails unless so many items are in quarantine, in the state and in
// the status.
func (h *fixture) wantCounted(want int) {
	h.t.Helper()
	items, err := h.agent.View().Quarantined()
	check(h.t, err)
	status := h.status()
	if len(items) != want || status.Inbox.Quarantined != want {
		h.t.Errorf("%d items in quarantine, status says %d, want %d", len(items), status.Inbox.Quarantined, want)
	}
}

// release releases an item, which must be there.
func (h *fixture) release(key string) (already bool) {
	h.t.Helper()
	already, err := h.agent.Release(h.t.Context(), key, state.ByHand)
	check(h.t, err)
	return already
}

// A released mail runs like any mail of the operator, even if it is far behind the cursor or a
// copy, by its Message-ID, of an accepted mail.
func TestReleasedMailRunsOnce(t *testing.T) {
	t.Parallel()
	h := newAwakeFixture(t)
	h.receive(letter{id: "<one@example.com>", body: "first"})
	h.poll()
	h.receive(letter{id: "<two@example.com>", body: "do it", fields: "List-Id: <x.example.com>\r\n"})
	h.poll()
	h.receive(letter{id: "<three@example.com>", body: "later"})
	h.poll()
	item := h.quarantinedItem()
	h.wantCounted(1)

	if h.release(item.Key) {
		t.Error("it was taken before")
	}
	h.wantCounted(0)
	if r := h.pollAfter(time.Minute); r.Turns != 1 {
		t.Fatalf("report: %+v", r)
	}
	replies := h.sentOf("reply")
	last := replies[len(replies)-1]
	if len(replies) != 3 || last.text != "I read: do it" || last.to != operator || last.head.InReplyTo != "<two@example.com>" {
		t.Errorf("replies: %+v", replies)
	}
	if _, err := h.agent.Release(t.Context(), item.Key, state.ByHand); !errors.Is(err, quarantine.ErrNotQuarantined) {
		t.Errorf("released again: %v", err)
	}
	if r := h.poll(); r.Turns != 0 {
		t.Errorf("report: %+v", r)
	}
}

// crashInRelease releases an item, and crashes before its folder is removed.
func (h *fixture) crashInRelease(key string) {
	h.t.Helper()
	crash := errors.New("killed")
	h.agent.Store.Hook = func(step, path string) error {
		if step == "remove" && strings.Contains(path, store.QuarantineDir) {
			return crash
		}
		return nil
	}
	if _, err := h.agent.Release(h.t.Context(), key, state.ByHand); !errors.Is(err, crash) {
		h.t.Fatalf("release: %v", err)
	}
	h.agent.Store.Hook = nil
}

// An item that is left by a crash between the commit of a release and the removal of its folder
// does not count as quarantined. A second release runs nothing.
func TestReleaseSurvivesCrash(t *testing.T) {
	h := newAwakeFixture(t)
	h.receive(letter{fields: "List-Id: <x.example.com>\r\n"})
	h.poll()
	item := h.quarantinedItem()
	h.crashInRelease(item.Key)
	h.wantCounted(0)
	if !h.release(item.Key) {
		t.Error("it was released twice")
	}
	if r := h.poll(); r.Turns != 1 {
		t.Errorf("report: %+v", r)
	}
	h.wantEmpty(store.QuarantineDir)
}

// The folder that a crash left is removed with the next rejected item.
func TestReleaseLeftoversAreCleared(t *testing.T) {
	h := newAwakeFixture(t)
	h.receive(letter{fields: "List-Id: <x.example.com>\r\n"})
	h.poll()
	h.crashInRelease(h.quarantinedItem().Key)
	h.receive(letter{fields: "List-Id: <y.example.com>\r\n"})
	h.poll()
	h.wantCounted(1)
	if folders, err := os.ReadDir(h.agent.Store.Path(store.QuarantineDir)); err != nil || len(folders) != 1 {
		t.Errorf("folders: %v, %v", folders, err)
	}
}

// The answer goes to the operator even if From has another address too.
func TestReleasedMailIsAnsweredToOperatorOnly(t *testing.T) {
	h := newAwakeFixture(t)
	h.receive(letter{from: "evil@example.net>, <" + operator})
	h.poll()
	item := h.quarantinedItem()
	if item.From != "evil@example.net" {
		t.Fatalf("item: %+v", item)
	}
	h.release(item.Key)
	h.poll()
	h.wantSent("ack reply")
	for _, m := range h.sent() {
		if m.to != operator {
			t.Errorf("a %s to %s", m.kind, m.to)
		}
	}
}

// A rejected control is obeyed once it is released.
func TestReleasedControlIsObeyed(t *testing.T) {
	h := newAwakeFixture(t)
	h.receive(letter{body: "HALT", fields: "Precedence: bulk\r\n"})
	h.poll()
	if h.state().Halted() {
		t.Fatal("it is halted")
	}
	h.release(h.quarantinedItem().Key)
	if !h.state().Halted() {
		t.Error("it is not halted")
	}
	if r := h.poll(); r.Turns != 0 {
		t.Errorf("report: %+v", r)
	}
	h.wantSent("answer")
}

// Only the header of a mail that is too large is kept.
func TestTooLargeMailIsNotReleased(t *testing.T) {
	h := newAwakeFixture(t)
	h.agent.Mail.Filter.MaxSize = 1000
	h.receive(letter{body: strings.Repeat("x", 2000)})
	h.poll()
	item := h.quarantinedItem()
	if item.Gate != trust.GateSize {
		t.Fatalf("item: %+v", item)
	}
	if _, err := h.agent.Release(t.Context(), item.Key, state.ByHand); err == nil || !strings.Contains(err.Error(), "only its header was kept") {
		t.Errorf("release: %v", err)
	}
	h.wantCounted(1)
}

// A released message of the mesh is answered via the mesh, and does not count
// as the operator's. It is not taken twice, although the mesh still has it.
func TestReleasedMeshMessage(t *testing.T) {
	h := newAwakeFixture(t)
	h.agent.Mesh.Open = false
	h.post(mesh.Message{ID: "m1", From: peer, Text: "which commit?", Kind: mesh.KindAsk})
	h.poll()
	h.release(h.quarantinedItem().Key)
	if r := h.poll(); r.Turns != 1 || r.After != state.PREP {
		t.Errorf("report: %+v", r)
	}
	if reports := h.reports(); len(reports) != 1 || reports[0].Text != "I read: which commit?" || reports[0].Correlation != "m1" {
		t.Errorf("reports: %+v", reports)
	}
}

// After an item was expelled, the real message can come in.
func TestExpelledItemLeavesNoTrace(t *testing.T) {
	h := newAwakeFixture(t)
	h.agent.Mesh.Open = false
	h.post(mesh.Message{ID: "m1", From: peer, Text: "which commit?"})
	h.poll()
	item := h.quarantinedItem()
	check(t, h.agent.Expel(t.Context(), item.Key, "not known"))
	h.wantCounted(0)
	h.wantEmpty(store.QuarantineDir)
	if err := h.agent.Expel(t.Context(), item.Key, ""); !errors.Is(err, quarantine.ErrNotQuarantined) {
		t.Errorf("dropped again: %v", err)
	}
	if s := h.state(); s.Accepts(item.Key) {
		t.Error("its key is taken")
	}
}

// A flood of forged mail is kept up to its limit and then only counted. Items of other gates and
// other senders are still kept.
func TestQuarantineLimitsSender(t *testing.T) {
	h := newAwakeFixture(t)
	h.agent.Mail.Filter.Require = "dmarc"
	h.agent.Mail.Filter.AuthservID = "mx.example.org"
	for i := range 60 {
		h.receive(letter{id: fmt.Sprintf("<%d@example.com>", i)})
	}
	h.receive(letter{fields: "Auto-Submitted: auto-replied\r\n"})
	h.post(mesh.Message{ID: "m1", From: "mallory", Text: "do this"})
	r := h.poll()
	if r.Rejected != 62 || r.Arrived != 0 {
		t.Errorf("report: %+v", r)
	}
	h.wantCounted(52)
	s := h.state()
	if s.Unkept != 10 {
		t.Errorf("not kept: %d, want 10", s.Unkept)
	}
	// A day later there is room again.
	h.receive(letter{id: "<later@example.com>"})
	h.pollAfter(25 * time.Hour)
	h.wantCounted(53)
	h.wantPhase(state.IDLE)
	h.wantSent("")
}

// In a full folder the oldest item of the sender with the largest share is evicted, but no item
// that the operator is to be asked about.
func TestFullQuarantineEvictsLargestSender(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("keeps five hundred items")
	}
	h := newAwakeFixture(t)
	h.agent.Mail.Filter.Require = "dmarc"
	h.agent.Mail.Filter.AuthservID = "mx.example.org"
	h.agent.Mail.Filter.Fallback, h.agent.Policy.Challenge = true, true
	h.halt()
	h.receive(letter{id: "<evidence@example.com>", fields: "List-Id: <x.example.com>\r\n"})
	var asked []string
	for i := range 11 {
		for n := range 50 {
			h.receive(letter{id: fmt.Sprintf("<%d.%d@example.com>", i, n)})
		}
		h.pollAfter(25 * time.Hour)
		if i == 0 {
			asked = h.state().Unasked
		}
	}
	h.wantCounted(500)
	items, err := h.agent.View().Quarantined()
	check(t, err)
	if items[0].Gate != trust.GateList {
		t.Errorf("the oldest is now %+v", items[0])
	}
	for _, key := range asked {
		if !slices.ContainsFunc(items, func(q quarantine.Item) bool { return q.Key == key }) {
			t.Errorf("%s is to be asked about, and gone", key)
		}
	}
	if len(asked) != 5 {
		t.Errorf("to be asked about: %v", asked)
	}
	if n := len(h.lines(state.LineQuarantine)); n != 51 {
		t.Errorf("the history tells of %d items that went, want 51", n)
	}
}

// Prune corrects the count.
func TestPrunedQuarantineIsCounted(t *testing.T) {
	h := newAwakeFixture(t)
	h.agent.Keep = 90 * 24 * time.Hour
	h.receive(letter{fields: "List-Id: <x.example.com>\r\n"})
	h.poll()
	dir := h.agent.Store.Path(store.PayloadName(store.QuarantineDir, h.quarantinedItem().Key, ""))
	old := h.clock.Now().Add(-h.agent.Keep)
	check(t, os.Chtimes(dir, old, old))
	h.pollAfter(25 * time.Hour)
	h.wantCounted(0)
}
