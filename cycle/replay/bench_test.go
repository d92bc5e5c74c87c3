package replay_test

import (
	"fmt"
	"runtime"
	"syscall"
	"testing"
	"time"

	"agentstateloop/cycle/replay"
	"agentstateloop/state"
)

// month returns the mails of a month: a tenth is for the agent.
func month(n int) (all []letter) {
	for i := range n {
		at := midnight.Add(time.Hour + time.Duration(i)*(29*24*time.Hour/time.Duration(n)))
		if i%10 == 0 {
			all = append(all, write(at, operator, "@"+handle+" work", fmt.Sprint("task ", i)))
			continue
		}
		all = append(all, write(at, fmt.Sprintf("friend%d@example.net", i%50), "hello", "how are you?"))
	}
	return all
}

// BenchmarkReplay replays a month with 10,000 mails, of which 1,000 are for the agent, and one in
// which all are. It reports the highest of the heaps that it
// samples, at each 200th entry.
func BenchmarkReplay(b *testing.B) {
	st := setting{figure: replay.Figure{Time: time.Minute, Cost: state.Dollar / 10}}
	all := month(100_000)
	var ours []letter
	for i := 0; i < len(all); i += 10 {
		ours = append(ours, all[i])
	}
	for name, letters := range map[string][]letter{"a tenth": month(10_000), "all": ours} {
		b.Run(name, func(b *testing.B) {
			agent, peak := st.newAgent(b.TempDir(), time.Now), uint64(0)
			o := options(b, agent, st, letters, midnight.Add(30*24*time.Hour))
			for b.Loop() {
				n := 0
				o.Emit = func(replay.Entry) error {
					if n++; n%200 == 0 {
						var m runtime.MemStats
						runtime.ReadMemStats(&m)
						peak = max(peak, m.HeapInuse)
					}
					return nil
				}
				before := cpu(b)
				sum, err := replay.Run(b.Context(), o)
				check(b, err)
				b.ReportMetric((cpu(b) - before).Seconds(), "cpu-s") // of the last run, without writing the mails
				b.ReportMetric(float64(sum.Polls), "polls")
				b.ReportMetric(float64(sum.Turns), "turns")
			}
			b.ReportMetric(float64(peak)/(1<<20), "sampled-heap-MiB")
		})
	}
}

// cpu returns the processor time of this process.
func cpu(b *testing.B) time.Duration {
	var u syscall.Rusage
	check(b, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
