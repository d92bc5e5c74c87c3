package natsfaults_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"agentstateloop/cycle"
	"agentstateloop/internal/testkit/fleettest"
	"agentstateloop/mesh"
	"agentstateloop/mesh/natsmesh"
	"agentstateloop/state"
)

// doomedVariable holds, in a process that makes one poll and is to die in it, what it
// needs to know.
const doomedVariable = "AGENTSTATELOOP_TEST_DOOMED"

func TestMain(m *testing.M) {
	if text := os.Getenv(doomedVariable); text != "" {
		os.Exit(runDoomed(text))
	}
	os.Exit(m.Run())
}

// doomed is a process that makes one poll and dies at a point.
type doomed struct {
	Dir, URL, Handle, Seed string
	Keys                   map[string]string
	Clock                  clock
	Point                  int // from the receipt of a message on; 0: it does not die
}

func (d doomed) member() *member {
	client := &natsmesh.Client{
		URL: d.URL, Handle: d.Handle, Host: "alpha", Keys: d.Keys, Timeout: 20 * time.Second, Now: d.Clock.now,
		Seed: func(context.Context) (string, error) { return d.Seed, nil },
	}
	m := newMember(client)
	m.Agent = wired(d.Dir, client, d.Handle, []string{writer}, d.Clock)
	m.RunTurn = m.turn
	return m
}

// The code with which a doomed process ends that has not met its point.
const exitAlive = 3

func runDoomed(text string) int {
	var d doomed
	if err := json.Unmarshal([]byte(text), &d); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	m := d.member()
	points := &points{last: d.Point}
	m.client.Dial = fleettest.Wire{Pass: points.frame}.Dial
	m.Store.Hook = func(string, string) error { points.pass(""); return nil }
	if _, err := m.Poll(context.Background(), cycle.PollOptions{}); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	m.Close()
	return exitAlive
}

// points counts what a process does from the receipt of a message until it has
// acknowledged it: each step on the disk, and each frame in either direction. At the last
// one it kills the process.
type points struct {
	last int

	mu              sync.Mutex
	received, acked bool
	n               int
}

func (p *points) frame(f fleettest.Frame) bool {
	p.pass(kindOf(f))
	return true
}

func (p *points) pass(kind string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.received = p.received || kind == "delivery"
	if !p.received || p.n < 0 {
		return
	}
	if p.n++; p.n == p.last {
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {}
	}
	if p.acked { // the acknowledgement had left
		p.n = -1
	}
	p.acked = kind == "acknowledgement"
}

// writer is who writes to the doomed.
const writer = "writer"

// doomedAgents are more than there are points.
const doomedAgents = 32

// TestKilledReceivers checks that a message comes again, is known and has one turn, if its
// recipient is killed at any point between receipt and acknowledgement.
func TestKilledReceivers(t *testing.T) {
	skipUnlessReal(t)
	t.Parallel()
	handles := []string{writer}
	for n := range doomedAgents {
		handles = append(handles, "doomed"+strconv.Itoa(n))
	}
	e := fleettest.StartCluster(t, handles...)
	hurry(e, time.Second)
	k := &killing{t: t, engine: e, dir: t.TempDir(), clock: newClock(speed), writer: e.Client(writer), reports: map[string]map[string]bool{}}
	slots, round := make(chan struct{}, 2), 0
	// The first poll of an agent does more: each point is tried in one, and in a later one.
	repeat(t.Context(), 2, func() {
		round++
		var wg sync.WaitGroup
		for n, handle := range handles[1:] {
			wg.Go(func() { k.one(slots, handle, round, n+1) })
		}
		wg.Wait()
		k.collect()
		if k.alive == 0 {
			t.Fatalf("a process has more than %d points: the test needs more agents", doomedAgents)
		}
		if k.known == 0 {
			t.Error("no message came again and was known")
		}
		k.alive = 0
	})
	if len(k.reports) != round*doomedAgents {
		t.Errorf("%d messages have a report, of %d", len(k.reports), round*doomedAgents)
	}
	t.Logf("%d messages, each once; %d processes killed; %d messages came again and were known", len(k.reports), k.killed, k.known)
}

