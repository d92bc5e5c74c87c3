package cycle_test

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/emersion/go-imap/v2"

	"agentstateloop/cycle"
	"agentstateloop/internal/osfile"
	"agentstateloop/mesh"
	"agentstateloop/state"
	"agentstateloop/state/store"
)

// backup copies the state directory, and returns the copy.
func (h *fixture) backup() (dir string) {
	h.t.Helper()
	dir = filepath.Join(h.t.TempDir(), "backup")
	check(h.t, os.CopyFS(dir, os.DirFS(h.agent.Store.Dir)))
	h.t.Cleanup(func() { osfile.MakeWritable(dir) })
	return dir
}

// restore puts a copy of the state directory in its place.
func (h *fixture) restore(dir string) {
	h.t.Helper()
	osfile.MakeWritable(h.agent.Store.Dir)
	check(h.t, os.RemoveAll(h.agent.Store.Dir))
	check(h.t, os.CopyFS(h.agent.Store.Dir, os.DirFS(dir)))
	h.agent.Store = &store.Store{Dir: h.agent.Store.Dir, Agent: handle}
	check(h.t, h.agent.MarkRestored(h.t.Context(), morning.Add(time.Hour), "backup.tar"))
}

// fileSent puts copies of all sent mails into the folder for sent mail.
func (h *fixture) fileSent() {
	h.t.Helper()
	for _, m := range h.mail.Sent() {
		_, err := h.mail.AppendTo("Sent", m.Raw, h.clock.Now(), imap.FlagSeen)
		check(h.t, err)
	}
}

// keepsSent gives the mailbox a folder for sent mail.
func (h *fixture) keepsSent() {
	h.t.Helper()
	check(h.t, h.mail.Create("Sent"))
	h.agent.Mail.Mailbox.Sent = "Sent"
}

// reportOfRestore returns the text of the one mail about the restore.
func (h *fixture) reportOfRestore() string {
	h.t.Helper()
	var found []string
	for _, m := range h.sent() {
		if strings.Contains(m.head.Subject, "restored from a backup") {
			found = append(found, m.text)
		}
	}
	if len(found) != 1 {
		h.t.Fatalf("%d mails about the restore: %q", len(found), found)
	}
	return found[0]
}

