package simulator_test

import (
	"flag"
	"strings"
	"sync"
	"testing"
	"time"

	sim "agentstateloop/internal/testkit/simulator"
)

var rollbacks = flag.Int64("rollbacks", part(12, 6), "number of stories with rollbacks to play, from -first on")

// TestRollbacks plays stories in which the state is replaced by that of 1 to 50 commits ago.
func TestRollbacks(t *testing.T) {
	if *seed >= 0 {
		out := play(t, sim.MakeRollbacks(*seed, *length))
		t.Log("\n" + strings.Join(out.Log, "\n"))
		if out.Broken != nil {
			t.Error(out.Broken)
		}
		return
	}
	begin := time.Now()
	next := make(chan int64)
	go func() {
		defer close(next)
		for n := range *rollbacks {
			if t.Failed() && !*all {
				return
			}
			next <- *first + n
		}
	}()
	var mu sync.Mutex
	var counts sim.Counts
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			for n := range next {
				out := play(t, sim.MakeRollbacks(n, *length))
				mu.Lock()
				counts.Add(out.Counts)
				mu.Unlock()
				if out.Broken != nil {
					report(t, sim.MakeRollbacks(n, *length), out)
				}
			}
		})
	}
	wg.Wait()
	t.Logf("%d stories with rollbacks in %v", *rollbacks, time.Since(begin))
	sometimes(t, counts)
}
