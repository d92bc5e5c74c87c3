package cycle_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"agentstateloop/state"
	"agentstateloop/turn"

	"github.com/emersion/go-imap/v2"
)

func TestMailGetsOneThreadedReply(t *testing.T) {
	h := newAwakeFixture(t)
	uid := h.receive(letter{id: "<one@example.com>", subject: "@goulard3120 the build", body: "is it green?"})

	r := h.poll()
	if r.Arrived != 1 || r.Turns != 1 || r.Before != state.IDLE || r.After != state.PREP {
		t.Fatalf("report: %+v", r)
	}
	h.wantSent("ack reply")
	if ack := h.sentOf("ack")[0]; ack.text != "goulard3120 standing by. what do you need?" || ack.to != operator {
		t.Errorf("ack to %s: %q", ack.to, ack.text)
	}
	reply := h.sentOf("reply")[0]
	if reply.text != "I read: is it green?" || reply.to != operator {
		t.Errorf("reply to %s: %q", reply.to, reply.text)
	}
	if reply.head.InReplyTo != "<one@example.com>" || !slices.Contains(reply.head.References, "<one@example.com>") ||
		reply.head.Subject != "Re: @goulard3120 the build" {
		t.Errorf("not threaded: In-Reply-To %q, References %q, Subject %q", reply.head.InReplyTo, reply.head.References, reply.head.Subject)
	}
	if slices.Contains(h.unread(), uid) {
		t.Error("the mail was taken and is unread")
	}
	if tasks := h.lines(state.LineTask); len(tasks) != 1 || tasks[0].Outcome != state.Success {
		t.Errorf("task lines: %+v", tasks)
	}
	if s := h.state(); len(s.Inbox)+len(s.Outbox) != 0 {
		t.Errorf("left: inbox %+v, outbox %+v", s.Inbox, s.Outbox)
	}

	if r := h.pollAfter(time.Minute); r.Found() {
		t.Errorf("the next poll found %+v", r)
	}
	h.wantSent("ack reply")
}

func TestMailForOthersStaysUnread(t *testing.T) {
	h := newAwakeFixture(t)
	for _, l := range []letter{
		{subject: "@dorlange3120 hello"},
		{subject: "@goulard31200 hello"},
		{subject: "goulard3120 without the sign"},
		{from: "stranger@example.net"},
		{from: "operator@example.com.evil.example"},
		{from: operator + ".au"},
	} {
		h.receive(l)
	}
	if r := h.poll(); r.Found() {
		t.Fatalf("found %+v", r)
	}
	if got := h.unread(); len(got) != 6 {
		t.Errorf("unread: %v, want all six", got)
	}
	h.wantSent("")
}

func TestReadMailIsTaken(t *testing.T) {
	h := newAwakeFixture(t)
	h.receive(letter{id: "<one@example.com>"}, imap.FlagSeen)
	if r := h.poll(); r.Arrived != 1 || r.Turns != 1 {
		t.Errorf("report: %+v", r)
	}
}

func TestFirstPollTakesUnreadMailOnly(t *testing.T) {
	t.Parallel()
	h := newFixture(t)
	h.receive(letter{id: "<old@example.com>", body: "old"}, imap.FlagSeen)
	h.receive(letter{id: "<new@example.com>", body: "new"})
	h.poll()
	h.wantReplies("I read: new")
}

// Unread mail at the first poll is taken even if a person reads it later.
func TestFirstPollMailIsTakenAfterReading(t *testing.T) {
	h := newFixture(t)
	uid := h.receive(letter{id: "<new@example.com>"})
	h.refuseBodies()
	h.poll()
	h.onFetch.Store(nil)
	h.open(uid)
	if r := h.pollAfter(time.Minute); r.Arrived != 1 {
		t.Errorf("report: %+v", r)
	}
}

func TestRenumberedMailboxLosesNothing(t *testing.T) {
	h := newAwakeFixture(t)
	one := letter{id: "<one@example.com>", body: "one"}
	h.receive(one)
	h.poll()
	check(t, h.mail.Renumber())
	h.receive(one, imap.FlagSeen) // the server's copy, under another UID
	h.clock.advance(time.Minute)
	h.receive(letter{id: "<two@example.com>", body: "two"}, imap.FlagSeen)

	h.poll()
	h.wantReplies("I read: one", "I read: two")
}

func TestMailWithoutMessageIDIsTakenOnce(t *testing.T) {
	t.Parallel()
	h := newAwakeFixture(t)
	h.receive(letter{body: "no id"})
	h.poll()
	if r := h.pollAfter(time.Minute); r.Found() {
		t.Errorf("found again: %+v", r)
	}
	if replies := h.sentOf("reply"); len(replies) != 1 || replies[0].head.InReplyTo != "" {
		t.Errorf("replies: %+v", replies)
	}
}