// killing is one run of the test.
type killing struct {
	t      *testing.T
	engine *fleettest.Engine
	dir    string
	clock  clock
	writer *natsmesh.Client

	mu                   sync.Mutex
	killed, alive, known int
	reports              map[string]map[string]bool // ids, by that of the message
}

// one sends a message to an agent, has the process that receives it die at a point, and
// then polls until the message has had its turn.
func (k *killing) one(slots chan struct{}, handle string, round, point int) {
	t, ctx := k.t, k.t.Context()
	q := mesh.Message{ID: fmt.Sprintf("q.%d.%d", round, point), To: handle, Kind: mesh.KindAsk, Text: fmt.Sprint(point)}
	if _, err := k.writer.Send(ctx, q); err != nil {
		t.Error(err)
		return
	}
	d := doomed{Dir: k.dir, URL: k.engine.URL(), Handle: handle, Seed: k.engine.Users[handle].Seed, Keys: k.engine.Keys(), Clock: k.clock, Point: point}
	text, err := json.Marshal(d)
	if err != nil {
		t.Error(err)
		return
	}
	slots <- struct{}{}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), doomedVariable+"="+string(text), "GORACE=atexit_sleep_ms=0")
	out, err := cmd.CombinedOutput()
	<-slots
	exit, _ := errors.AsType[*exec.ExitError](err)
	k.mu.Lock()
	switch {
	case exit != nil && exit.ExitCode() == exitAlive:
		k.alive++
	case exit != nil && exit.Sys().(syscall.WaitStatus).Signal() == syscall.SIGKILL:
		k.killed++
	default:
		t.Errorf("point %d: %v\n%s", point, err, out)
	}
	k.mu.Unlock()

	d.Point = 0
	m := d.member()
	defer m.Close()
	q.From = writer
	err = settle(100*time.Millisecond, time.Minute, func() string {
		if _, err := m.Poll(ctx, cycle.PollOptions{}); err != nil {
			t.Errorf("point %d: %v", point, err)
		}
		s, why := m.restless(ctx)
		if _, seen := s.Seen[q.Key()]; !seen && why == "" {
			why = "it has not seen the message"
		}
		return why
	})
	if err != nil {
		t.Errorf("point %d: %v", point, err)
		return
	}
	k.checkHistory(m, q, point)
}

// checkHistory checks that a message is in the inbox once and has had one turn.
func (k *killing) checkHistory(m *member, q mesh.Message, point int) {
	count := map[state.LineKind]int{}
	for _, l := range m.history(k.t, state.LineMessage, state.LineTask, state.LineDuplicate) {
		if l.Key == q.Key() {
			count[l.Kind]++
		}
	}
	if count[state.LineMessage] != 1 || count[state.LineTask] != 1 {
		k.t.Errorf("point %d: the message is in the inbox %d times, and had %d turns", point, count[state.LineMessage], count[state.LineTask])
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if count[state.LineDuplicate] > 0 {
		k.known++
	}
}

// collect takes the reports, and checks that each message has one.
func (k *killing) collect() {
	ctx := k.t.Context()
	for {
		box, err := k.writer.Take(ctx)
		if err != nil {
			k.t.Fatal(err)
		}
		if len(box.Messages) == 0 {
			break
		}
		for _, m := range box.Messages {
			if k.reports[m.Correlation] == nil {
				k.reports[m.Correlation] = map[string]bool{}
			}
			k.reports[m.Correlation][m.ID] = true
			if err := k.writer.Ack(ctx, m.ID); err != nil {
				k.t.Fatal(err)
			}
		}
	}
	for id, reports := range k.reports {
		if len(reports) != 1 {
			k.t.Errorf("%s has the reports %v", id, reports)
		}
	}
}
