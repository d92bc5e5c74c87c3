package listen_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"testing"
	"time"

	"agentstateloop/cycle"
	"agentstateloop/cycle/listen"
	"agentstateloop/internal/testkit/fleettest"
	"agentstateloop/internal/testkit/mailtest"
	"agentstateloop/mail"
	"agentstateloop/mesh"
	"agentstateloop/state"
	"agentstateloop/state/store"
)

// BenchmarkWake measures, for each source of wakes, the time until the poll makes
// its first request ("start") and until PREP is on disk ("prep"). The latter is a
// whole cycle with its mail session and mesh call. It reports medians and 99th
// percentiles in milliseconds. "listen" has a listener running, "linger" a poll
// that stays on, and "nudge" neither: the command polls by itself.
//
//	go test -bench Wake -benchtime 1000x -run '^$' ./cycle/listen
func BenchmarkWake(b *testing.B) {
	file := func(h *fixture, _ int) { check(h.t, h.agent.Ring("bench", "")) }
	pipe := filepath.Join(b.TempDir(), "pipe")
	ways := []struct {
		name  string
		serve func(h *fixture)
		ring  func(h *fixture, n int)
	}{
		{"nudge", func(*fixture) {}, func(h *fixture, n int) {
			file(h, n)
			_, err := h.agent.Poll(h.t.Context(), cycle.PollOptions{NoTurn: true})
			check(h.t, err)
		}},
		{"listen/file", func(h *fixture) { h.listen() }, file},
		{"listen/webhook", func(h *fixture) { h.listen() }, func(h *fixture, _ int) {
			if code := h.call("POST", "/nudge", "", "Authorization", bearer); code != http.StatusAccepted {
				h.t.Fatalf("answered %d", code)
			}
		}},
		{"listen/pipe", func(h *fixture) { h.listen(func(l *listen.Listener) { l.Pipe = pipe }) }, func(h *fixture, _ int) {
			f, err := os.OpenFile(pipe, os.O_WRONLY, 0)
			check(h.t, err)
			fmt.Fprintln(f, "bench")
			check(h.t, f.Close())
		}},
		{"listen/mesh", func(h *fixture) { h.listen() }, meshNudge},
		{"listen/mail", func(h *fixture) { h.listen() }, mailIn},
		{"listen/mail-dovecot", func(h *fixture) { h.listen() }, nil},
		{"linger/mesh", lingering, meshNudge},
		{"linger/mail", lingering, mailIn},
		{"linger/mail-dovecot", lingering, nil},
	}
	for _, way := range ways {
		b.Run(way.name, func(b *testing.B) {
			h := newFixture(b)
			ring := way.ring
			if ring == nil {
				ring = inDovecot(b, h)
			}
			way.serve(h)
			h.wakes(b, ring)
		})
	}
}

func meshNudge(h *fixture, _ int) { check(h.t, h.peer.Nudge(h.t.Context(), handle, "", "")) }
func mailIn(h *fixture, n int)    { h.receive(fmt.Sprintf("bench%d", n)) }

// inDovecot gives the agent a real mailbox. It returns a function that puts a mail
// into it.
func inDovecot(b *testing.B, h *fixture) func(h *fixture, n int) {
	d := mailtest.StartDovecot(b)
	h.agent.Mail.Mailbox.Server = mail.Server{
		Addr: d.IMAPTLS, TLS: mail.TLSImplicit, Username: d.Username, CAFile: d.CAFile, Timeout: time.Minute,
		Secret: func(context.Context) (string, error) { return d.Password, nil },
	}
	_, err := h.agent.Poll(b.Context(), cycle.PollOptions{})
	check(b, err)
	return func(h *fixture, n int) {
		raw := fmt.Sprintf("From: %s\r\nSubject: @%s hello\r\nMessage-ID: <d%d@example.com>\r\n\r\nhello\r\n", operator, handle, n)
		check(h.t, d.Append([]byte(raw), false))
	}
}

// lingering keeps a lingering poll running.
func lingering(h *fixture) {
	ctx, cancel := context.WithCancel(h.t.Context())
	ended := make(chan struct{})
	before := h.mesh.looks.Load()
	go func() {
		defer close(ended)
		for ctx.Err() == nil {
			if _, err := h.agent.PollLingering(ctx, cycle.PollOptions{NoTurn: true}, time.Hour); err != nil && !errors.Is(err, cycle.ErrBusy) && ctx.Err() == nil {
				h.t.Error(err)
				return
			}
		}
	}()
	for h.mesh.looks.Load() == before {
		runtime.Gosched()
	}
	h.t.Cleanup(func() { cancel(); <-ended })
}

