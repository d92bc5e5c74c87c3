package cycle_test

import (
	"context"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"agentstateloop/cycle"
	"agentstateloop/internal/testkit/mailtest"
	"agentstateloop/state"

	"github.com/emersion/go-smtp"
)

// refusesContent answers the final dot of mails of one kind with this code.
func (h *fixture) refusesContent(kind string, code int, text string) {
	refuse := func(_ net.Conn, raw []byte) error {
		if kindOf(messageID(raw)) != kind {
			return nil
		}
		return &smtp.SMTPError{Code: code, EnhancedCode: smtp.NoEnhancedCode, Message: text}
	}
	h.onData.Store(&refuse)
}

// sendingFailure returns what a report says of mail that cannot be sent.
func sendingFailure(r cycle.Report) string {
	for _, f := range r.Failed {
		if f.Source == cycle.FromSending {
			return f.Reason
		}
	}
	return ""
}

// An SMTP server that is down, silent or answers 4xx is in the report, the log and the status
// until a mail is sent.
func TestSendingOutageIsReported(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		breaks func(*testing.T, *fixture)
		reason string
	}{
		"down":   {func(t *testing.T, h *fixture) { h.agent.Mail.SMTP.Addr = mailtest.StartNobody(t) }, "refused"},
		"silent": {func(t *testing.T, h *fixture) { h.agent.Mail.SMTP.Addr = silentServer(t) }, "greet: timed out"},
		"4xx":    {func(_ *testing.T, h *fixture) { h.refuses(451, "4.3.0 queue full") }, "451"},
		"4xx after the dot": {func(_ *testing.T, h *fixture) {
			h.refusesContent("ack", 452, "disk full")
		}, "452"},
	} {
		t.Run(name, func(t *testing.T) {
			h := newAwakeFixture(t)
			h.agent.Mail.SMTP.Timeout = 300 * time.Millisecond
			real := h.agent.Mail.SMTP
			c.breaks(t, h)
			check(t, h.agent.Ring("test", ""))
			r := h.poll()
			if reason := sendingFailure(r); !strings.Contains(reason, c.reason) || !strings.Contains(reason, "1 in the outbox") {
				t.Errorf("report: %+v", r.Failed)
			}
			h.wantLogged(c.reason)
			s := h.status().Sending
			if s == nil || !s.Since.Equal(h.clock.Now()) || !strings.Contains(s.Reason, c.reason) || s.Waiting != 1 || !s.NextTry.After(s.Since) {
				t.Fatalf("status: %+v", s)
			}
			since := s.Since
			r = h.pollAfter(20 * time.Second) // its pause is not over
			if s := h.status().Sending; s == nil || !s.Since.Equal(since) || sendingFailure(r) == "" {
				t.Errorf("while it waits: %+v, %+v", s, r.Failed)
			}
			h.agent.Mail.SMTP = real
			h.onRcpt.Store(nil)
			h.onData.Store(nil)
			r = h.pollAfter(time.Minute)
			h.wantSent("ack")
			if s := h.status().Sending; s != nil || len(r.Failed) != 0 {
				t.Errorf("after it works: %+v, %+v", s, r.Failed)
			}
		})
	}
}

// If the server refuses one recipient, the report names the mail, and the server does not count
// as failing.
func TestRefusedRecipientIsNamed(t *testing.T) {
	h := newAwakeFixture(t)
	const second = "second@example.com"
	h.agent.Policy.Ack = false
	h.agent.Mail.Filter.Operators = append(h.agent.Mail.Filter.Operators, second)
	refuse := func(to string) error {
		if to == second {
			return &smtp.SMTPError{Code: 450, Message: "mailbox busy"}
		}
		return nil
	}
	h.onRcpt.Store(&refuse)
	h.receive(letter{id: "<one@example.com>", from: second})
	r := h.poll()
	if reason := sendingFailure(r); !strings.Contains(reason, "reply.") || !strings.Contains(reason, second) || !strings.Contains(reason, "mailbox busy") {
		t.Errorf("report: %+v", r.Failed)
	}
	if s := h.status().Sending; s != nil {
		t.Errorf("status: %+v", s)
	}
}

