package cycle_test

import (
	"context"
	"fmt"
	"runtime"
	"runtime/debug"
	"syscall"
	"testing"
	"time"

	"agentstateloop/turn"
)

// BenchmarkBacklog drains a backlog of messages from the terminal, with an agent
// that costs nothing and with the cheapest one that is a process. It measures claim,
// boxes, commits and delivery.
func BenchmarkBacklog(b *testing.B) {
	defer debug.SetGCPercent(debug.SetGCPercent(300)) // as poll does
	for _, n := range []int{10, 100, 1000} {
		b.Run(fmt.Sprint("nothing/", n), func(b *testing.B) {
			drain(b, n, func(*fixture) {})
		})
	}
	for _, n := range []int{10, 100, 1000} {
		b.Run(fmt.Sprint("process/", n), func(b *testing.B) {
			drain(b, n, func(h *fixture) {
				h.agent.Turn.Command, h.agent.RunTurn = []string{"/bin/echo", "done"}, nil
			})
		})
	}
}

// drain measures backlogs of n messages. prepare may change the agent of newBacklogFixture.
func drain(b *testing.B, n int, prepare func(h *fixture)) {
	var took, used time.Duration
	drained := 0
	for b.Loop() {
		b.StopTimer()
		h := newBacklogFixture(b, n)
		prepare(h)
		runtime.GC() // what that has left is not the backlog's
		b.StartTimer()
		began, before := time.Now(), spentCPU(b)
		ran, err := h.agent.Turns(b.Context())
		if err != nil || ran != n {
			b.Fatalf("%d turns, %v", ran, err)
		}
		took, used, drained = took+time.Since(began), used+spentCPU(b)-before, drained+n
	}
	b.ReportMetric(float64(took.Microseconds())/float64(drained), "µs/message")
	b.ReportMetric(float64(used.Microseconds())/float64(drained), "cpu-µs/message")
}

// newBacklogFixture returns a fixture in which n messages wait.
func newBacklogFixture(t testing.TB, n int) *fixture {
	t.Helper()
	h := newAwakeFixture(t)
	h.agent.RunTurn = func(_ context.Context, at turn.Attempt) (turn.Result, error) {
		return turn.Result{Status: turn.Success, Exit: turn.ExitClean, Text: "done"}, nil
	}
	for i := range n {
		h.queue(fmt.Sprintf("message %d of a backlog", i))
	}
	return h
}

// spentCPU returns the processor time that this process and its children have used.
func spentCPU(b *testing.B) (d time.Duration) {
	for _, who := range []int{syscall.RUSAGE_SELF, syscall.RUSAGE_CHILDREN} {
		var u syscall.Rusage
		check(b, syscall.Getrusage(who, &u))
		d += time.Duration(u.Utime.Nano() + u.Stime.Nano())
	}
	return d
}
