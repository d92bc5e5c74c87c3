package cycle_test

import (
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/emersion/go-smtp"

	"agentstateloop/internal/testkit/mailtest"
	"agentstateloop/mesh"
	"agentstateloop/state"
	"agentstateloop/state/store"
)

// hangUpAfterDot accepts mails of one kind and closes the connection before the
// answer.
func (h *fixture) hangUpAfterDot(kind string) (accepted func() []string) {
	var mu sync.Mutex
	var all []string
	hook := func(conn net.Conn, raw []byte) error {
		if kindOf(messageID(raw)) != kind {
			return nil
		}
		mu.Lock()
		defer mu.Unlock()
		all = append(all, string(raw))
		conn.Close()
		return &smtp.SMTPError{Code: 451, Message: "nobody hears this"}
	}
	h.onData.Store(&hook)
	return func() []string {
		mu.Lock()
		defer mu.Unlock()
		return all
	}
}

// A reply of unknown fate is sent again with the same bytes and Message-ID, five times at most.
// Then it is reported via the mesh (docs/design.md, "Save before effects").
func TestReplyOfUnknownFateIsRepeated(t *testing.T) {
	t.Parallel()
	h := newAwakeFixture(t)
	accepted := h.hangUpAfterDot("reply")
	h.receive(letter{id: "<one@example.com>"})
	h.poll()
	if n := len(accepted()); n != 1 {
		t.Fatalf("%d copies after one poll", n)
	}
	for range 8 {
		h.pollAfter(time.Hour)
	}
	copies := accepted()
	if len(copies) != 5 {
		t.Errorf("%d copies, want 5", len(copies))
	}
	for _, c := range copies {
		if c != copies[0] {
			t.Errorf("a copy differs:\n%s\n%s", c, copies[0])
		}
	}
	s := h.state()
	if len(s.Undelivered) != 1 || len(s.Outbox) != 0 {
		t.Errorf("undelivered %+v, outbox %+v", s.Undelivered, s.Outbox)
	}
	h.wantReportedViaMesh("could not deliver")
}

// wantReportedViaMesh fails unless the keymaster was asked once to mail the
// operator a text with these words.
func (h *fixture) wantReportedViaMesh(word string) {
	h.t.Helper()
	got := h.reports()
	if len(got) != 1 || got[0].Kind != mesh.KindRelay || !strings.Contains(got[0].Text, word) {
		h.t.Errorf("the keymaster got %+v, want one relay with %q", got, word)
	}
}

// If the connection breaks and the server works again, one more copy is sent.
func TestReplyOfUnknownFateArrives(t *testing.T) {
	h := newAwakeFixture(t)
	accepted := h.hangUpAfterDot("reply")
	h.receive(letter{id: "<one@example.com>"})
	h.poll()
	h.onData.Store(nil)
	h.pollAfter(time.Minute)
	h.wantSent("ack reply")
	if first, second := accepted()[0], h.sentOf("reply")[0].raw; first != second {
		t.Errorf("the copies differ:\n%s\n%s", first, second)
	}
	if n := len(h.state().Outbox); n != 0 {
		t.Errorf("outbox: %d", n)
	}
}

// An ack of unknown fate is not repeated.
func TestAckOfUnknownFateIsNotRepeated(t *testing.T) {
	h := newAwakeFixture(t)
	accepted := h.hangUpAfterDot("ack")
	check(t, h.agent.Ring("test", ""))
	for range 5 {
		h.pollAfter(time.Minute)
	}
	if n := len(accepted()); n != 1 {
		t.Errorf("%d copies of the ack", n)
	}
}

// 4xx: the mail is sent later, and the others pass. The second operator's mail
// is answered while the first one's waits.
func TestTemporaryRefusalBacksOff(t *testing.T) {
	h := newAwakeFixture(t)
	const second = "second@example.com"
	h.agent.Mail.Filter.Operators = append(h.agent.Mail.Filter.Operators, second)
	var asked int
	refuse := func(to string) error {
		if to != operator {
			return nil
		}
		asked++
		return &smtp.SMTPError{Code: 450, EnhancedCode: smtp.EnhancedCode{4, 2, 1}, Message: "mailbox busy"}
	}
	h.onRcpt.Store(&refuse)
	h.agent.Policy.Ack = false
	h.receive(letter{id: "<one@example.com>", body: "one"})
	h.receive(letter{id: "<two@example.com>", body: "two", from: second})
	h.poll()
	h.wantSent("reply")
	if to := h.sent()[0].to; to != second {
		t.Errorf("sent to %s", to)
	}
	tried := asked
	h.pollAfter(10 * time.Second)
	if asked != tried {
		t.Error("tried again at once")
	}
	h.onRcpt.Store(nil)
	h.pollAfter(2 * time.Minute)
	h.wantSent("reply reply")
}