func (h *fixture) wakes(b *testing.B, ring func(h *fixture, n int)) {
	h.t = b
	var start, prep []time.Duration
	for n := range b.N {
		_, err := h.agent.Order(b.Context(), state.IDLE, "bench", true)
		check(b, err)
		began, looks := time.Now(), h.mesh.looks.Load()
		ring(h, n)
		h.untilPhase(state.PREP)
		prep = append(prep, time.Since(began))
		if h.mesh.looks.Load() > looks {
			start = append(start, time.Unix(0, h.mesh.asked.Load()).Sub(began))
		}
	}
	report(b, start, prep)
}

// BenchmarkWakeNATS measures the same for the nudge of another agent on a mesh over NATS
// with one server and with three, from the call that nudges. The engine has the nudge on
// disk before it rings.
//
//	go test -bench WakeNATS -benchtime 200x -run '^$' ./cycle/listen
func BenchmarkWakeNATS(b *testing.B) {
	const burst = 8 // then it is quiet for a second: more wakes wait for each other
	for name, begin := range map[string]func(testing.TB, ...string) *fleettest.Engine{"one": fleettest.Start, "three": fleettest.StartCluster} {
		b.Run(name, func(b *testing.B) {
			h := newFixture(b)
			c, other := h.overNATS(begin(b, handle, peer))
			h.listen()
			check(b, other.Nudge(b.Context(), handle, "", ""))
			h.untilPhase(state.PREP)
			var start, prep []time.Duration
			for n := range b.N {
				h.idle()
				if n%burst == 0 {
					<-time.After(1100 * time.Millisecond)
				}
				began, takes := time.Now(), c.takes.Load()
				check(b, other.Nudge(b.Context(), handle, "", ""))
				h.untilPhase(state.PREP)
				prep = append(prep, time.Since(began))
				if c.takes.Load() > takes {
					start = append(start, time.Unix(0, c.asked.Load()).Sub(began))
				}
			}
			report(b, start, prep)
		})
	}
}

// report reports medians and 99th percentiles in milliseconds.
func report(b *testing.B, start, prep []time.Duration) {
	for name, took := range map[string][]time.Duration{"start": start, "prep": prep} {
		if len(took) == 0 {
			continue // the poll that found it began earlier
		}
		slices.Sort(took)
		ms := func(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
		b.ReportMetric(ms(took[len(took)/2]), name+"-p50-ms")
		b.ReportMetric(ms(took[len(took)*99/100]), name+"-p99-ms")
	}
	b.ReportMetric(0, "ns/op")
}

// BenchmarkMemory measures the heap and stacks, in KiB, that a further agent
// without a mail connection costs a listener. With a mesh, the server's side of
// the long poll is in this process and counts too.
//
//	go test -bench Memory -benchtime 1x -run '^$' ./cycle/listen
func BenchmarkMemory(b *testing.B) {
	for _, withMesh := range []bool{false, true} {
		for _, agents := range []int{1, 100, 1000} {
			b.Run(fmt.Sprintf("mesh=%v/agents=%d", withMesh, agents), func(b *testing.B) {
				m := newMesh(b)
				before := inUse()
				l := &listen.Listener{Logf: func(string, ...any) {}}
				dir := b.TempDir()
				for n := range agents {
					l.Agents = append(l.Agents, plainAgent(dir, fmt.Sprintf("agent%d", n), m.url, withMesh))
				}
				web, err := net.Listen("tcp", "127.0.0.1:0")
				check(b, err)
				ctx, cancel := context.WithCancel(b.Context())
				ready, ended := make(chan struct{}), make(chan error, 1)
				l.Web, l.Ready = web, func() { close(ready) }
				go func() { ended <- l.Run(ctx) }()
				<-ready
				for _, a := range l.Agents {
					for due := true; due; {
						s, err := a.Store.Read()
						check(b, err)
						due = s.NextDue.IsZero() // until its first poll is done
						runtime.Gosched()
					}
				}
				b.ReportMetric(float64(inUse()-before)/1024/float64(agents), "KiB/agent")
				b.ReportMetric(0, "ns/op")
				cancel()
				check(b, <-ended)
			})
		}
	}
}

// plainAgent returns an agent without mail that has never polled.
func plainAgent(dir, name, url string, withMesh bool) *cycle.Agent {
	a := &cycle.Agent{
		Handle: name, Config: "/home/you/" + name + ".toml",
		Store: &store.Store{Dir: filepath.Join(dir, name), Agent: name},
		Policy: state.Policy{
			IdleInterval: 30 * time.Minute, EngagedInterval: time.Minute,
			PrepTimeout: 5 * time.Minute, ActiveTimeout: 10 * time.Minute, Location: time.UTC, MaxAttempts: 3,
		},
		Schedule: cycle.Schedule{Mode: cycle.ModeNone}, Now: time.Now,
	}
	if withMesh {
		a.Mesh = &cycle.Mesh{Carrier: &mesh.Client{URL: url, Handle: name}, Handle: name}
		a.Policy.HasMesh = true
	}
	return a
}

// inUse returns the memory of heap and stacks, in bytes.
func inUse() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapInuse + m.StackInuse)
}
