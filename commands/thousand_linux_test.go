package commands

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// BenchmarkListenThousand measures the cost of agents for the installed `agentstateloop listen`,
// which polls the mesh for them: the resident memory of each further one, in KiB, and the
// share of a core, in percent, that the listener uses while it is idle.
//
//	go test -bench ListenThousand -benchtime 1x -run '^$' ./commands
func BenchmarkListenThousand(b *testing.B) {
	program, url := installProgram(b), serveMesh(b)
	var one int
	for _, agents := range []int{1, 100, 1000} {
		b.Run(fmt.Sprintf("agents=%d", agents), func(b *testing.B) {
			dir := agentsOnMesh(b, agents, url)
			listener := exec.Command(program, "listen", dir)
			noError(b, listener.Start())
			time.Sleep(30 * time.Second) // the first polls, and the garbage of the start
			before := cpuOf(b, listener.Process.Pid)
			const idle = time.Minute // each asks the mesh again in it
			time.Sleep(idle)         // the measured time
			used := cpuOf(b, listener.Process.Pid) - before
			resident := residentOf(b, listener.Process.Pid)
			noError(b, listener.Process.Signal(syscall.SIGTERM))
			noError(b, listener.Wait())
			if agents == 1 {
				one = resident
			} else {
				b.ReportMetric(float64(resident-one)/float64(agents-1), "KiB/agent")
			}
			b.ReportMetric(float64(resident)/1024, "MiB")
			b.ReportMetric(100*used.Seconds()/idle.Seconds(), "%core")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// BenchmarkCronThousand measures the empty polls of a thousand agents that cron starts in
// the same minute, each as cron starts it: the share of a core, in percent, that they use
// when this happens each minute. The processor time is that of the polls alone; a shell in
// between is cron's.
//
//	go test -bench CronThousand -benchtime 1x -run '^$' ./commands
func BenchmarkCronThousand(b *testing.B) {
	const agents = 1000
	program, dir := installProgram(b), agentsOnMesh(b, agents, serveMesh(b))
	round := func() (used time.Duration) {
		var running []*exec.Cmd
		for i := range agents {
			poll := exec.Command(program, "poll", "--quiet", "--config", filepath.Join(dir, fmt.Sprintf("a%d.toml", i)))
			noError(b, poll.Start())
			if running = append(running, poll); len(running) == 8 { // the machine's cores are busy, as with cron
				noError(b, running[0].Wait())
				used += running[0].ProcessState.UserTime() + running[0].ProcessState.SystemTime()
				running = running[1:]
			}
		}
		for _, poll := range running {
			noError(b, poll.Wait())
			used += poll.ProcessState.UserTime() + poll.ProcessState.SystemTime()
		}
		return used
	}
	round() // registers
	for b.Loop() {
		used := round()
		b.ReportMetric(100*used.Seconds()/60, "%core")
		b.ReportMetric(used.Seconds()*1000/agents, "cpu-ms/poll")
	}
}

// cpuOf returns the processor time that a process has used.
func cpuOf(b *testing.B, pid int) time.Duration {
	b.Helper()
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	noError(b, err)
	fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+2:]))
	user, err := strconv.Atoi(fields[11])
	noError(b, err)
	system, err := strconv.Atoi(fields[12])
	noError(b, err)
	return time.Duration(user+system) * 10 * time.Millisecond // Linux counts hundredths of a second
}

// residentOf returns the resident memory of a process, in KiB.
func residentOf(b *testing.B, pid int) int {
	b.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	noError(b, err)
	_, rest, _ := strings.Cut(string(status), "VmRSS:")
	kib, err := strconv.Atoi(strings.Fields(rest)[0])
	noError(b, err)
	return kib
}
