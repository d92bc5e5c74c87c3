// Package natsfaults_test breaks the mesh over NATS while agents write to each other.
package natsfaults_test

import (
	"context"
	"flag"
	"os"
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

// repeat calls harm until the time of the test is over, and at least so often. It returns how often.
func repeat(ctx context.Context, times int, harm func()) (n int) {
	for end := time.Now().Add(*during); ctx.Err() == nil && (n < times || time.Now().Before(end)); n++ {
		harm()
	}
	return n
}

// wait lets the agents work.
func wait(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

// run harms the engine while agents work, and checks that nothing is lost or done twice. timeout is
// that of their requests, patience that of their questions.
func run(t *testing.T, seed uint64, timeout, patience time.Duration, between *fleettest.Wire, harm func(context.Context, *world)) {
	skipUnlessReal(t)
	t.Parallel()
	w := newWorld(t, timeout, patience, between)
	w.load(seed, func(ctx context.Context) { harm(ctx, w) })
	s := w.check()
	t.Logf("%d messages and %d reports, each once; %d were with the engine that was lost", s.messages, s.reports, s.lost)
}

// TestLeadersAreKilled kills the server that leads the mailboxes every eight seconds.
func TestLeadersAreKilled(t *testing.T) {
	run(t, 1, 30*time.Second, 20*time.Hour, nil, func(ctx context.Context, w *world) {
		kills := repeat(ctx, 2, func() {
			leader := w.engine.Leader(fleet.MailboxStream)
			leader.Kill()
			wait(ctx, 4*time.Second)
			leader.Start()
			wait(ctx, 4*time.Second)
		})
		t.Logf("%d leaders killed", kills)
	})
}

// TestAnswersAreThrownAway has a proxy throw away acknowledgements of either side, deliveries and
// ends of pulls.
func TestAnswersAreThrownAway(t *testing.T) {
	th := newThief(map[string]int{
		"PubAck": 5, "post": 3, "delivery": 5, "end of a pull": 3, "pull": 3, "acknowledgement": 15, "ring": 30,
	}, 1)
	run(t, 2, 4*time.Second, 20*time.Hour, &fleettest.Wire{Pass: th.pass}, func(ctx context.Context, _ *world) {
		repeat(ctx, 1, func() { wait(ctx, 12*time.Second) })
		// On a busy machine a kind may be rare.
		for n := 0; n < 20 && th.missed() != ""; n++ {
			wait(ctx, 3*time.Second)
		}
		if kind := th.missed(); kind != "" {
			t.Errorf("no %s was thrown away", kind)
		}
		t.Logf("thrown away: %v", th.stop())
	})
}

// TestAServerHangs stops the server that leads the mailboxes for ten seconds.
func TestAServerHangs(t *testing.T) {
	run(t, 3, 30*time.Second, 20*time.Hour, nil, func(ctx context.Context, w *world) {
		stops := repeat(ctx, 1, func() {
			wait(ctx, 3*time.Second)
			leader := w.engine.Leader(fleet.MailboxStream)
			leader.Stop()
			wait(ctx, 10*time.Second)
			leader.Continue()
			wait(ctx, 5*time.Second)
		})
		t.Logf("%d servers stopped for ten seconds", stops)
	})
}

// TestTheEngineIsLost has the engine lose all that it has; then it is made again. A message that it
// has acknowledged and that nobody has taken is gone; every one that it acknowledges afterwards comes.
func TestTheEngineIsLost(t *testing.T) {
	patience := 20 * time.Minute // for a report that is lost
	if long() {
		patience = 3 * time.Hour
	}
	run(t, 4, 30*time.Second, patience, nil, func(ctx context.Context, w *world) {
		half := max(*during/2, 4*time.Second)
		wait(ctx, half)
		each(w.engine.Servers, (*fleettest.Server).Kill)
		w.loss = time.Now()
		each(w.engine.Servers, (*fleettest.Server).Wipe)
		each(w.engine.Servers, (*fleettest.Server).Start)
		w.engine.Create()
		hurry(w.engine, w.ackWait)
		wait(ctx, half)
	})
}

func each(servers []*fleettest.Server, do func(*fleettest.Server)) {
	for _, s := range servers {
		do(s)
	}
}