// TestRestoredMailbox checks what becomes of each kind of mail in the mailbox of a restored state.
func TestRestoredMailbox(t *testing.T) {
	t.Parallel()
	const runs, done, unknown = "runs", "done", "unknown"
	seen, answered := imap.FlagSeen, imap.FlagAnswered
	both := "@" + handle + " @" + peer + " "
	for _, c := range []struct {
		name, subject string
		flags         []imap.Flag
		sent          string // the folder for sent mail has an answer: "reply", "thread", which has it in References, or "ack"
		later         bool   // a later mail continues the thread of an answer
		want          string
	}{
		{name: "unread", want: runs},
		{name: "read", flags: []imap.Flag{seen}, want: unknown},
		{name: "flagged as answered", flags: []imap.Flag{seen, answered}, want: done},
		{name: "flagged as answered, unread", flags: []imap.Flag{answered}, want: done},
		{name: "flagged, but others are called", subject: both, flags: []imap.Flag{seen, answered}, want: unknown},
		{name: "flagged and unread, but others are called", subject: both, flags: []imap.Flag{answered}, want: runs},
		{name: "answer in the folder", flags: []imap.Flag{seen}, sent: "reply", want: done},
		{name: "answer in the folder, unread", sent: "reply", want: done},
		{name: "answer to several agents' mail", subject: both, flags: []imap.Flag{seen}, sent: "reply", want: done},
		{name: "answered thread, read", flags: []imap.Flag{seen}, sent: "thread", want: unknown},
		{name: "answered thread, unread", sent: "thread", want: runs},
		{name: "only an ack in the folder", flags: []imap.Flag{seen}, sent: "ack", want: unknown},
		{name: "later mail, read", flags: []imap.Flag{seen}, later: true, want: done},
		{name: "later mail, unread", later: true, want: done},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			h := newAwakeFixture(t)
			h.keepsSent()
			dir := h.backup()
			h.receive(letter{id: "<one@example.com>", subject: c.subject + "@" + handle + " case " + c.name, body: "the order"}, c.flags...)
			if c.sent != "" {
				h.fileAnswer(c.sent, "<one@example.com>")
			}
			if c.later {
				refs := "References: <one@example.com> " + h.ids().Make("reply.t1", "x") + "\r\n"
				h.receive(letter{id: "<two@example.com>", fields: refs, body: "the later one"})
			}
			h.restore(dir)
			h.poll()
			h.poll()
			s := h.state()
			if s.Cursor.Restored != nil || s.Restore == nil || !s.Restore.Over {
				t.Errorf("the restore is not over: %+v", s.Restore)
			}
			var want []string
			if c.want == runs {
				want = append(want, "I read: the order")
			}
			if c.later {
				want = append(want, "I read: the later one")
			}
			h.wantReplies(want...)
			report := h.reportOfRestore()
			items, err := h.agent.View().Quarantined()
			check(t, err)
			if (len(items) == 1) != (c.want == unknown) || len(items) > 1 {
				t.Errorf("in quarantine: %+v", items)
			}
			if listed := strings.Contains(report, "case "+c.name); listed != (c.want == unknown) {
				t.Errorf("the report:\n%s", report)
			}
			wantWords(t, report, fmt.Sprintf("nothing to do:  %d", count(c.want == done)), fmt.Sprintf("if you say so:     %d", count(c.want == unknown)))
			if c.want == unknown {
				item := h.quarantinedItem()
				if item.Gate != state.GateRestored {
					t.Errorf("gate %s: %s", item.Gate, item.Reason)
				}
				h.release(item.Key)
				h.pollAfter(time.Minute)
				h.wantReplies("I read: the order")
			}
			if c.want == done && len(h.lines(state.LineEnded)) != 1 {
				t.Errorf("the history: %+v", h.lines(state.LineEnded))
			}
			h.receive(letter{id: "<new@example.com>", body: "as always"}, seen)
			h.pollAfter(time.Minute)
			if texts := h.replyTexts(); len(texts) == 0 || texts[len(texts)-1] != "I read: as always" {
				t.Errorf("a read mail after the restore: the replies are %q", texts)
			}
		})
	}
}

func count(yes bool) int {
	if yes {
		return 1
	}
	return 0
}

// fileAnswer puts a mail of ours to the mail answered into the folder for sent mail.
func (h *fixture) fileAnswer(kind, answered string) {
	h.t.Helper()
	effect, field := "reply.t9", "In-Reply-To: "+answered
	switch kind {
	case "ack":
		effect = "ack.a9"
	case "thread": // it answers another mail of the thread
		field = "In-Reply-To: <other@example.com>\r\nReferences: " + answered + " <other@example.com>"
	}
	raw := fmt.Sprintf("From: %s\r\nTo: %s\r\nMessage-ID: %s\r\nX-AgentStateLoop: %s\r\n%s\r\n\r\nthe answer\r\n", address, operator, h.ids().Make(effect, "x"), handle, field)
	_, err := h.mail.AppendTo("Sent", []byte(raw), h.clock.Now(), imap.FlagSeen)
	check(h.t, err)
}

