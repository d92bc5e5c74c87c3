package cycle_test

import (
	"fmt"
	"net"
	"net/http"
	"slices"
	"testing"
	"time"

	"agentstateloop/internal/testkit/mailtest"
	"agentstateloop/mesh"
	"agentstateloop/state"

	"github.com/emersion/go-smtp"
)

// silentServer returns the address of a server that accepts connections and never says
// anything.
func silentServer(t *testing.T) (addr string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	check(t, err)
	t.Cleanup(func() { listener.Close() })
	return listener.Addr().String() // the kernel accepts for it
}

// newActiveFixture returns a fixture whose agent is in ACTIVE.
func newActiveFixture(t *testing.T) *fixture {
	t.Helper()
	h := newAwakeFixture(t)
	h.order(state.ACTIVE, false)
	h.poll()
	return h
}

// A mail server that is down, silent, or denies the login affects only mail (docs/design.md,
// "Promises" 6).
func TestMeshAndNudgesWorkWithoutIMAP(t *testing.T) {
	t.Parallel()
	for name, break_ := range map[string]func(*testing.T, *fixture){
		"down":                    func(t *testing.T, h *fixture) { h.agent.Mail.Mailbox.Addr = mailtest.StartNobody(t) },
		"silent":                  func(t *testing.T, h *fixture) { h.agent.Mail.Mailbox.Addr = silentServer(t) },
		"a login that is refused": func(_ *testing.T, h *fixture) { h.mail.SetPassword("changed") },
	} {
		t.Run(name, func(t *testing.T) {
			h := newAwakeFixture(t)
			h.agent.Mail.Mailbox.Timeout = 300 * time.Millisecond
			break_(t, h)
			h.post(mesh.Message{ID: "q1", Text: "hello"})
			check(t, h.agent.Ring("test", "wake up"))
			r := h.poll()
			if len(r.Failed) == 0 || r.Failed[0].Source != state.Mail {
				t.Errorf("failed sources: %+v", r.Failed)
			}
			if r.Arrived != 1 || r.Nudges != 1 || r.Turns != 1 || r.After != state.PREP {
				t.Errorf("report: %+v", r)
			}
			if got := h.peerItems(mesh.KindReport); len(got) != 1 {
				t.Errorf("reports: %+v", h.reports())
			}
			if got := h.crontabFields(); got != "*/1 * * * *" {
				t.Errorf("the line is %q", got)
			}
		})
	}
}

// Silence that could not be observed does not count as silence (docs/design.md,
// "Phases").
func TestNoQuietMailDuringMailOutage(t *testing.T) {
	h := newActiveFixture(t)
	real := h.agent.Mail.Mailbox.Addr

	h.agent.Mail.Mailbox.Addr = mailtest.StartNobody(t)
	h.pollAfter(15 * time.Minute)
	h.wantPhase(state.ACTIVE)
	h.wantSent("")
	h.agent.Mail.Mailbox.Addr = real
	h.pollAfter(time.Minute)
	h.wantPhase(state.IDLE)
	h.wantSent("quiet")
}

func TestLongMailOutageEndsPhaseSilently(t *testing.T) {
	h := newActiveFixture(t)
	h.agent.Mail.Mailbox.Addr = mailtest.StartNobody(t)
	h.pollAfter(29 * time.Minute)
	h.wantPhase(state.ACTIVE)
	h.pollAfter(2 * time.Minute)
	h.wantPhase(state.IDLE)
	h.wantSent("")
}

// An operator's message that lay on the server when the silence seemed to end
// continues the conversation.
func TestMailDuringOutageKeepsPhase(t *testing.T) {
	t.Parallel()
	h := newActiveFixture(t)
	real := h.agent.Mail.Mailbox.Addr
	h.agent.Mail.Mailbox.Addr = mailtest.StartNobody(t)
	h.pollAfter(9 * time.Minute)
	h.receive(letter{id: "<one@example.com>"})
	h.pollAfter(6 * time.Minute)
	h.agent.Mail.Mailbox.Addr = real
	h.pollAfter(time.Minute)
	h.wantPhase(state.ACTIVE)
	h.wantSent("reply")
}

// A cycle spends at most twenty seconds on a slow server. The next cycles do the rest.
func TestSlowSMTPServerIsLeft(t *testing.T) {
	h := newAwakeFixture(t)
	const second = "second@example.com"
	h.agent.Policy.Ack = false
	h.agent.Mail.Filter.Operators = append(h.agent.Mail.Filter.Operators, second)
	refuse := func(string) error { return &smtp.SMTPError{Code: 450, Message: "later"} }
	h.onRcpt.Store(&refuse)
	h.receive(letter{id: "<one@example.com>"})
	h.receive(letter{id: "<two@example.com>", from: second})
	h.poll()
	slow := func(string) error { h.clock.advance(25 * time.Second); return nil }
	h.onRcpt.Store(&slow)
	h.pollAfter(2 * time.Minute)
	h.wantSent("reply")
	h.poll()
	h.wantSent("reply reply")
}

func TestSlowMeshIsLeft(t *testing.T) {
	h := newAwakeFixture(t)
	const items = 4
	for i := range items {
		h.post(mesh.Message{ID: fmt.Sprintf("m%d", i), Text: "for your information", Kind: mesh.KindNotice})
	}
	slow := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodDelete {
			h.clock.advance(15 * time.Second)
		}
	})
	h.onMesh.Store(&slow)
	h.poll()
	if left := h.waiting(); len(left) != items-2 {
		t.Errorf("after one poll %d are left", len(left))
	}
	h.poll()
	h.wantAcknowledged()
}

// peerItems returns the items of one kind that the peer was sent.
func (h *fixture) peerItems(kind string) []mesh.Message {
	h.t.Helper()
	return slices.DeleteFunc(h.reports(), func(m mesh.Message) bool { return m.Kind != kind })
}