func TestBrokenMIMEStillGetsItsTurn(t *testing.T) {
	t.Parallel()
	for name, l := range map[string]letter{
		"a boundary that never comes": {
			fields: "MIME-Version: 1.0\r\nContent-Type: multipart/mixed; boundary=gone\r\n", body: "no part at all",
		},
		"a part that breaks off": {
			fields: "MIME-Version: 1.0\r\nContent-Type: multipart/mixed; boundary=b\r\n",
			body:   "--b\r\nContent-Type: text/plain\r\n\r\nthe first part\r\n--b\r\nContent-Type: image/png\r\nContent-Transfer-Encoding: base64\r\n\r\n%%%%",
		},
		"an invalid type": {fields: "Content-Type: ;;;\r\nContent-Transfer-Encoding: rot13\r\n", body: "plain enough"},
	} {
		t.Run(name, func(t *testing.T) {
			h := newAwakeFixture(t)
			h.receive(l)
			h.poll()
			if replies := h.sentOf("reply"); len(replies) != 1 || !strings.HasPrefix(replies[0].text, "I read:") {
				t.Errorf("replies: %+v", replies)
			}
		})
	}
}

// A mail that the server cannot deliver is never given up. It is reported after the third
// failure, after a day and when it arrives, and delays nothing.
func TestUnfetchableMailIsNeverGivenUp(t *testing.T) {
	t.Parallel()
	h := newAwakeFixture(t)
	bad := h.receive(letter{id: "<bad@example.com>", body: "bad"})
	h.receive(letter{id: "<good@example.com>", body: "good"})
	h.refuseBodies(bad)

	r := h.poll()
	h.wantSent("ack reply")
	if text := h.sentOf("reply")[0].text; text != "I read: good" {
		t.Fatalf("reply: %q", text)
	}
	if len(r.Failed) != 1 || !strings.Contains(r.Failed[0].Reason, "cannot read it") {
		t.Errorf("the report has %+v", r.Failed)
	}
	h.pollAfter(time.Minute)
	h.wantSent("ack reply")
	if r := h.pollAfter(time.Minute); len(r.Failed) != 0 {
		t.Errorf("between two tries the report has %+v", r.Failed)
	}
	h.pollAfter(time.Minute)
	h.wantSent("ack reply notice")
	key := h.state().FailingMails()[0].Key
	if text := h.sentOf("notice")[0].text; !strings.Contains(text, "cannot read it") || !strings.Contains(text, key) {
		t.Errorf("notice: %q", text)
	}
	h.pollAfter(6 * time.Minute)
	h.wantSent("ack reply notice quiet") // silence counts
	for range 60 {
		h.pollAfter(30 * time.Minute)
	}
	h.wantSent("ack reply notice quiet notice")
	if !slices.Contains(h.unread(), bad) {
		t.Error("what could not be fetched was marked as read")
	}
	h.onFetch.Store(nil)
	for range 13 {
		h.pollAfter(30 * time.Minute)
	}
	h.wantSent("ack reply notice quiet notice ack notice reply quiet")
	if s := h.state(); len(s.FailingMails()) != 0 {
		t.Errorf("left %+v", s.FailingMails())
	}
}

// A mail that cannot be fetched can be dropped, and is then neither fetched nor told.
func TestUnfetchableMailCanBeDropped(t *testing.T) {
	h := newAwakeFixture(t)
	h.receive(letter{id: "<bad@example.com>", body: "bad"})
	asked := h.refuseBodies()
	h.poll()
	h.pollAfter(time.Minute)
	check(t, h.agent.Drop(t.Context(), h.state().FailingMails()[0].Key, "it is spam"))
	h.onFetch.Store(nil)
	for range 5 {
		h.pollAfter(time.Hour)
	}
	if s := h.state(); asked.Load() != 2 || len(s.FailingMails())+len(s.Inbox) != 0 {
		t.Errorf("asked %d times, left %+v", asked.Load(), s.Cursor)
	}
	h.wantSent("")
	if ended := h.lines(state.LineEnded); len(ended) != 1 || ended[0].Reason != "it is spam" {
		t.Errorf("lines %+v", ended)
	}
}

// The texts of our own mails can be switched off one by one.
func TestRepliesSwitchedOff(t *testing.T) {
	t.Parallel()
	h := newAwakeFixture(t)
	h.agent.Policy.Ack, h.agent.Policy.QuietPrep = false, false
	h.agent.Replies.Ack, h.agent.Replies.QuietPrep = nil, nil
	h.receive(letter{id: "<one@example.com>"})
	h.poll()
	h.wantSent("reply")
	h.pollAfter(6 * time.Minute)
	h.wantPhase(state.IDLE)
	h.wantSent("reply")
}

