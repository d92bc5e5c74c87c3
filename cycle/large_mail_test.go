package cycle_test

import (
	"context"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/emersion/go-imap/v2"

	"agentstateloop/cycle"
	"agentstateloop/internal/testkit/mailtest"
	"agentstateloop/state"
)

// largeSize is above which a mail is large in these tests, in bytes.
const largeSize = 10 << 10

// largeLetter is a large mail that says so at its beginning.
func largeLetter() letter {
	return letter{id: "<large@example.com>", body: "the large one\r\n\r\n-- \r\n" + strings.Repeat(strings.Repeat("x", 70)+"\r\n", 3000)}
}

// slowLine returns the agent of h as another process has it, behind a slow line to
// the mail server.
func (h *fixture) slowLine() (*cycle.Agent, *mailtest.SlowLine) {
	h.agent.Mail.Mailbox.Large = largeSize
	line := mailtest.StartSlowLine(h.t, h.mail.IMAP, 1<<20)
	slow := h.blueprint.agent(h.clock.Now)
	slow.Self = h.agent.Self
	slow.Mail.Mailbox.Addr, slow.Mail.Mailbox.Large = line.Addr, largeSize
	return slow, line
}

// While a large mail is being fetched, other mail is read and answered, and no other process
// fetches it. Then it gets one turn.
func TestLargeMailDelaysNothing(t *testing.T) {
	t.Parallel()
	h := newAwakeFixture(t)
	slow, line := h.slowLine()
	large := h.receive(largeLetter())
	var bodies atomic.Int32
	count := func(uids imap.NumSet, body bool) error {
		if set, ok := uids.(imap.UIDSet); ok && body && set.Contains(imap.UID(large)) {
			bodies.Add(1)
		}
		return nil
	}
	h.onFetch.Store(&count)

	line.HaltAt(50_000)
	done := pollOf(t.Context(), slow, cycle.PollOptions{})
	line.Carried(50_000)
	h.receive(letter{id: "<small@example.com>", body: "the small one"})
	if r := h.pollAfter(time.Minute); r.Turns != 1 {
		t.Errorf("the small mail: %+v", r)
	}
	h.wantReplies("I read: the small one")
	if s := h.state(); !slices.Equal(s.LargeMails(), []string{s.Cursor.Key(large)}) {
		t.Errorf("large mails: %q", s.LargeMails())
	}
	h.pollAfter(6 * time.Minute)
	h.wantPhase(state.PREP) // it is on its way

	line.Resume()
	got := <-done
	if got.err != nil || got.report.Arrived != 1 || got.report.Turns != 1 {
		t.Errorf("%+v, %v", got.report, got.err)
	}
	h.wantReplies("I read: the small one", "I read: the large one")
	if s := h.state(); len(s.Cursor.Owed)+len(s.Cursor.Large) > 0 {
		t.Errorf("the cursor is %+v", s.Cursor)
	}
	if r := h.pollAfter(time.Minute); r.Arrived != 0 || len(h.unread()) > 0 || bodies.Load() != 1 {
		t.Errorf("afterwards: %+v, unread %v, fetched %d times", r, h.unread(), bodies.Load())
	}
}

// A poll that ends during the fetch of a large mail loses nothing and counts no failure. The next
// poll fetches it.
func TestLargeMailIsInterrupted(t *testing.T) {
	t.Parallel()
	h := newAwakeFixture(t)
	slow, line := h.slowLine()
	large := h.receive(largeLetter())
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	line.HaltAt(50_000)
	done := pollOf(ctx, slow, cycle.PollOptions{})
	line.Carried(50_000)
	cancel()
	if got := <-done; got.err != nil || got.report.Arrived != 0 || len(got.report.Failed) > 0 {
		t.Errorf("%+v, %v", got.report, got.err)
	}
	if s := h.state(); !slices.Equal(s.Cursor.Large, []uint32{large}) || len(s.Cursor.Failures) > 0 {
		t.Errorf("the cursor is %+v", s.Cursor)
	}
	if r := h.pollAfter(time.Minute); r.Arrived != 1 || r.Turns != 1 || len(h.sentOf("reply")) != 1 {
		t.Errorf("the next poll: %+v", r)
	}
}

// A large mail that the server does not deliver is retried with pauses and reported, like any
// mail. It holds up neither other mail nor the end of a phase.
func TestLargeMailIsRetried(t *testing.T) {
	t.Parallel()
	h := newAwakeFixture(t)
	h.agent.Mail.Mailbox.Large = largeSize
	large := h.receive(largeLetter())
	h.refuseBodies(large)
	if r := h.poll(); len(r.Failed) != 1 {
		t.Errorf("the first try: %+v", r)
	}
	if r := h.pollAfter(10 * time.Second); len(r.Failed) != 0 {
		t.Errorf("it is tried again at once: %+v", r)
	}
	h.pollAfter(time.Minute)
	h.pollAfter(2 * time.Minute)
	h.wantSent("notice")
	check(t, h.agent.Ring("someone", ""))
	h.poll()
	h.wantPhase(state.PREP)
	h.pollAfter(6 * time.Minute) // it fails once more here
	h.pollAfter(time.Minute)
	h.wantPhase(state.IDLE)

	h.onFetch.Store(nil)
	if r := h.pollAfter(30 * time.Minute); r.Arrived != 1 || r.Turns != 1 {
		t.Errorf("at last: %+v", r)
	}
	if n := len(h.sentOf("notice")); n != 2 || len(h.state().Cursor.Failures) > 0 {
		t.Errorf("%d notices, and the cursor is %+v", n, h.state().Cursor)
	}
}

// A poll that must not take long leaves large mail to a detached one, unless
// another process is at it.
func TestLargeMailIsLeftToDetachedPoll(t *testing.T) {
	t.Parallel()
	h := newAwakeFixture(t)
	slow, line := h.slowLine()
	detached := h.detached()
	h.receive(largeLetter())
	leave := cycle.PollOptions{NoTurn: true, LeaveLarge: true}
	if _, err := h.agent.Poll(t.Context(), leave); err != nil {
		t.Fatal(err)
	}
	if args := detached(); !slices.Equal(args, []string{"poll", "--quiet"}) {
		t.Errorf("detached with %q", args)
	}

	h.agent.Self = []string{"/none"} // to start another one is an error
	line.HaltAt(50_000)
	done := pollOf(t.Context(), slow, cycle.PollOptions{NoTurn: true})
	line.Carried(50_000)
	if _, err := h.agent.Poll(t.Context(), leave); err != nil {
		t.Fatal(err)
	}
	line.Resume()
	if got := <-done; got.err != nil || got.report.Arrived != 1 || got.report.Turns != 0 || !got.report.TurnWaiting {
		t.Errorf("%+v, %v", got.report, got.err)
	}
}
