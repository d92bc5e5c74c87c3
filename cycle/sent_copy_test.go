package cycle_test

import (
	"bytes"

	"slices"
	"strings"
	"testing"
	"time"

	"github.com/emersion/go-imap/v2"
	"github.com/emersion/go-imap/v2/imapclient"

	"agentstateloop/mail/message"
	"agentstateloop/state"
)

// newFilingFixture is a fixture whose agent puts copies of its mail into the folder Sent.
func newFilingFixture(t *testing.T) *fixture {
	t.Helper()
	h := newAwakeFixture(t)
	h.agent.Replies.Sent, h.agent.Policy.Copies = "Sent", true
	check(t, h.mail.Create("Sent"))
	return h
}

// sentFolder returns the mails of the folder Sent, and whether all are marked read.
func (h *fixture) sentFolder() (raws []string, seen bool) {
	h.t.Helper()
	c, err := imapclient.DialInsecure(h.blueprint.IMAP, nil)
	check(h.t, err)
	defer c.Close()
	check(h.t, c.Login(h.mail.Username, h.mail.Password).Wait())
	box, err := c.Select("Sent", nil).Wait()
	check(h.t, err)
	if box.NumMessages == 0 {
		return nil, true
	}
	all := imap.SeqSet{{Start: 1, Stop: 0}}
	mails, err := c.Fetch(all, &imap.FetchOptions{Flags: true, BodySection: []*imap.FetchItemBodySection{{Peek: true}}}).Collect()
	check(h.t, err)
	seen = true
	for _, m := range mails {
		raws = append(raws, string(m.BodySection[0].Bytes))
		seen = seen && slices.Contains(m.Flags, imap.FlagSeen)
	}
	return raws, seen
}

// wantFiled fails unless the folder holds exactly what was sent, in its order.
func (h *fixture) wantFiled() {
	h.t.Helper()
	var want []string
	for _, m := range h.mail.Sent() {
		want = append(want, string(m.Raw))
	}
	got, seen := h.sentFolder()
	if !slices.Equal(got, want) || !seen {
		h.t.Errorf("%d copies of %d mails, read: %v", len(got), len(want), seen)
	}
	if left := h.state().Unfiled; len(left) > 0 {
		h.t.Errorf("not filed: %+v", left)
	}
}

// TestCopiesOfSentMail checks that each mail of ours has one copy, byte for byte, also with a
// large file, and that the history of the thread is found as without copies.
func TestCopiesOfSentMail(t *testing.T) {
	t.Parallel()
	h := newFilingFixture(t)
	h.receive(letter{id: "<one@example.com>"})
	h.poll()
	h.wantFiled()
	h.pollAfter(time.Minute)
	h.wantFiled()
	h.playScript(largeFileScript)
	h.receive(letter{id: "<two@example.com>", body: "send me the table"})
	h.pollAfter(time.Minute)
	h.wantWhole()
	h.wantFiled()
	if !exists(h.largePlace()) {
		t.Error("the agent's folder does not have its file again")
	}
	h.pollAfter(11 * time.Minute) // the quiet
	h.wantFiled()
	raw := replyTo(h.sentOf("reply")[0], "HALT").raw()
	if left := message.ContentOf(raw, message.Sent{Texts: []string{h.sentOf("reply")[0].text}, Names: []string{address}}).Left; left.History == 0 {
		t.Fatal("the answer has no history")
	}
	h.receiveRaw(raw)
	h.pollAfter(30 * time.Minute)
	if !h.state().Halted() {
		t.Error("HALT above the history of a filed mail does not halt")
	}
}

// TestSentCopyIsMadeOnce checks that a copy which is there is not made again: a process died right
// after APPEND, or the provider makes its own.
func TestSentCopyIsMadeOnce(t *testing.T) {
	t.Parallel()
	h := newFilingFixture(t)
	h.agent.Replies.Sent = "" // the process ends before it files
	h.receive(letter{id: "<one@example.com>"})
	h.poll()
	if left := h.state().Unfiled; len(left) != 2 {
		t.Fatalf("waiting: %+v", left)
	}
	for _, m := range h.mail.Sent() {
		_, err := h.mail.AppendTo("Sent", bytes.ReplaceAll(m.Raw, []byte("To: "), []byte("To:  ")), h.clock.Now())
		check(t, err)
	}
	h.agent.Replies.Sent = "Sent"
	h.pollAfter(time.Minute)
	if got, _ := h.sentFolder(); len(got) != 2 {
		t.Errorf("%d copies", len(got))
	}
	if left := h.state().Unfiled; len(left) > 0 {
		t.Errorf("waiting: %+v", left)
	}
}

// TestSentCopyIsGivenUp checks that a missing folder delays nothing, that the copies are made
// once it exists, and that they are given up after a day.
func TestSentCopyIsGivenUp(t *testing.T) {
	t.Parallel()
	h := newAwakeFixture(t)
	h.agent.Replies.Sent, h.agent.Policy.Copies = "Sent", true
	h.receive(letter{id: "<one@example.com>"})
	if r := h.poll(); len(r.Failed) != 0 || r.Sent != 2 {
		t.Errorf("report: %+v", r)
	}
	if left := h.state().Unfiled; len(left) != 2 || left[0].Attempts != 1 || left[0].Reason == "" {
		t.Fatalf("waiting: %+v", left)
	}
	check(t, h.mail.Create("Sent"))
	h.pollAfter(2 * time.Minute)
	h.wantFiled()

	h.agent.Replies.Sent = "Nowhere"
	h.receive(letter{id: "<two@example.com>"})
	for range 30 {
		h.pollAfter(time.Hour)
	}
	if left := h.state().Unfiled; len(left) > 0 {
		t.Errorf("after a day: %+v", left)
	}
	lost := slices.DeleteFunc(h.lines(state.LineDelivery), func(l state.Line) bool { return l.What != "not filed" })
	if len(lost) == 0 || !strings.HasPrefix(lost[0].ID, "reply.") && !strings.HasPrefix(lost[0].ID, "ack.") {
		t.Errorf("the history tells of %+v", lost)
	}
}

// TestChallengeHasNoSentCopy checks that the token of a challenge is in no folder.
func TestChallengeHasNoSentCopy(t *testing.T) {
	t.Parallel()
	h := newAskingFixture(t)
	h.agent.Replies.Sent, h.agent.Policy.Copies = "Sent", true
	check(t, h.mail.Create("Sent"))
	h.receive(letter{id: "<one@example.com>"})
	h.poll()
	if n := len(h.sentOf("challenge")); n != 1 {
		t.Fatalf("%d challenges", n)
	}
	if got, _ := h.sentFolder(); len(got) != 0 {
		t.Errorf("%d copies", len(got))
	}
}