// TestEveryCommitCanBeRestored copies the state at each commit of a life, and restores each copy in
// the world of its end. Nothing is answered a second time, and no message is lost: it was answered,
// is held, or is in quarantine.
func TestEveryCommitCanBeRestored(t *testing.T) {
	t.Parallel()
	for _, withFolder := range []bool{true, false} {
		t.Run(fmt.Sprintf("folder %v", withFolder), func(t *testing.T) {
			t.Parallel()
			h := newFixture(t)
			if withFolder {
				h.keepsSent()
			}
			var copies []string
			h.agent.Store.Hook = func(step, _ string) error {
				if step == "done" {
					copies = append(copies, h.backup())
				}
				return nil
			}
			h.poll()
			for n := range 3 {
				h.receive(letter{id: fmt.Sprintf("<m%d@example.com>", n), body: fmt.Sprintf("order %d", n)})
				h.pollAfter(time.Minute)
			}
			h.post(mesh.Message{ID: "q1", Kind: mesh.KindAsk, Correlation: "c1", Text: "the question"})
			h.pollAfter(time.Minute)
			h.pollAfter(time.Minute)
			if withFolder {
				h.fileSent()
			}
			if len(copies) < 20 || len(h.sentOf("reply")) != 3 || len(h.reports()) != 1 {
				t.Fatalf("%d copies, %d replies, %d reports", len(copies), len(h.sentOf("reply")), len(h.reports()))
			}
			h.agent.Store.Hook = nil
			if unread := h.unread(); len(unread) != 0 {
				t.Fatalf("unread: %v", unread)
			}
			for n, dir := range copies {
				h.clock.advance(time.Minute)
				h.restore(dir)
				h.poll()
				h.pollAfter(time.Minute)
				s := h.state()
				if s.Restore == nil || !s.Restore.Over {
					t.Errorf("copy %d: the restore is not over: %+v", n, s.Restore)
				}
				if replies, reports := h.sentOf("reply"), h.reports(); len(replies) != 3 || len(reports) != 1 {
					t.Fatalf("copy %d: %d replies, %d reports; history %+v", n, len(replies), len(reports), h.lines(state.LineTurn))
				}
				mails := slices.DeleteFunc(s.HeldRows(), func(m state.Message) bool { return m.Source != state.Mail })
				if withFolder && len(mails)+s.Quarantined > 0 { // the folder shows each answer
					t.Errorf("copy %d: %d mails held, %d in quarantine", n, len(mails), s.Quarantined)
				}
				h.wantAccounted(n, s, 3)
			}
		})
	}
}

// wantAccounted fails unless each of the mails 1 to last is known to s, or in quarantine.
func (h *fixture) wantAccounted(n int, s state.State, last uint32) {
	h.t.Helper()
	for uid := uint32(1); uid <= last; uid++ {
		key := s.Cursor.Key(uid)
		if !s.Accepts(key) && !s.KnowsRejected(key, "") {
			h.t.Errorf("copy %d: %s is lost", n, key)
		}
	}
}

// TestRestoredOutbox checks that an answer which was ready leaves only if a person says so, and that
// one in the folder for sent mail is done.
func TestRestoredOutbox(t *testing.T) {
	t.Parallel()
	for _, filed := range []bool{false, true} {
		t.Run(fmt.Sprintf("filed %v", filed), func(t *testing.T) {
			t.Parallel()
			h := newAwakeFixture(t)
			h.keepsSent()
			h.receive(letter{id: "<one@example.com>", body: "the order"})
			h.refuses(451, "later")
			h.pollAfter(time.Minute)
			dir := h.backup()
			h.onRcpt.Store(nil)
			h.pollAfter(10 * time.Minute)
			h.wantReplies("I read: the order")
			if filed {
				h.fileSent()
			}
			h.restore(dir)
			h.pollAfter(time.Minute)
			h.wantReplies("I read: the order")
			rows, err := h.agent.Outbox()
			check(t, err)
			if filed {
				if len(rows) != 0 {
					t.Errorf("the outbox: %+v", rows)
				}
				return
			}
			if len(rows) != 1 || rows[0].Status != cycle.RowUndelivered || rows[0].Reason != state.MayBeSent {
				t.Fatalf("the outbox: %+v", rows)
			}
			wantWords(t, h.reportOfRestore(), "may have been sent already: 1.", "outbox retry")
			if _, sent, err := h.agent.RetryEffect(t.Context(), rows[0].ID); err != nil || !sent {
				t.Errorf("retry: %v, %v", sent, err)
			}
			h.wantReplies("I read: the order", "I read: the order")
			if replies := h.sentOf("reply"); replies[0].head.MessageID != replies[1].head.MessageID {
				t.Error("the retried answer has another Message-ID")
			}
		})
	}
}

