package cycle_test

import (
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/emersion/go-smtp"

	"agentstateloop/cycle"
	"agentstateloop/state"
)

// newLongTurnFixture is a fixture whose acks wait for 30 seconds, and in which a turn has begun.
// The agent works until goOn, and wait returns after the poll of the turn.
func newLongTurnFixture(t *testing.T) (h *fixture, goOn func(), wait func() cycle.Report) {
	t.Helper()
	h = newAwakeFixture(t)
	h.agent.Policy.AckAfter = 30 * time.Second
	up, goOn := h.pauseFirstAttempt()
	h.receive(letter{id: "<one@example.com>"})
	wait = h.pollInBackground()
	up()
	return h, goOn, wait
}

// The answer is there first: no ack is sent, and the history says why.
func TestAckIsNotNeededAfterAnswer(t *testing.T) {
	h := newAwakeFixture(t)
	h.agent.Policy.AckAfter = 30 * time.Second
	h.receive(letter{id: "<one@example.com>"})
	h.poll()
	h.wantSent("reply")
	h.pollAfter(time.Minute)
	h.wantSent("reply")
	if got := strings.Join(h.reasonsOf(state.LineAck, "not needed"), ", "); !strings.Contains(got, "its answer is ready") {
		t.Errorf("history: %q", got)
	}
	h.pollAfter(10 * time.Minute) // the operator wrote, and hears that it is over
	h.wantSent("reply quiet")
}

// The process that runs a long turn sends the ack in its time, once, although no other
// poll comes.
func TestAckOfLongTurnIsSentOnce(t *testing.T) {
	t.Parallel()
	h, goOn, wait := newLongTurnFixture(t)
	h.clock.advance(29 * time.Second)
	asked := func() int { h.clock.mu.Lock(); defer h.clock.mu.Unlock(); return h.clock.asked }
	before := asked()
	until(t, "a look at the clock, and a second one, which comes after what the first one does", func() bool { return asked() > before+1 })
	h.wantSent("")
	h.clock.advance(time.Second)
	until(t, "the ack", func() bool { return h.kinds() == "ack" })
	h.clock.advance(5 * time.Second)
	goOn()
	wait()
	h.poll() // the detached one, if the process still held cycle.lock for the ack when the answer came
	h.wantSent("ack reply")
	if at := h.state().AckWaits.Until; !at.IsZero() {
		t.Errorf("another ack waits until %v", at)
	}
}

// Another poll sends the ack if it sees first that the ack is due. The ack is sent once.
func TestAckOfLongTurnIsSentByPoll(t *testing.T) {
	t.Parallel()
	h, goOn, wait := newLongTurnFixture(t)
	h.clock.advance(30 * time.Second)
	other := h.blueprint.agent(h.clock.Now)
	other.Policy.AckAfter = h.agent.Policy.AckAfter
	if _, err := other.Poll(t.Context(), cycle.PollOptions{IfDue: true}); !errors.Is(err, cycle.ErrBusy) {
		check(t, err)
	}
	until(t, "the ack", func() bool { return h.kinds() == "ack" })
	goOn()
	wait()
	h.poll() // as above
	h.wantSent("ack reply")
}

// An ack whose dot is out when the answer comes is not taken back. The answer follows.
func TestAckOnItsWayIsNotWithdrawn(t *testing.T) {
	t.Parallel()
	h, goOn, wait := newLongTurnFixture(t)
	atDot, answered := make(chan struct{}), make(chan struct{})
	hook := func(_ net.Conn, raw []byte) error {
		if strings.Contains(string(raw), "standing by") {
			close(atDot)
			<-answered
		}
		return nil
	}
	h.onData.Store(&hook)
	h.clock.advance(30 * time.Second)
	<-atDot
	goOn()
	until(t, "the end of the turn", func() bool { return len(h.lines(state.LineTask)) == 1 })
	close(answered)
	wait()
	h.wantSent("ack reply")
}

// An ack that could not be sent at its time is withdrawn when the answer comes.
func TestFailedAckIsWithdrawn(t *testing.T) {
	t.Parallel()
	h, goOn, wait := newLongTurnFixture(t)
	refused := make(chan struct{}, 9)
	hook := func(string) error {
		refused <- struct{}{}
		return &smtp.SMTPError{Code: 451, Message: "try later"}
	}
	h.onRcpt.Store(&hook)
	h.clock.advance(30 * time.Second)
	<-refused
	h.onRcpt.Store(nil)
	goOn()
	wait()
	h.poll() // as above
	h.wantSent("reply")
	if got := strings.Join(h.reasonsOf(state.LineDelivery, "overtaken"), ", "); !strings.Contains(got, "its answer is ready") {
		t.Errorf("history: %q", got)
	}
}