// The mails to a recipient keep their order: those behind a row that backs off wait.
func TestMailsOfRecipientKeepOrder(t *testing.T) {
	h := newAwakeFixture(t)
	h.agent.Policy.Ack = false
	h.refuses(450, "later")
	h.receive(letter{id: "<one@example.com>", body: "one"})
	h.poll()
	h.onRcpt.Store(nil)
	h.clock.advance(30 * time.Second)
	h.receive(letter{id: "<two@example.com>", body: "two"})
	h.poll()
	h.wantSent("")
	h.pollAfter(time.Minute)
	h.wantSent("reply reply")
	if got := h.sent(); got[0].text != "I read: one" || got[1].text != "I read: two" {
		t.Errorf("sent %q, then %q", got[0].text, got[1].text)
	}
}

// 5xx: the mail is never sent, and is reported by the other channel.
func TestPermanentRefusalIsRelayed(t *testing.T) {
	h := newAwakeFixture(t)
	h.agent.Policy.Ack = false
	h.refuses(550, "5.1.1 no such user")
	h.receive(letter{id: "<one@example.com>"})
	h.poll()
	h.onRcpt.Store(nil)
	h.pollAfter(2 * time.Minute)
	h.wantSent("")
	if s := h.state(); len(s.Undelivered) != 1 || len(s.Outbox) != 0 {
		t.Errorf("undelivered %+v, outbox %+v", s.Undelivered, s.Outbox)
	}
	h.wantReportedViaMesh("no such user")
}

// An SMTP server that is down or silent costs a timeout, and no mail is lost.
func TestSMTPOutageLosesNoMail(t *testing.T) {
	t.Parallel()
	refusing := func(t *testing.T) string { return mailtest.StartNobody(t) }
	for name, broken := range map[string]func(*testing.T) string{"down": refusing, "silent": silentServer} {
		t.Run(name, func(t *testing.T) {
			h := newAwakeFixture(t)
			h.agent.Policy.Ack = false
			real := h.agent.Mail.SMTP
			h.agent.Mail.SMTP.Timeout = 300 * time.Millisecond
			h.agent.Mail.SMTP.Addr = broken(t)
			h.receive(letter{id: "<one@example.com>"})
			if r := h.poll(); r.Turns != 1 {
				t.Errorf("report: %+v", r)
			}
			h.agent.Mail.SMTP = real
			h.pollAfter(2 * time.Minute)
			h.wantSent("reply")
		})
	}
}

// A mesh that is down delays a report. If the mesh rejects the report, it is given up and the
// operator is told.
func TestReportWhileMeshFails(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		code    int
		arrives bool
	}{"down": {503, true}, "refusing": {400, false}} {
		t.Run(name, func(t *testing.T) {
			h := newAwakeFixture(t)
			h.agent.Policy.Ack = false
			h.post(meshMessage("q1"))
			h.meshAnswers(http.MethodPost, c.code)
			h.poll()
			h.onMesh.Store(nil)
			h.pollAfter(2 * time.Minute)
			if got := h.reports(); (len(got) == 1) != c.arrives {
				t.Errorf("reports: %+v", got)
			}
			if notices := h.sentOf("notice"); (len(notices) == 1) == c.arrives {
				t.Errorf("notices: %+v", notices)
			}
		})
	}
}

// A report whose answer was lost is sent again under its id, and arrives once.
func TestReportOfUnknownFateArrivesOnce(t *testing.T) {
	h := newAwakeFixture(t)
	h.post(meshMessage("q1"))
	var posts int
	lose := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost {
			return
		}
		h.onMesh.Store(nil)
		posts++
		h.throughMesh(r)
		panic(http.ErrAbortHandler) // and its answer is lost
	})
	h.onMesh.Store(&lose)
	h.poll()
	h.pollAfter(2 * time.Minute)
	if got := h.reports(); posts != 1 || len(got) != 1 {
		t.Errorf("%d lost answers, reports %+v", posts, got)
	}
	if s := h.state(); len(s.Outbox) != 0 || len(s.Undelivered) != 0 {
		t.Errorf("outbox %+v", s.Outbox)
	}
}

// The bytes of a mail that is sent, expired or given up are not kept.
func TestOutboxFolderIsEmptied(t *testing.T) {
	t.Parallel()
	h := newAwakeFixture(t)
	h.receive(letter{id: "<one@example.com>"})
	h.poll()
	h.refuses(450, "later")
	h.pollAfter(6 * time.Minute) // the quiet cannot be sent
	h.wantPhase(state.IDLE)
	h.pollAfter(11 * time.Minute) // and expires
	if s := h.state(); len(s.Outbox) != 0 {
		t.Fatalf("outbox: %+v", s.Outbox)
	}
	h.wantEmpty(store.OutboxDir)
}
