package simulator_test

import (
	"flag"
	"os"
	"runtime/debug"
	"strings"
	"sync"
	"testing"
	"time"

	"agentstateloop/internal/osfile"
	"agentstateloop/internal/testkit/simulator"
)

var (
	seed   = flag.Int64("seed", -1, "replay only this seed and print everything that happens")
	seeds  = flag.Int64("seeds", part(8, 4), "number of seeds to play")
	first  = flag.Int64("first", 1, "first seed to play")
	length = flag.Int("steps", 30, "number of steps of a story")
	during = flag.Duration("for", 0, "play these seeds, then fresh ones for this long; all rare events must then happen")
	all    = flag.Bool("all", false, "continue after a seed that failed")
	alone  = flag.Bool("noshrink", false, "print a story that failed without shortening it")
	over   = flag.String("over", "", "what carries the mesh: http, nats, or nothing for what the seed says")
	lives  = flag.Int64("lives", part(2, 1), "number of seeds to play each scenario with")
)

func TestMain(m *testing.M) {
	debug.SetGCPercent(400) // many short stories, of which none holds much
	os.Exit(m.Run())
}

// part returns how many of something are tried: the whole where all that is real is required,
// else some.
func part(whole, some int64) int64 {
	if os.Getenv("AGENTSTATELOOP_REQUIRE_REAL") != "" {
		return whole
	}
	return some
}

func TestSimulate(t *testing.T) {
	if *seed >= 0 {
		out := play(t, story(*seed))
		t.Log("\n" + strings.Join(out.Log, "\n"))
		if out.Broken != nil {
			t.Error(out.Broken)
		}
		return
	}
	many(t)
}

// story returns the story of a seed.
func story(seed int64) simulator.Story {
	switch *over {
	case "http":
		return simulator.MakeOver("", seed, *length)
	case simulator.OverNATS:
		return simulator.MakeOver(simulator.OverNATS, seed, *length)
	}
	return simulator.Make(seed, *length)
}

// many plays stories on two processors: the requested seeds, and with -for then
// fresh seeds that nobody has played before.
func many(t *testing.T) {
	begin := time.Now()
	fresh := begin.Unix() * 1000
	next := make(chan int64)
	go func() {
		defer close(next)
		for n := int64(0); n < *seeds || time.Since(begin) < *during; n++ {
			if t.Failed() && !*all {
				return
			}
			if n < *seeds {
				next <- *first + n
			} else {
				next <- fresh + n
			}
		}
	}()
	var mu sync.Mutex
	var counts simulator.Counts
	var days float64
	played := 0
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			for n := range next {
				out := play(t, story(n))
				mu.Lock()
				counts.Add(out.Counts)
				days += out.Time.Hours() / 24
				played++
				mu.Unlock()
				if out.Broken != nil {
					report(t, story(n), out)
				}
			}
		})
	}
	wg.Wait()
	if *during > 0 {
		t.Logf("fresh seeds: from %d", fresh+*seeds)
	}
	took := time.Since(begin).Seconds()
	t.Logf("%d stories, %d processes (%.0f/s), %d attempts, %.0f days (%.0f an hour), %d kinds of points",
		played, counts.Processes, float64(counts.Processes)/took, counts.Attempts, days, days/took*3600, len(counts.Points))
	sometimes(t, counts)
}

// play plays a story in a new folder, in memory if possible. The simulator itself
// decides what the disk loses.
func play(t *testing.T, s simulator.Story) simulator.Outcome {
	dir, err := os.MkdirTemp(memory(), "simulator-")
	if err != nil {
		t.Fatal(err)
	}
	defer osfile.RemoveAll(dir)
	out, err := simulator.Play(dir, s)
	if err != nil {
		t.Error(err)
	}
	return out
}

func memory() string {
	if info, err := os.Stat("/dev/shm"); err == nil && info.IsDir() {
		return "/dev/shm"
	}
	return ""
}

// report prints the shortest story that breaks the promise.
func report(t *testing.T, s simulator.Story, out simulator.Outcome) {
	if !*alone {
		s = simulator.Shrink(s, time.Minute, func(s simulator.Story) bool {
			tried := play(t, s)
			if tried.Broken == nil || tried.Broken.Promise != out.Broken.Promise {
				return false
			}
			out = tried
			return true
		})
	}
	t.Errorf("seed %d: %v\n\nThe story, as short as it could be made:\n%s\nWhat happened:\n%s\n\nReplay all of it: go test ./internal/testkit/simulator -run %s -seed %d -steps %d -v",
		s.Seed, out.Broken, s, strings.Join(out.Log, "\n"), t.Name(), s.Seed, *length)
}
