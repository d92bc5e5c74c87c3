package cycle_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"agentstateloop/state"
)

// bounceOf returns the report of a mail server about a mail of ours.
func bounceOf(m sentMail) []byte {
	header, _, _ := strings.Cut(m.raw, "\r\n\r\n")
	return []byte(strings.ReplaceAll(fmt.Sprintf("From: MAILER-DAEMON@mx.example.com (Mail Delivery System)\nTo: %s\nSubject: Undelivered Mail Returned to Sender\nAuto-Submitted: auto-replied\n"+
		"MIME-Version: 1.0\nContent-Type: multipart/report; report-type=delivery-status; boundary=\"b\"\n\n--b\n\nsorry\n--b\nContent-Type: message/delivery-status\n\n"+
		"Reporting-MTA: dns; mx.example.com\n\nFinal-Recipient: rfc822; %s\nAction: failed\nStatus: 5.1.1\nDiagnostic-Code: smtp; 550 no such user\n\n--b\nContent-Type: text/rfc822-headers\n\n%s\n--b--\n",
		address, m.to, strings.ReplaceAll(header, "\r\n", "\n")), "\n", "\r\n"))
}

// TestBouncedAnswerIsReported bounces an answer. The operator is told through a peer, status
// shows it, and the agent neither wakes nor runs a turn. A bounce of the notice, and the same
// bounce again, change nothing.
func TestBouncedAnswerIsReported(t *testing.T) {
	t.Parallel()
	h := newAwakeFixture(t)
	h.receive(letter{body: "hello"})
	h.poll()
	answer := h.sentOf("reply")[0]
	h.pollAfter(20 * time.Minute)
	h.wantPhase(state.IDLE)
	turns, mails := len(h.runs()), h.kinds()

	uid := h.receiveRaw(bounceOf(answer))
	forged := h.receiveRaw([]byte(strings.Replace(string(bounceOf(answer)), "Message-ID: <reply.", "Message-ID: <reply.x", 1)))
	r := h.pollAfter(30 * time.Minute)
	if r.Arrived+r.Turns != 0 {
		t.Errorf("report: %+v", r)
	}
	h.wantPhase(state.IDLE)
	status := h.status()
	if len(status.Lost) != 1 || !strings.HasPrefix(status.Lost[0].ID, "reply.t") || status.Lost[0].To != operator || !strings.Contains(status.Lost[0].Reason, "550 no such user") {
		t.Errorf("lost: %+v", status.Lost)
	}
	if told := h.peerItems("relay"); len(told) != 1 || !strings.Contains(told[0].Text, status.Lost[0].ID) {
		t.Errorf("a peer was told %+v", told)
	}
	for _, u := range h.unread() {
		if u == uid {
			t.Error("the report is not marked as read")
		}
	}
	if unread := h.unread(); len(unread) == 0 || unread[len(unread)-1] != forged {
		t.Errorf("unread: %v, a forged report has %d", unread, forged)
	}

	h.receiveRaw(bounceOf(answer))
	h.pollAfter(30 * time.Minute)
	if told := h.peerItems("relay"); len(told) != 1 || len(h.runs()) != turns || h.kinds() != mails {
		t.Errorf("told %d times, %d turns, sent %s", len(told), len(h.runs()), h.kinds())
	}
	if lines := h.lines(state.LineBounce); len(lines) != 2 {
		t.Errorf("history: %+v", lines)
	}
}

// TestBouncedAnswerInDovecot is the same in a mailbox of Dovecot.
func TestBouncedAnswerInDovecot(t *testing.T) {
	t.Parallel()
	h, d := newDovecotFixture(t)
	h.poll()
	check(t, d.Append(letter{body: "hello"}.raw(), false))
	h.poll()
	check(t, d.Append(bounceOf(h.sentOf("reply")[0]), false))
	h.pollAfter(time.Minute)
	status := h.status()
	if len(status.Lost) != 1 || len(h.runs()) != 1 {
		t.Errorf("lost %+v, %d turns", status.Lost, len(h.runs()))
	}
}