// TestHeldMessageRunsByHand checks that a held message is listed with its reason, and runs once a
// person says so, in a turn with a new id and a note for the agent.
func TestHeldMessageRunsByHand(t *testing.T) {
	t.Parallel()
	h := newAwakeFixture(t)
	h.receive(letter{id: "<one@example.com>", body: "the order"})
	h.queue("from the terminal")
	h.collect()
	dir := h.backup()
	h.poll()
	h.wantRuns(2)
	h.restore(dir)
	h.poll()
	h.wantRuns(2)
	rows, s, err := h.agent.View().Listing()
	check(t, err)
	if len(rows) != 2 || !rows[0].Message.Held || !rows[1].Message.Held {
		t.Fatalf("the inbox: %+v", rows)
	}
	report := h.reportOfRestore()
	wantWords(t, report, "if you say so:     2", "the folder for sent mail", "inbox retry", "  mail  ")
	if why, held := s.HeldBack(*rows[0].Message, h.agent.Policy, h.clock.Now()); !held || why.Why != state.HeldReason {
		t.Errorf("held back: %+v", why)
	}
	first := h.runs()
	_, err = h.agent.Retry(t.Context(), rows[0].Key, "")
	check(t, err)
	check(t, h.agent.Drop(t.Context(), rows[1].Key, "done"))
	h.pollAfter(time.Minute)
	h.wantRuns(3)
	if turn, _, _ := strings.Cut(h.runs()[2], " "); slices.ContainsFunc(first, func(r string) bool { return strings.HasPrefix(r, turn) }) {
		t.Errorf("the turn id %s is used again", turn)
	}
	wantWords(t, h.prompt(), "restored backup")
	if s := h.state(); len(s.Inbox) != 0 || s.Version != state.Version {
		t.Errorf("the inbox: %+v, version %d", s.Inbox, s.Version)
	}
}

// TestSentFolderFails checks that a broken folder for sent mail delays the decisions for two polls,
// and that they are then made without it.
func TestSentFolderFails(t *testing.T) {
	t.Parallel()
	h := newAwakeFixture(t)
	h.keepsSent()
	dir := h.backup()
	h.receive(letter{id: "<one@example.com>", body: "the order"})
	h.fileAnswer("ack", "<nobody@example.com>")
	breaks := true
	fails := func(conn net.Conn, _ imap.NumSet, options *imap.FetchOptions) error {
		if breaks && len(options.BodySection) > 0 && len(options.BodySection[0].HeaderFields) > 0 {
			conn.Close()
			return errors.New("broken")
		}
		return nil
	}
	h.onSentHeaders.Store(&fails)
	h.restore(dir)
	for n := range 2 {
		if r := h.pollAfter(time.Minute); len(r.Failed) != 1 {
			t.Errorf("poll %d: %+v", n, r.Failed)
		}
		h.wantRuns(0)
		if s := h.state(); s.Restore.Tries != n+1 || s.Restore.Over {
			t.Errorf("poll %d: %+v", n, s.Restore)
		}
	}
	h.pollAfter(time.Minute)
	h.wantReplies("I read: the order")
	wantWords(t, h.reportOfRestore(), "I could not read the folder for sent mail")
}

// TestManyUnknownMails checks the limits: the quarantine keeps the unknown mails of many days, and
// the report lists the first fifty messages.
func TestManyUnknownMails(t *testing.T) {
	t.Parallel()
	h := newAwakeFixture(t)
	dir := h.backup()
	for n := range 60 {
		h.receive(letter{id: fmt.Sprintf("<m%d@example.com>", n), subject: fmt.Sprintf("@%s order-%02d", handle, n)}, imap.FlagSeen)
	}
	h.restore(dir)
	h.poll()
	h.wantCounted(60)
	report := h.reportOfRestore()
	wantWords(t, report, "order-00", "order-49", "and 10 more", "if you say so:     60")
	if strings.Contains(report, "order-50") {
		t.Errorf("the report:\n%s", report)
	}
}

// TestMoreUnknownMailsThanFit checks that a full quarantine drops no unknown mail for another, and that the
// report counts the mails without room.
func TestMoreUnknownMailsThanFit(t *testing.T) {
	t.Parallel()
	h := newAwakeFixture(t)
	dir := h.backup()
	for n := range 503 {
		h.receive(letter{id: fmt.Sprintf("<m%d@example.com>", n), subject: fmt.Sprintf("@%s order-%03d", handle, n)}, imap.FlagSeen)
	}
	h.restore(dir)
	for range 5 {
		h.poll()
	}
	h.wantCounted(500)
	report := h.reportOfRestore()
	wantWords(t, report, "order-000", "if you say so:     500", "no room for more unknown mails: 3.")
	if dropped := h.lines(state.LineQuarantine); len(dropped) > 0 {
		t.Errorf("the quarantine has dropped %+v", dropped)
	}
}

