package fleettrial_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"agentstateloop/internal/testkit/fleettest"
)

// BenchmarkCommit measures a commit of an agent: its time, and how often it waits for the servers.
// The agent is in a fleet on one server or on three, or lives on one host alone.
func BenchmarkCommit(b *testing.B) {
	skipUnlessReal(b)
	for _, kind := range []struct {
		name    string
		servers int
		alone   bool
	}{{"alone", 1, true}, {"R1", 1, false}, {"R3", 3, false}} {
		b.Run(kind.name, func(b *testing.B) {
			h := newHosts(b, fleettest.StartBare(b, kind.servers, boss, "agent0").Create(), nil, "agent0", shortTenths, "alpha").hosts[0]
			if kind.alone {
				h.removeSection("[fleet]")
			} else {
				h.run("fleet", "join")
			}
			a := load(b, h.dir)
			var asked atomic.Int64
			connOf(b, a).Dial = fleettest.Wire{Pass: func(f fleettest.Frame) bool {
				if strings.HasSuffix(f.Verb, "PUB") {
					asked.Add(1)
				}
				return true
			}}.Dial
			if _, err := a.Credit(b.Context(), 1, "first"); err != nil { // it connects
				b.Fatal(err)
			}
			asked.Store(0)
			var times []time.Duration
			for b.Loop() {
				began := time.Now()
				if _, err := a.Credit(b.Context(), 1, fmt.Sprint("p", len(times))); err != nil {
					b.Fatal(err)
				}
				times = append(times, time.Since(began))
			}
			slices.Sort(times)
			b.ReportMetric(milliseconds(times[len(times)/2]), "p50-ms")
			b.ReportMetric(milliseconds(times[len(times)*99/100]), "p99-ms")
			b.ReportMetric(float64(asked.Load())/float64(len(times)), "round-trips")
		})
	}
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// BenchmarkPoll measures polls that find no work: processor time and memory, of a standby, of the
// host that acts, and of an agent without [fleet], which asks the servers too, or is not due.
func BenchmarkPoll(b *testing.B) {
	skipUnlessReal(b)
	e := newServers(b, "agent0", "agent1")
	d := newDesk(b, e)
	inFleet := newAgent(b, e, d, "agent0", shortTenths)
	alone := newHosts(b, e, d, "agent1", shortTenths, "alpha").hosts[0]
	alone.removeSection("[fleet]")
	alone.run("poll")
	inFleet.hosts[0].run("poll")
	kinds := []struct {
		name string
		host *host
		args []string

		cpu    []time.Duration
		memory []float64
	}{
		{name: "standby", host: inFleet.hosts[1], args: []string{"poll", "--if-due", "--quiet"}},
		{name: "holder", host: inFleet.hosts[0], args: []string{"poll", "--if-due", "--quiet"}},
		{name: "alone-not-due", host: alone, args: []string{"poll", "--if-due", "--quiet"}},
		{name: "alone", host: alone, args: []string{"poll", "--quiet"}},
	}
	for b.Loop() {
		for n := range kinds {
			k := &kinds[n]
			var out bytes.Buffer
			cmd := k.host.command(k.args...)
			cmd.Stdout, cmd.Stderr = &out, &out
			if err := cmd.Start(); err != nil {
				b.Fatal(err)
			}
			ended := make(chan float64)
			go func() { ended <- peak(cmd.Process.Pid) }()
			_ = cmd.Wait()
			if !cmd.ProcessState.Success() {
				b.Fatalf("%s: %s", k.name, out.String())
			}
			k.cpu = append(k.cpu, cmd.ProcessState.UserTime()+cmd.ProcessState.SystemTime())
			k.memory = append(k.memory, <-ended)
		}
	}
	for _, k := range kinds {
		slices.Sort(k.cpu)
		slices.Sort(k.memory)
		b.ReportMetric(milliseconds(k.cpu[len(k.cpu)/2]), k.name+"-cpu-ms")
		b.ReportMetric(k.memory[len(k.memory)/2], k.name+"-MiB")
	}
}

// BenchmarkListener measures the memory of the listener of the host that acts.
func BenchmarkListener(b *testing.B) {
	skipUnlessReal(b)
	h := newAgent(b, newServers(b, "agent0"), nil, "agent0", shortTenths).hosts[0]
	for b.Loop() {
		cmd := h.command("listen")
		var out bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &out
		if err := cmd.Start(); err != nil {
			b.Fatal(err)
		}
		time.Sleep(20 * time.Second) // several beats
		memory := highWater(cmd.Process.Pid)
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if memory == 0 {
			b.Fatalf("the listener does not run:\n%s", out.String())
		}
		b.ReportMetric(memory, "MiB")
	}
}

// highWater returns the most memory that a process has had, in MiB; 0 if it has ended. The rusage of
// a process counts that of the test too, which has started it.
func highWater(pid int) (mib float64) {
	status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	_, after, _ := strings.Cut(string(status), "VmHWM:")
	fmt.Sscan(after, &mib)
	return mib / 1024
}

// peak returns the last highWater before the process ends.
func peak(pid int) (mib float64) {
	for {
		now := highWater(pid)
		if now == 0 {
			return mib
		}
		mib = now
		time.Sleep(time.Millisecond) // between looks
	}
}

// removeSection removes the last section from the configuration.
func (h *host) removeSection(name string) {
	h.t.Helper()
	file := filepath.Join(h.dir, "agent.toml")
	text, err := os.ReadFile(file)
	if err == nil {
		head, _, _ := bytes.Cut(text, []byte(name))
		err = os.WriteFile(file, head, 0o600)
	}
	if err != nil {
		h.t.Fatal(err)
	}
}
