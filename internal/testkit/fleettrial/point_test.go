package fleettrial_test

import (
	"bufio"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"agentstateloop/internal/testkit/fleettest"
)

// point is a moment in which a host dies.
type point struct {
	kind string // of kindOf, with "before" or "after"; a system call; "agent" or "rest"
	nth  int    // of its kind, since the order was delivered
}

func (p point) String() string { return fmt.Sprintf("%s %d", p.kind, p.nth) }

// The points that are no step of the program.
const (
	agentWorks = "while the agent works"
	atRest     = "between two polls"
)

func needStrace(t *testing.T) {
	t.Helper()
	out, err := exec.Command("strace", "-f", "--seccomp-bpf", "-qq", "-o", os.DevNull, "true").CombinedOutput()
	if err != nil {
		t.Fatalf("strace does not work: %v: %s", err, out)
	}
}

// traced are the system calls that make a change durable, or start a program.
const traced = "fsync,fdatasync,rename,renameat,renameat2,link,linkat,execve"

// watcher sees the steps of a host from the delivery of an order on: frames, and system calls.
type watcher struct {
	host *host
	step func(p point, pid int) (pass bool) // called for each step, one at a time

	mu        sync.Mutex
	delivered bool
	count     map[string]int
}

// watch has w see the steps of its host. With calls it sees system calls too: each takes a moment
// longer then, so that the host can be killed in it.
func (w *watcher) watch(t testing.TB, calls bool) (end func()) {
	t.Helper()
	w.count = map[string]int{}
	w.host.wire.setTap(w.frame)
	if !calls {
		return func() { w.host.wire.setTap(nil) }
	}
	name := filepath.Join(w.host.dir, "calls")
	if err := syscall.Mkfifo(name, 0o600); err != nil && !os.IsExist(err) {
		t.Fatal(err)
	}
	pipe, err := os.OpenFile(name, os.O_RDWR, 0) // so that no writer waits for a reader
	if err != nil {
		t.Fatal(err)
	}
	w.host.setTrace("strace", "-f", "--seccomp-bpf", "-qq", "-y", "-e", "signal=none", "-e", "trace="+traced,
		"-e", "inject="+strings.ReplaceAll(traced, ",execve", "")+":delay_exit=30000", "-o", name, "--")
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for lines := bufio.NewScanner(pipe); lines.Scan(); {
			w.call(lines.Text())
		}
	}()
	return func() {
		w.host.wire.setTap(nil)
		w.host.setTrace()
		pipe.Close()
		<-ended
	}
}

// frame sees a frame.
func (w *watcher) frame(f fleettest.Frame) bool {
	kind := kindOf(f)
	if kind == "" {
		return true
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.delivered = w.delivered || kind == "delivery"
	return w.next(kind, 0)
}

var callLine = regexp.MustCompile(`^(\d+) +(\w+)\((.*)$`)

// call sees a line of strace.
func (w *watcher) call(line string) {
	m := callLine.FindStringSubmatch(line)
	if m == nil || !strings.Contains(traced, m[2]) || strings.Contains(line, "ENOENT") {
		return
	}
	pid, _ := strconv.Atoi(m[1])
	kind := m[2]
	if kind != "execve" {
		kind = strings.TrimRight(kind, "2") + " of " + fileOf(m[3])
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.next(kind, pid)
}

var fileName = regexp.MustCompile(`[<"]([^>"]*)[>"]`)

// fileOf returns the kind of file that a call names.
func fileOf(args string) string {
	for _, m := range fileName.FindAllStringSubmatch(args, -1) {
		for _, part := range []string{"fleet.json", "state.json", "history-", "turns/", "messages/", "outbox/"} {
			if strings.Contains(m[1], part) {
				return strings.TrimSuffix(part, "-")
			}
		}
	}
	return "another file"
}

func (w *watcher) next(kind string, pid int) bool {
	if !w.delivered {
		return true
	}
	w.count[kind]++
	return w.step(point{kind, w.count[kind]}, pid)
}

// killAt arms a point: when the host comes to it, all its processes die. It sends an order, and
// returns the number of the order and the point, which is another one if the host does not come to
// that one.
func (a *agent) killAt(h *host, p point, random *rand.Rand) (number string, hit point) {
	ctx := a.t.Context()
	reached := make(chan struct{})
	dying := false
	w := &watcher{host: h}
	want, before := strings.CutSuffix(p.kind, ", before")
	w.step = func(at point, pid int) bool {
		if dying {
			return pid > 0 // frames of a dying host disappear
		}
		if at.kind != want || at.nth != p.nth {
			return true
		}
		dying = true
		if pid > 0 {
			_ = syscall.Kill(pid, syscall.SIGKILL) // the rest dies a moment later
		}
		close(reached)
		return !before
	}
	calls := strings.Contains(p.kind, " of ") || p.kind == "execve"
	end := w.watch(a.t, calls)
	defer func() {
		h.kill()
		end()
	}()
	switch p.kind {
	case atRest:
		time.Sleep(time.Duration(random.Int64N(int64(pollEvery)))) // a random moment
		h.kill()
		return a.order(ctx), p
	case agentWorks:
		number = a.order(ctx)
		until(a.t, takeoverMargin, "the agent works on "+number, func() bool { return a.lives(number) })
		time.Sleep(time.Duration(random.IntN(workTenths)) * 100 * time.Millisecond) // a random moment
		return number, p
	}
	if calls {
		time.Sleep(pollEvery + time.Second) // so that no poll without strace takes the order
	}
	number = a.order(ctx)
	select {
	case <-reached:
		return number, p
	case <-time.After(pointPatience):
		return number, point{kind: "after the cycle"}
	}
}

// lives reports whether an agent has begun with an order.
func (a *agent) lives(number string) bool {
	for _, s := range signs(a.t, a.life) {
		if s.order == number {
			return true
		}
	}
	return false
}

// measure returns the steps that a host makes between the delivery of an order and its rest.
func measure(t testing.TB, a *agent) (steps []point) {
	t.Helper()
	h := a.hosts[0]
	w := &watcher{host: h}
	w.step = func(p point, pid int) bool {
		steps = append(steps, p)
		return true
	}
	end := w.watch(t, true)
	h.cron()
	number := a.order(t.Context())
	until(t, 2*takeoverMargin, "the report of "+number, func() bool { return len(a.desk.reports(number)) > 0 })
	time.Sleep(pollEvery) // one more poll
	h.stopCron()
	h.polls.Wait()
	end()
	return steps
}