// TestRestoredLargeMail checks that large mail of the restored mailbox is decided, too, and that the
// report waits for it.
func TestRestoredLargeMail(t *testing.T) {
	t.Parallel()
	h := newAwakeFixture(t)
	h.agent.Mail.Mailbox.Large = 4 << 10
	dir := h.backup()
	h.receive(letter{id: "<large@example.com>", subject: "@" + handle + " large", body: strings.Repeat("long text\r\n", 1000)}, imap.FlagSeen)
	h.restore(dir)
	h.poll()
	h.pollAfter(time.Minute)
	wantWords(t, h.reportOfRestore(), "large", "if you say so:     1")
	h.wantCounted(1)
	h.wantRuns(0)
}

// TestMailDuringRestore checks that mail which comes after the first scan runs as always, although
// older mail that the server does not deliver holds the restore open. That mail is decided when it
// comes at last.
func TestMailDuringRestore(t *testing.T) {
	t.Parallel()
	h := newAwakeFixture(t)
	dir := h.backup()
	failing := h.receive(letter{id: "<failing@example.com>", subject: "@" + handle + " late"}, imap.FlagSeen)
	h.refuseBodies(failing)
	h.restore(dir)
	h.poll()
	if s := h.state(); s.Restore.Over || s.Restore.Told != 1 {
		t.Errorf("with a mail that fails: %+v", s.Restore)
	}
	h.receive(letter{id: "<new@example.com>", body: "new and read"}, imap.FlagSeen)
	h.poll()
	h.wantReplies("I read: new and read")
	h.onFetch.Store(nil)
	h.pollAfter(10 * time.Minute)
	h.pollAfter(time.Minute)
	h.wantCounted(1)
	if s := h.state(); !s.Restore.Over || s.Restore.Told != 2 || s.Restore.Unknown != 1 {
		t.Errorf("at the end: %+v", s.Restore)
	}
	h.wantReplies("I read: new and read")
}

// TestRestoredBeforeFirstPoll checks a backup that never read the mailbox: its unread mail of any age
// runs, as at a first poll, and mail that was read since is not passed.
func TestRestoredBeforeFirstPoll(t *testing.T) {
	t.Parallel()
	h := newFixture(t)
	_, err := h.mail.Append(letter{id: "<old@example.com>", body: "old and unread"}.raw(), morning.AddDate(0, 0, -9))
	check(t, err)
	h.receive(letter{id: "<read@example.com>", body: "read since"}, imap.FlagSeen)
	check(t, h.agent.MarkRestored(t.Context(), morning, "backup.tar"))
	h.poll()
	h.pollAfter(time.Minute)
	h.wantReplies("I read: old and unread")
	h.wantCounted(1)
	if s := h.state(); !s.Restore.Over || s.Restore.Unknown != 1 || s.Restore.Run != 1 {
		t.Errorf("%+v", s.Restore)
	}
}

// TestRenumberedAndRestored checks that mail which the backup knows is a duplicate, although its
// server has given it another number since.
func TestRenumberedAndRestored(t *testing.T) {
	t.Parallel()
	h := newAwakeFixture(t)
	h.receive(letter{id: "<one@example.com>", body: "the order"})
	h.pollAfter(time.Minute)
	h.wantReplies("I read: the order")
	dir := h.backup()
	check(t, h.mail.Renumber())
	h.receive(letter{id: "<one@example.com>", body: "the order"}, imap.FlagSeen)
	h.restore(dir)
	h.pollAfter(time.Minute)
	h.pollAfter(time.Minute)
	h.wantReplies("I read: the order")
	h.wantCounted(0)
	if s := h.state(); !s.Restore.Over || len(h.lines(state.LineDuplicate)) == 0 || len(h.lines(state.LineGate)) > 0 {
		t.Errorf("%+v, gates %+v", s.Restore, h.lines(state.LineGate))
	}
}

