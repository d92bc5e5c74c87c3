package fleetsim_test

import (
	"flag"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"agentstateloop/internal/osfile"
	"agentstateloop/internal/testkit"
	"agentstateloop/internal/testkit/fleetsim"
)

var (
	seed  = flag.Int64("seed", -1, "play only the story of this seed")
	seeds = flag.Int("seeds", 100, "play so many stories")
	first = flag.Int64("first", 0, "begin with this seed")
	most  = flag.Int("most", 1, "end after so many stories with a broken promise")
)

func TestMain(m *testing.M) {
	if err := testkit.InMemory(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	runtime.GOMAXPROCS(1) // so that a seed makes the same story again
	debug.SetGCPercent(800)
	os.Exit(m.Run())
}

// TestFleet plays stories.
func TestFleet(t *testing.T) {
	if *seed >= 0 {
		*first, *seeds = *seed, 1
	}
	began, passed, count, failed := time.Now(), time.Duration(0), map[string]int{}, 0
	for n := *first; n < *first+int64(*seeds); n++ {
		out := play(t, n)
		if done := n + 1 - *first; done%500 == 0 {
			t.Logf("%d stories in %v", done, time.Since(began))
		}
		passed += out.Time
		for what, k := range out.Count {
			count[what] += k
		}
		if out.Broken != "" || *seed >= 0 {
			t.Logf("seed %d:\n%s", n, strings.Join(out.Log, "\n"))
		}
		if out.Broken != "" {
			t.Errorf("seed %d: promise fleet: %s", n, out.Broken)
			if failed++; failed == *most {
				break
			}
		}
	}
	t.Logf("%d stories, %v in %v: %v", *seeds, passed, time.Since(began), count)
}

// play plays the story of a seed.
func play(t *testing.T, n int64) (out fleetsim.Outcome) {
	dir, err := os.MkdirTemp("", "fleetsim-")
	if err != nil {
		t.Fatal(err)
	}
	defer osfile.RemoveAll(dir)
	func() {
		// A process that is killed while go-imap hands it a mail leaves the library's reader waiting.
		defer func() {
			if p := recover(); p != nil && !strings.Contains(fmt.Sprint(p), "blocked goroutines remain") {
				panic(p)
			}
		}()
		synctest.Test(t, func(t *testing.T) {
			out, err = fleetsim.Play(dir, fleetsim.Make(n))
		})
	}()
	if err != nil {
		t.Fatal(err)
	}
	return out
}