// answeredMails returns the UIDs of the mailbox that are \Answered, and those of them that are not
// \Seen.
func (h *fixture) answeredMails() (answered, unread []imap.UID) {
	h.t.Helper()
	c := h.inbox(true)
	defer c.Close()
	for _, f := range []struct {
		criteria imap.SearchCriteria
		into     *[]imap.UID
	}{
		{imap.SearchCriteria{Flag: []imap.Flag{imap.FlagAnswered}}, &answered},
		{imap.SearchCriteria{Flag: []imap.Flag{imap.FlagAnswered}, NotFlag: []imap.Flag{imap.FlagSeen}}, &unread},
	} {
		found, err := c.UIDSearch(&f.criteria, nil).Wait()
		check(h.t, err)
		*f.into = found.AllUIDs()
	}
	return answered, unread
}

// The mails that a reply has answered, and only those, are marked \Answered by the next poll,
// together with \Seen.
func TestAnsweredMailIsMarked(t *testing.T) {
	h := newCollectingFixture(t, func(turn.Attempt) string { return "yes to both" })
	one := h.receive(letter{id: "<one@example.com>"})
	h.pollAfter(time.Second)
	two := h.receive(letter{id: "<two@example.com>"})
	h.pollAfter(10 * time.Second)
	if got, _ := h.answeredMails(); len(got) > 0 {
		t.Fatalf("marked before the answer: %v", got)
	}
	h.pollAfter(21 * time.Second)
	h.wantSent("ack reply")
	if owed := h.state().ToFlag.Answered; !slices.Equal(slices.Sorted(slices.Values(owed)), []uint32{one, two}) {
		t.Fatalf("to mark: %v", owed)
	}
	other := h.receive(letter{subject: "@dorlange3120 for another agent"})
	h.stores.Store(0)
	h.pollAfter(time.Minute)
	if n := h.stores.Load(); n != 1 {
		t.Errorf("%d requests to mark two mails", n)
	}
	answered, unread := h.answeredMails()
	if len(answered) != 2 || slices.Contains(answered, imap.UID(other)) || len(unread) > 0 {
		t.Errorf("answered %v, of these unread %v", answered, unread)
	}
	if owed := h.state().ToFlag; len(owed.Answered)+len(owed.UIDs) > 0 {
		t.Errorf("still to mark: %+v", owed)
	}
	h.stores.Store(0)
	if h.pollAfter(time.Minute); h.stores.Load() > 0 {
		t.Error("an empty poll marks")
	}
}

// The mark of an answer in a mailbox that was renumbered since is dropped.
func TestAnsweredInRenumberedMailbox(t *testing.T) {
	h := newCollectingFixture(t, func(turn.Attempt) string { return "yes" })
	h.receive(letter{id: "<one@example.com>"})
	h.pollAfter(time.Second)
	h.pollAfter(21 * time.Second)
	if owed := h.state().ToFlag.Answered; len(owed) != 1 {
		t.Fatalf("to mark: %v", owed)
	}
	check(t, h.mail.Renumber())
	h.receive(letter{subject: "somebody else's"})
	h.pollAfter(time.Minute)
	if got, _ := h.answeredMails(); len(got) > 0 || len(h.state().ToFlag.Answered) > 0 {
		t.Errorf("marked %v, to mark %v", got, h.state().ToFlag.Answered)
	}
}

// A \Seen mark stays pending until the next poll sees it on the server. So a lost mark is
// repeated, and the mail is not taken again.
func TestLostSeenMarkIsRepeated(t *testing.T) {
	h := newAwakeFixture(t)
	uid := h.receive(letter{subject: "@goulard3120 one"})
	if r := h.poll(); r.Arrived != 1 {
		t.Fatalf("%+v", r)
	}
	if owed := h.state().ToFlag.UIDs; !slices.Equal(owed, []uint32{uid}) {
		t.Errorf("owed: %v", owed)
	}
	h.unread() // until it is marked
	c := h.inbox(false)
	defer c.Close()
	lost := &imap.StoreFlags{Op: imap.StoreFlagsDel, Silent: true, Flags: []imap.Flag{imap.FlagSeen}}
	check(t, c.Store(imap.UIDSetNum(imap.UID(uid)), lost, nil).Close())

	if r := h.pollAfter(time.Minute); r.Arrived != 0 {
		t.Errorf("%+v", r)
	}
	if owed := h.state().ToFlag.UIDs; len(owed) != 0 {
		t.Errorf("owed after the next poll: %v", owed)
	}
	if left := h.unread(); len(left) != 0 {
		t.Errorf("unread: %v", left)
	}
}