// TestChallengesAfterRestore checks that nobody is asked again about a mail without a proof, that it
// stays in quarantine and is listed, and that an old YES runs nothing.
func TestChallengesAfterRestore(t *testing.T) {
	t.Parallel()
	h := newFixture(t)
	h.blueprint.Require = "challenge"
	h.agent = h.blueprint.agent(h.clock.Now)
	h.agent.Self = []string{"/bin/false"}
	h.poll()
	h.receive(letter{id: "<one@example.com>", subject: "@" + handle + " unproven", body: "the order"})
	h.pollAfter(time.Minute)
	asked := h.sentOf("challenge")
	if len(asked) != 1 {
		t.Fatalf("challenges: %+v", asked)
	}
	dir := h.backup()
	_, token, _ := strings.Cut(asked[0].text, "YES ")
	yes := "YES " + strings.Fields(token)[0]
	h.receive(letter{id: "<yes@example.com>", body: yes})
	h.pollAfter(time.Minute)
	h.wantReplies("I read: the order")
	h.restore(dir)
	h.pollAfter(20 * time.Minute)
	h.pollAfter(20 * time.Minute)
	h.wantReplies("I read: the order")
	if again := h.sentOf("challenge"); len(again) != 1 {
		t.Errorf("asked again: %+v", again)
	}
	wantWords(t, h.reportOfRestore(), "unproven")
	h.receive(letter{id: "<yes2@example.com>", body: yes})
	h.pollAfter(time.Minute)
	h.wantReplies("I read: the order")
}

// TestMovedAgentRefuses checks that a moved agent changes nothing and asks no server, whatever is
// called, and that it works again after the move was taken back.
func TestMovedAgentRefuses(t *testing.T) {
	t.Parallel()
	h := newAwakeFixture(t)
	h.receive(letter{id: "<one@example.com>", body: "the order"})
	key := h.queue("waits")
	check(t, h.agent.MarkMoved(t.Context(), "otherhost", "/backup/goulard.tar"))
	before, traffic := h.state(), h.traffic.settled()
	_, poll := h.agent.Poll(t.Context(), cycle.PollOptions{ByHand: true})
	_, tell := h.agent.Tell(t.Context(), "me", "more")
	_, _, ring := h.agent.RingAtOnce("me", "wake up")
	_, event := h.agent.TellEvent(t.Context(), cycle.EventMessage{From: "ci", Text: "red"})
	_, halt := h.agent.Halt(t.Context(), "by hand")
	_, detached := h.agent.PollDetached(cycle.PollOptions{}, 0)
	_, dueDetached := h.agent.PollDetached(cycle.PollOptions{IfDue: true}, 0)
	for what, err := range map[string]error{
		"poll": poll, "detached poll": detached, "detached poll if due": dueDetached, "tell": tell, "nudge": h.agent.Ring("me", "wake up"), "nudge at once": ring, "event": event, "halt": halt,
		"drop": h.agent.Drop(t.Context(), key, "x"), "reset": h.agent.Reset(t.Context(), "note", "op"), "moved again": h.agent.MarkMoved(t.Context(), "third", ""),
	} {
		var moved *cycle.MovedError
		if !errors.As(err, &moved) {
			t.Errorf("%s: %v", what, err)
			continue
		}
		wantWords(t, err.Error(), "@goulard3120 was moved to otherhost on 2026-01-05; its archive is /backup/goulard.tar. Use it there, or bring it back with `agentstateloop move --cancel`.")
	}
	if reason, err := h.agent.PollReason(); reason != "" || err != nil {
		t.Errorf("a listener would poll: %q, %v", reason, err)
	}
	h.wantEmpty(store.NudgesDir)
	if after := h.state(); after.Serial != before.Serial || h.traffic.settled() != traffic {
		t.Errorf("serial %d, was %d; %d bytes of mail, were %d", after.Serial, before.Serial, h.traffic.n.Load(), traffic)
	}
	if st := h.status(); st.Agent != handle {
		t.Errorf("status: %+v", st)
	}
	check(t, h.agent.MarkStays(t.Context()))
	h.pollAfter(time.Minute)
	h.wantRuns(2)
}