// A login that is denied has its own place.
func TestDeniedLoginIsNotAnOutage(t *testing.T) {
	h := newAwakeFixture(t)
	h.agent.Mail.SMTP.Secret = fixedSecret("wrong")
	check(t, h.agent.Ring("test", ""))
	r := h.poll()
	if s := h.status(); s.Sending != nil || s.Credentials["smtp"].Failures == 0 || sendingFailure(r) != "" {
		t.Errorf("%+v, %+v, %+v", s.Sending, s.Credentials, r.Failed)
	}
}

// After a connect that failed the other mails wait: each connect may take its whole
// time limit.
func TestPerformConnectsOnce(t *testing.T) {
	h := newAwakeFixture(t)
	const second = "second@example.com"
	h.agent.Policy.Ack = false
	h.agent.Mail.Filter.Operators = append(h.agent.Mail.Filter.Operators, second)
	h.refuses(450, "later")
	h.receive(letter{id: "<one@example.com>"})
	h.receive(letter{id: "<two@example.com>", from: second})
	h.poll()
	var connects atomic.Int64
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	check(t, err)
	t.Cleanup(func() { listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			connects.Add(1)
			conn.Close()
		}
	}()
	h.agent.Mail.SMTP.Addr = listener.Addr().String()
	h.pollAfter(2 * time.Minute)
	if n := connects.Load(); n != 1 {
		t.Errorf("%d connects in one poll", n)
	}
}

// A mesh that accepts no message is a failed source.
func TestMeshSendFailureIsReported(t *testing.T) {
	h := newAwakeFixture(t)
	h.post(meshMessage("q1"))
	h.meshAnswers(http.MethodPost, http.StatusServiceUnavailable)
	r := h.poll()
	named := func(f cycle.SourceFailure) bool { return f.Source == state.Mesh && strings.Contains(f.Reason, "503") }
	if !slices.ContainsFunc(r.Failed, named) {
		t.Errorf("report: %+v", r.Failed)
	}
	h.wantLogged("503")
}

// A failure to send outside of a poll is logged.
func TestFailedFlushIsLogged(t *testing.T) {
	h := newAwakeFixture(t)
	h.agent.Policy.Ack = false
	h.agent.Mail.SMTP.Addr = mailtest.StartNobody(t)
	h.receive(letter{id: "<one@example.com>"})
	h.collect()
	_, err := h.agent.Turns(t.Context())
	check(t, err)
	h.wantLogged("send: reply.")
}

// A lingering poll reports later failures too.
func TestLingeringPollReportsFailures(t *testing.T) {
	t.Parallel()
	h := newAwakeFixture(t)
	h.agent.Mesh, h.agent.Turn, h.agent.Policy.Turns = nil, nil, false
	h.agent.Mail.SMTP.Addr = mailtest.StartNobody(t)
	observed := make(chan struct{}, 99)
	ctx, enough := context.WithCancel(t.Context())
	h.onCommit(func(s state.State) {
		observed <- struct{}{}
		if len(s.Outbox) > 0 && s.Outbox[0].Attempts > 0 {
			enough()
		}
	})
	go func() {
		<-observed // the first poll has read the mailbox
		h.receive(letter{id: "<one@example.com>"})
	}()
	r, err := h.agent.PollLingering(ctx, cycle.PollOptions{}, time.Minute)
	check(t, err)
	if sendingFailure(r) == "" {
		t.Errorf("report: %+v", r)
	}
}

