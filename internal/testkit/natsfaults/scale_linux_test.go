package natsfaults_test

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"agentstateloop/fleet"
	"agentstateloop/internal/testkit/fleettest"
	"agentstateloop/mesh"
	"agentstateloop/mesh/natsmesh"
)

var many = flag.Int("agents", 60, "how many agents a benchmark has")

// BenchmarkAgents measures what agents cost three servers: their mailboxes, listeners that
// hear nothing, and a look a minute of each, as of polls from cron. Processor time is that
// of the servers, in hundredths of a core. Sizes are the KiB by which a process grows. With
// GOGC=10 in the environment they hold little that could be freed.
//
//	AGENTSTATELOOP_REQUIRE_REAL=1 go test -bench Agents -run '^$' -timeout 1h ./internal/testkit/natsfaults -agents 1000 -for 5m
func BenchmarkAgents(b *testing.B) {
	for b.Loop() {
		f := newAgents(b, *many)
		f.make()
		f.rest("idle", 30*time.Second)
		f.listen() // before this process has had much memory
		f.look(max(*during, 10*time.Second))
	}
	b.ReportMetric(0, "ns/op")
}

// manyAgents are the agents of the benchmark, and their servers.
type manyAgents struct {
	b       *testing.B
	engine  *fleettest.Engine
	handles []string
	bare    []usage // of the servers, without mailboxes
}

func newAgents(b *testing.B, n int) *manyAgents {
	f := &manyAgents{b: b}
	for i := range n {
		f.handles = append(f.handles, fmt.Sprintf("agent%04d", i))
	}
	f.engine = fleettest.StartBare(b, 3, f.handles...)
	return f
}

// usage is what a server has used.
type usage struct {
	cpu time.Duration
	kib int
}

// used reads it, of each server.
func (f *manyAgents) used() (all []usage) {
	f.b.Helper()
	for _, s := range f.engine.Servers {
		all = append(all, usage{cpuOf(f.b, s.PID()), kibOf(f.b, s.PID())})
	}
	return all
}

// cpuOf returns the processor time of a process.
func cpuOf(b *testing.B, pid int) time.Duration {
	b.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		b.Fatal(err)
	}
	// What follows the name in parentheses begins with the third field; 14 and 15 are the times of
	// the user and the system, in hundredths of a second.
	fields := bytes.Fields(text[bytes.LastIndexByte(text, ')')+1:])
	var user, system int
	if _, err := fmt.Sscan(string(bytes.Join(fields[14-3:], []byte(" "))), &user, &system); err != nil {
		b.Fatal(err)
	}
	return time.Duration(user+system) * 10 * time.Millisecond
}

// kibOf returns how much memory a process has.
func kibOf(b *testing.B, pid int) (kib int) {
	b.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		b.Fatal(err)
	}
	_, after, _ := bytes.Cut(text, []byte("VmRSS:"))
	if _, err := fmt.Sscan(string(after), &kib); err != nil {
		b.Fatal(err)
	}
	return kib
}

// make makes the streams, and then the mailboxes.
func (f *manyAgents) make() {
	admin := f.engine.Conn("")
	defer admin.Close()
	create := func(ctx context.Context, handles []string) error {
		_, err := fleet.Create(ctx, fleettest.Asker(admin), fleet.Wanted{Handles: handles, Servers: len(f.engine.Servers)})
		return err
	}
	f.engine.Until("the streams can be made", func(ctx context.Context) error { return create(ctx, nil) })
	time.Sleep(5 * time.Second) // until what they do at their start is over
	f.bare = f.used()
	began := time.Now()
	if err := create(f.b.Context(), f.handles); err != nil {
		f.b.Fatal(err)
	}
	took := time.Since(began)
	f.b.Logf("mailboxes made in %v", took)
	f.b.ReportMetric(float64(took.Milliseconds())/float64(len(f.handles)), "ms/mailbox")
	time.Sleep(5 * time.Second) // as above
	f.report("mailbox", f.bare, f.used(), 0)
}

// report reports what the servers used between two moments: for a time the processor, or
// else the memory for each agent.
func (f *manyAgents) report(what string, before, after []usage, during time.Duration) {
	var values, sizes []string
	worst := 0.0
	for i := range after {
		value := float64(after[i].kib-before[i].kib) / float64(len(f.handles))
		if during > 0 {
			value = 100 * float64(after[i].cpu-before[i].cpu) / float64(during)
		}
		worst = max(worst, value)
		values, sizes = append(values, fmt.Sprintf("%.1f", value)), append(sizes, strconv.Itoa(after[i].kib>>10))
	}
	unit := "KiB/" + what
	if during > 0 {
		unit = what + "-%core"
	}
	f.b.Logf("%s: %s of the servers, which have %s MiB", unit, strings.Join(values, ", "), strings.Join(sizes, ", "))
	f.b.ReportMetric(worst, unit)
}

