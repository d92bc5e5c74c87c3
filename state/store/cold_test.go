package store

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"agentstateloop/internal/members"
	"agentstateloop/internal/testkit/statetest"
	"agentstateloop/state"
)

// What this program writes it reads without encoding/json, whose look at the types costs
// a fresh process more than the rest of an empty poll.
func TestOwnJSONSkipsReflection(t *testing.T) {
	st, _ := startedStore(t)
	for _, name := range []string{stateFile, prevFile} {
		data, err := os.ReadFile(st.path(name))
		check(t, err)
		var s stored
		if !members.Read(bytes.TrimSuffix(data, []byte("\n")), &s, (*stored).Members) || s.Chain == (chain{}) {
			t.Errorf("%s is left to encoding/json: %s", name, data)
		}
	}
	names, err := st.historyFiles()
	if err != nil || len(names) == 0 {
		t.Fatalf("%v, %v", names, err)
	}
	data, err := os.ReadFile(names[0])
	check(t, err)
	for raw := range bytes.Lines(data) {
		var l fileLine
		if !members.Read(bytes.TrimSuffix(raw, []byte("\n")), &l, (*fileLine).Members) || l.Sum == "" {
			t.Errorf("this line is left to encoding/json: %s", raw)
		}
	}
}

// JSON of other programs is read, too: with another order, spaces, and unknown fields.
func TestOtherJSONIsRead(t *testing.T) {
	st, _ := startedStore(t)
	want, err := st.Read()
	check(t, err)
	data, err := os.ReadFile(st.path(stateFile))
	check(t, err)
	var all map[string]any
	check(t, json.Unmarshal(data, &all))
	all["of_another_version"] = []int{1}
	pretty, err := json.MarshalIndent(all, "", "  ")
	check(t, err)
	if err := os.Remove(st.path(stateFile)); err != nil { // .prev may be the same file
		t.Fatal(err)
	}
	check(t, os.WriteFile(st.path(stateFile), pretty, 0o600))
	got, recovery, err := (&Store{Dir: st.Dir, Agent: st.Agent}).load()
	if err != nil || recovery.Reason != "" {
		t.Fatalf("%q, %v", recovery.Reason, err)
	}
	statetest.SameState(t, got, want)
}

// BenchmarkCold starts a process for each round, like cron. It reports the processor time in µs and
// the page faults of the first read of the state and the commit of an empty poll, and of the same
// with encoding/json.
func BenchmarkCold(b *testing.B) {
	for _, n := range []int{0, 6} {
		b.Run(fmt.Sprintf("waiting=%d", n), func(b *testing.B) {
			st := &Store{Dir: filepath.Join(b.TempDir(), "agent"), Agent: "goulard3120"}
			commit(b, st, func(state.State) state.State { return stateWithInbox(n) })
			commit(b, st, func(s state.State) state.State { return state.Step(s, plainPoll(), statetest.Policy(), benchNow) })
			var sum [6]float64
			for b.Loop() {
				cmd := exec.Command(os.Args[0])
				cmd.Env = append(os.Environ(), "STATE_TEST_COLD="+st.Dir)
				out, err := cmd.Output()
				check(b, err)
				var one [6]float64
				if _, err := fmt.Sscan(string(out), &one[0], &one[1], &one[2], &one[3], &one[4], &one[5]); err != nil {
					b.Fatal(err)
				}
				for i := range sum {
					sum[i] += one[i]
				}
			}
			for i, unit := range []string{"read-µs", "read-faults", "commit-µs", "commit-faults", "json-µs", "json-faults"} {
				b.ReportMetric(sum[i]/float64(b.N), unit)
			}
		})
	}
}

// measureCold runs in the process of BenchmarkCold.
func measureCold(out io.Writer, dir string) error {
	st := &Store{Dir: dir, Agent: "goulard3120"}
	if err := measured(out, func() error { _, err := st.Read(); return err }); err != nil {
		return err
	}
	events, p := plainPoll(), statetest.Policy()
	err := measured(out, func() error {
		_, err := st.Commit(context.Background(), benchNow, func(s state.State, _ Recovery) (state.State, error) {
			return state.Step(s, events, p, benchNow.Add(time.Minute)), nil
		})
		return err
	})
	if err != nil {
		return err
	}
	return measured(out, func() error {
		data, err := os.ReadFile(st.path(stateFile))
		if err != nil {
			return err
		}
		var s stored
		return json.Unmarshal(data, &s)
	})
}

// measured prints the processor time in µs and the page faults of f.
func measured(out io.Writer, f func() error) error {
	var before, after syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &before); err != nil {
		return err
	}
	if err := f(); err != nil {
		return err
	}
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &after); err != nil {
		return err
	}
	used := after.Utime.Nano() + after.Stime.Nano() - before.Utime.Nano() - before.Stime.Nano()
	_, err := fmt.Fprintln(out, float64(used)/1000, after.Minflt-before.Minflt)
	return err
}
