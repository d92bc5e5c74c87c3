package cycle_test

import (
	"context"
	"fmt"
	"syscall"
	"testing"
	"time"

	"agentstateloop/turn"
)

// BenchmarkBacklog drains a backlog of messages from the terminal with an agent
// that costs nothing. It measures claim, boxes, commits and delivery. The cost
// of a message must not more than double from a backlog of 10 to one of 1,000.
func BenchmarkBacklog(b *testing.B) {
	for _, n := range []int{10, 100, 1000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			for b.Loop() {
				b.StopTimer()
				h := backlogHouse(b, n)
				b.StartTimer()
				began, used := time.Now(), spentCPU(b)
				ran, err := h.agent.Turns(b.Context())
				if err != nil || ran != n {
					b.Fatalf("%d turns, %v", ran, err)
				}
				b.ReportMetric(float64(time.Since(began).Microseconds())/float64(n), "µs/message")
				b.ReportMetric(float64((spentCPU(b)-used).Microseconds())/float64(n), "cpu-µs/message")
			}
		})
	}
}

// backlogHouse returns a house in which n messages wait.
func backlogHouse(t testing.TB, n int) *house {
	t.Helper()
	h := newAwakeHouse(t)
	h.agent.RunTurn = func(_ context.Context, at turn.Attempt) (turn.Result, error) {
		return turn.Result{Status: turn.Success, Exit: turn.ExitClean, Text: "done"}, nil
	}
	for i := range n {
		_, err := h.agent.Tell(t.Context(), "me", fmt.Sprintf("message %d of a backlog", i))
		check(t, err)
	}
	return h
}

// spentCPU returns the processor time that this process has used.
func spentCPU(b *testing.B) time.Duration {
	var u syscall.Rusage
	check(b, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