// rest lets the servers rest for a while.
func (f *manyAgents) rest(what string, during time.Duration) {
	before := f.used()
	time.Sleep(during) // what is measured
	f.report(what, before, f.used(), during)
}

// looks are what the looks of all agents came to.
type looks struct {
	mu             sync.Mutex
	took           []time.Duration
	sent, received int
	failed         []error
}

// oneOf says how many looks there are for one that has a message to send.
const oneOf = 10

// look has each agent look once a minute, one after the other, for a time.
func (f *manyAgents) look(during time.Duration) {
	var all looks
	var wg sync.WaitGroup
	before, began := f.used(), time.Now()
	pause := time.Minute / time.Duration(len(f.handles))
	tick := time.NewTicker(pause)
	defer tick.Stop()
	for n := 0; time.Since(began) < during; n++ {
		wg.Go(func() { f.lookOnce(&all, n) })
		<-tick.C
	}
	wg.Wait()
	took := time.Since(began)
	f.report("look", before, f.used(), took)
	slices.Sort(all.took)
	if len(all.failed) > 0 || len(all.took) == 0 {
		f.b.Fatalf("%d of %d looks failed: %v", len(all.failed), len(all.took), errors.Join(all.failed[:min(5, len(all.failed))]...))
	}
	ms := func(share float64) float64 {
		return float64(all.took[int(share*float64(len(all.took)-1))].Microseconds()) / 1000
	}
	f.b.Logf("%d looks in %v, p50 %.1f ms, p99 %.1f ms, worst %.1f ms; %d messages sent, %d received", len(all.took), took, ms(0.5), ms(0.99), ms(1), all.sent, all.received)
	f.b.ReportMetric(ms(0.5), "look-p50-ms")
	f.b.ReportMetric(ms(0.99), "look-p99-ms")
}

// lookOnce makes the n-th look, on a connection of its own.
func (f *manyAgents) lookOnce(all *looks, n int) {
	handle := f.handles[n%len(f.handles)]
	c := f.client(handle)
	defer c.Close()
	began := time.Now()
	box, err := c.Take(f.b.Context())
	took := time.Since(began)
	for _, m := range box.Messages {
		err = errors.Join(err, c.Ack(f.b.Context(), m.ID))
	}
	sent := 0
	if n%oneOf == 0 {
		to := f.handles[(n*7+1)%len(f.handles)]
		_, failed := c.Send(f.b.Context(), mesh.Message{To: to, Text: "a message of a line or so, as agents send them"})
		err = errors.Join(err, failed)
		sent = 1
	}
	all.mu.Lock()
	defer all.mu.Unlock()
	all.took = append(all.took, took)
	all.sent, all.received = all.sent+sent, all.received+len(box.Messages)
	if err != nil {
		all.failed = append(all.failed, fmt.Errorf("%s: %w", handle, err))
	}
}

// client returns a side of the mesh that knows no keys: of a thousand agents, none knows
// all others.
func (f *manyAgents) client(handle string) *natsmesh.Client {
	seed := f.engine.Users[handle].Seed
	return &natsmesh.Client{
		URL: f.engine.URL(), Handle: handle, Host: "alpha", Timeout: 30 * time.Second,
		Seed: func(context.Context) (string, error) { return seed, nil },
	}
}

// listen has all agents listen, and reports what that costs servers and clients.
func (f *manyAgents) listen() {
	before, mine := f.used(), kibOf(f.b, os.Getpid())
	ctx, cancel := context.WithCancel(f.b.Context())
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	for _, handle := range f.handles {
		c := f.client(handle)
		defer c.Close()
		if _, err := c.Watch(ctx, 0); err != nil {
			f.b.Fatal(err)
		}
		wg.Go(func() {
			for ctx.Err() == nil {
				_, _ = c.Watch(ctx, time.Hour) // it may hear of a message that waits
			}
		})
	}
	f.rest("listening", 30*time.Second)
	after := f.used()
	total := 0
	for i := range after {
		total += after[i].kib - before[i].kib
	}
	n := float64(len(f.handles))
	f.b.ReportMetric(float64(total)/n, "server-KiB/listener")
	f.b.ReportMetric(float64(kibOf(f.b, os.Getpid())-mine)/n, "KiB/listener")
}
