// Package natsfaults_test breaks the mesh over NATS while agents write to each other.
package natsfaults_test

import (
	"context"
	"flag"
	"maps"
	"os"
	"slices"
	"testing"
	"time"

	"agentstateloop/fleet"
	"agentstateloop/internal/testkit/fleettest"
)

var during = flag.Duration("for", 0, "do harm for that long in each test, such as 5m, with the times of docs/design.md; 0: for some seconds")

// long reports whether this is a run in which nothing is made shorter for the test.
func long() bool { return *during >= time.Minute }

// requireReal names the variable without which tests that take long are skipped.
const requireReal = "AGENTSTATELOOP_REQUIRE_REAL"

func skipUnlessReal(t *testing.T) {
	t.Helper()
	if os.Getenv(requireReal) == "" && *during == 0 {
		t.Skip("takes half a minute: set " + requireReal + "=1, or -for")
	}
}

// repeat calls harm until the time of the test is over, and at least so often.
func repeat(ctx context.Context, times int, harm func()) {
	for end := time.Now().Add(*during); ctx.Err() == nil && (times > 0 || time.Now().Before(end)); times-- {
		harm()
	}
}

// wait lets the agents work.
func wait(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

// finish checks and tells what has happened.
func (w *world) finish() {
	w.t.Helper()
	s := w.check()
	delays := w.books.delays()
	at := func(percent int) time.Duration { return delays[(len(delays)-1)*percent/100].Round(time.Millisecond) }
	w.t.Logf("%d messages and %d reports, each once; %d were with the engine that was lost; %d deliveries again", s.messages, s.reports, s.lost, s.again)
	w.t.Logf("from the first try to the inbox: half within %v, 99 of 100 within %v, the last %v", at(50), at(99), at(100))
	w.t.Logf("the engine acknowledged nothing for %v at most", w.books.gap().Round(time.Millisecond))
	w.t.Logf("the longest send took %v, the longest look %v; failed calls: %v", slices.Max(w.books.sends).Round(time.Millisecond), slices.Max(w.books.takes).Round(time.Millisecond), w.books.failed)
}

// TestLeadersAreKilled checks that nothing is lost or done twice while the server that
// leads the mailboxes is killed every eight seconds.
func TestLeadersAreKilled(t *testing.T) {
	skipUnlessReal(t)
	t.Parallel()
	w := newWorld(t, 30*time.Second, nil)
	kills := 0
	w.load(1, func(ctx context.Context) {
		repeat(ctx, 2, func() {
			leader := w.engine.Leader(fleet.MailboxStream)
			leader.Kill()
			wait(ctx, 4*time.Second)
			leader.Start()
			wait(ctx, 4*time.Second)
			kills++
		})
	})
	t.Logf("%d leaders killed", kills)
	w.finish()
}

// TestAnswersAreThrownAway checks the same where a proxy throws away acknowledgements of
// either side, deliveries and ends of pulls.
func TestAnswersAreThrownAway(t *testing.T) {
	skipUnlessReal(t)
	t.Parallel()
	th := newThief(map[string]int{
		"PubAck": 5, "post": 3, "delivery": 5, "end of a pull": 3, "pull": 3, "acknowledgement": 15, "ring": 30,
	}, 1)
	w := newWorld(t, 4*time.Second, &wire{th.pass})
	w.load(2, func(ctx context.Context) {
		repeat(ctx, 1, func() { wait(ctx, 12*time.Second) })
		t.Logf("thrown away: %v", th.stop())
	})
	for _, kind := range slices.Sorted(maps.Keys(th.of)) {
		if th.stolen[kind] == 0 {
			t.Errorf("no %s was thrown away", kind)
		}
	}
	w.finish()
}

// TestAServerHangs checks the same where the server that leads the mailboxes is stopped
// for ten seconds.
func TestAServerHangs(t *testing.T) {
	skipUnlessReal(t)
	t.Parallel()
	w := newWorld(t, 30*time.Second, nil)
	stops := 0
	w.load(3, func(ctx context.Context) {
		repeat(ctx, 1, func() {
			wait(ctx, 3*time.Second)
			leader := w.engine.Leader(fleet.MailboxStream)
			leader.Stop()
			wait(ctx, 10*time.Second)
			leader.Continue()
			wait(ctx, 5*time.Second)
			stops++
		})
	})
	t.Logf("%d servers stopped for ten seconds", stops)
	w.finish()
}

// TestTheEngineIsLost checks that what agents have is neither lost nor done twice if the
// engine loses all that it has and is made again. A message that it has acknowledged and
// that nobody has taken is gone; every one that it acknowledges afterwards comes.
func TestTheEngineIsLost(t *testing.T) {
	skipUnlessReal(t)
	t.Parallel()
	w := newWorld(t, 30*time.Second, nil)
	w.patience = 20 * time.Minute // for a report that is lost
	if long() {
		w.patience = 3 * time.Hour
	}
	w.load(4, func(ctx context.Context) {
		half := max(*during/2, 4*time.Second)
		wait(ctx, half)
		each(w.engine.Servers, (*fleettest.Server).Kill)
		w.loss = time.Now()
		each(w.engine.Servers, (*fleettest.Server).Wipe)
		each(w.engine.Servers, (*fleettest.Server).Start)
		w.engine.Create()
		w.hurry()
		wait(ctx, half)
	})
	w.finish()
}

func each(servers []*fleettest.Server, do func(*fleettest.Server)) {
	for _, s := range servers {
		do(s)
	}
}