// A poll that is stopped while it commits a failed send tells of the failure.
func TestStoppedPollReportsFailedSend(t *testing.T) {
	h := newAwakeFixture(t)
	ctx, stop := context.WithCancel(t.Context())
	var tried atomic.Bool
	refuse := func(string) error { tried.Store(true); return &smtp.SMTPError{Code: 451, Message: "later"} }
	h.onRcpt.Store(&refuse)
	h.agent.Store.Hook = func(step, _ string) error {
		if step == "done" && tried.Load() {
			stop()
		}
		return nil
	}
	h.receive(letter{id: "<one@example.com>"})
	r, err := h.agent.Poll(ctx, cycle.PollOptions{NoTurn: true})
	if ctx.Err() == nil || sendingFailure(r) == "" {
		t.Errorf("stopped: %v, report: %+v, %v", ctx.Err(), r, err)
	}
	h.wantLogged("send: ")
}

// A person who polls does not wait for a pause to end.
func TestPollByHandRetriesAtOnce(t *testing.T) {
	h := newAwakeFixture(t)
	h.refuses(451, "later")
	check(t, h.agent.Ring("test", ""))
	h.poll()
	h.onRcpt.Store(nil)
	h.poll()
	h.wantSent("")
	_, err := h.agent.Poll(t.Context(), cycle.PollOptions{ByHand: true})
	check(t, err)
	h.wantSent("ack")
}

// While an answer is pending the agent polls and retries each minute. An overtaken ack is not
// sent late.
func TestPendingAnswerIsSentWithinAMinute(t *testing.T) {
	t.Parallel()
	h := newAwakeFixture(t)
	h.refuses(451, "later")
	h.receive(letter{id: "<one@example.com>"})
	h.poll()
	for range 40 {
		h.pollAfter(time.Minute)
	}
	h.wantPhase(state.PREP)
	if got := h.crontabFields(); got != "*/1 * * * *" {
		t.Errorf("the line is %q", got)
	}
	h.onRcpt.Store(nil)
	h.pollAfter(time.Minute)
	h.wantSent("reply")
	h.wantOvertaken("ack.")
	h.pollAfter(4 * time.Minute)
	h.wantPhase(state.PREP)
	h.pollAfter(time.Minute)
	h.wantPhase(state.IDLE)
	h.wantSent("reply quiet")
}

// wantOvertaken fails unless the history has a row of this kind as overtaken.
func (h *fixture) wantOvertaken(prefix string) {
	h.t.Helper()
	lines := h.lines(state.LineDelivery)
	if !slices.ContainsFunc(lines, func(l state.Line) bool { return l.What == "overtaken" && strings.HasPrefix(l.ID, prefix) }) {
		h.t.Errorf("nothing of %s is overtaken: %+v", prefix, lines)
	}
}

// An answer that cannot be delivered keeps the agent awake for an hour and its timer.
func TestPendingAnswerKeepsPhaseForAnHour(t *testing.T) {
	h := newAwakeFixture(t)
	h.refuses(451, "later")
	h.receive(letter{id: "<one@example.com>"})
	h.poll()
	h.pollAfter(64 * time.Minute)
	h.wantPhase(state.PREP)
	h.pollAfter(2 * time.Minute)
	h.wantPhase(state.IDLE)
	h.onRcpt.Store(nil)
	h.pollAfter(time.Hour)
	h.wantSent("reply")
}

// An agent that was sent to IDLE still retries each minute.
func TestPendingAnswerInIdle(t *testing.T) {
	h := newAwakeFixture(t)
	h.refuses(451, "later")
	h.receive(letter{id: "<one@example.com>"})
	h.poll()
	h.order(state.IDLE, false)
	h.poll()
	if got := h.crontabFields(); got != "*/1 * * * *" {
		t.Errorf("the line is %q", got)
	}
	h.onRcpt.Store(nil)
	h.pollAfter(time.Minute)
	h.wantSent("reply")
	h.poll()
	if got := h.crontabFields(); got != "*/30 * * * *" {
		t.Errorf("the line is %q", got)
	}
}
