package fleettrial_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"agentstateloop/internal/boot"
	"agentstateloop/internal/testkit"
	"agentstateloop/internal/testkit/crontest"
	"agentstateloop/state"
	"agentstateloop/state/store"
)

// host is a host of one agent: a directory with a configuration, a state, a crontab and a home. All
// its processes know the directory by their environment.
type host struct {
	t      testing.TB
	handle string
	name   string // in the fleet
	dir    string
	wire   *wire // between it and the servers

	mu      sync.Mutex
	stop    func()   // ends cron; nil while cron does not run
	trace   []string // the command line before a poll's, to trace it
	polls   sync.WaitGroup
	running atomic.Int32 // polls
}

// script is an agent. It notes each tenth of a second that it lives: host, process, time since the
// boot, message. Then it answers.
const script = `#!/bin/sh
text=$(sed -n 's/^order \([a-z0-9.]*\)$/\1/p' "$AGENTSTATELOOP_CONTEXT/text.txt")
n=0
while [ $n -lt %d ]; do
	read -r up _ </proc/uptime
	echo "%s $$ $up $text" >>%s
	sleep 0.1
	n=$((n + 1))
done
echo "done $text by %[2]s $$"
`

// newHost makes the directory of a host. life is the file in which the agents of all hosts note
// that they live, and tenths is how long they work.
func newHost(t testing.TB, dir, handle, name, mesh, life string, tenths int) *host {
	t.Helper()
	h := &host{t: t, handle: handle, name: name, dir: dir}
	if err := os.MkdirAll(h.dir, 0o700); err != nil {
		t.Fatal(err)
	}
	command, _, err := crontest.Write(dir)
	if err != nil {
		t.Fatal(err)
	}
	h.setScript(life, tenths)
	config := fmt.Sprintf("[agent]\nhandle = %q\nstate_dir = \"state\"\n[turn]\ncommand = [\"./agent.sh\"]\ntimeout = \"3m\"\nmax_attempts = 20\n"+
		"[schedule]\nmode = \"crontab\"\ncrontab = %q\n%s[fleet]\nhost = %q\nlease = %q\n", handle, command, mesh, name, lease)
	if err := os.WriteFile(filepath.Join(dir, "agent.toml"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		h.kill()
		if log, _ := os.ReadFile(filepath.Join(dir, "cron.log")); t.Failed() {
			t.Logf("%s of %s knows %+v, and cron there printed:\n%s", name, handle, h.seat(), log[max(0, len(log)-2000):])
		}
	})
	return h
}

// command returns a command of the program on the host.
func (h *host) command(args ...string) *exec.Cmd {
	h.mu.Lock()
	words := append(append([]string{}, h.trace...), program, "--config", filepath.Join(h.dir, "agent.toml"))
	h.mu.Unlock()
	words = append(words, args...)
	cmd := exec.Command(words[0], words[1:]...)
	cmd.Dir, cmd.Env = h.dir, h.env()
	return cmd
}

func (h *host) env() []string {
	return []string{"HOME=" + h.dir, "TMPDIR=" + h.dir, "PATH=" + os.Getenv("PATH"), "LOGNAME=" + h.name}
}

// setScript sets the agent of the host: how long it works, and where it notes that it lives.
func (h *host) setScript(life string, tenths int) {
	h.t.Helper()
	if err := testkit.WriteProgram(filepath.Join(h.dir, "agent.sh"), fmt.Sprintf(script, tenths, h.name, life)); err != nil {
		h.t.Fatal(err)
	}
}

// setTrace sets the words before the command line of each poll.
func (h *host) setTrace(words ...string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.trace = words
}

// run runs a command of the program, and returns what it prints.
func (h *host) run(args ...string) string {
	h.t.Helper()
	out, err := h.command(args...).CombinedOutput()
	if err != nil {
		h.t.Fatalf("%s on %s: %v\n%s", args, h.name, err, out)
	}
	return string(out)
}

// store returns the state directory.
func (h *host) store() *store.Store {
	return &store.Store{Dir: filepath.Join(h.dir, "state"), Agent: h.handle}
}

// cron begins to run the lines of the crontab.
func (h *host) cron() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.stop != nil {
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	h.stop = func() { cancel(); <-ended }
	go func() {
		defer close(ended)
		for tick := time.NewTicker(pollEvery); ; {
			h.runTable()
			select {
			case <-tick.C:
			case <-ctx.Done():
				return
			}
		}
	}()
}

// maxPolls is how many polls of a host run at the same time, so that a machine that is too busy for
// all hosts does not get busier and busier. cron itself has no such limit.
const maxPolls = 8

// runTable starts the commands of the crontab, whatever their times are.
func (h *host) runTable() {
	if h.running.Load() >= maxPolls {
		return
	}
	table, err := os.ReadFile(filepath.Join(h.dir, "crontab.table"))
	if err != nil {
		h.t.Errorf("crontab of %s: %v", h.name, err)
		return
	}
	for line := range strings.Lines(string(table)) {
		fields := strings.SplitN(strings.TrimSpace(line), " ", 6)
		if len(fields) < 6 || strings.HasPrefix(line, "#") || strings.HasSuffix(strings.TrimSpace(line), " alarm") {
			continue
		}
		h.mu.Lock()
		// cron of a host looks each minute at the earliest: these looks are always due.
		line := strings.Replace(fields[5], " --if-due", "", 1)
		command := strings.Join(append(append([]string{}, h.trace...), line), " ")
		h.mu.Unlock()
		log, err := os.OpenFile(filepath.Join(h.dir, "cron.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		if err != nil {
			h.t.Error(err)
			return
		}
		cmd := exec.Command("/bin/sh", "-c", command)
		cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = h.dir, h.env(), log, log
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		if err := cmd.Start(); err != nil {
			h.t.Error(err)
		} else {
			h.running.Add(1)
			h.polls.Go(func() {
				_ = cmd.Wait() // its exit code is of no interest
				h.running.Add(-1)
			})
		}
		log.Close()
	}
}

// stopCron ends cron alone.
func (h *host) stopCron() {
	h.mu.Lock()
	stop := h.stop
	h.stop = nil
	h.mu.Unlock()
	if stop != nil {
		stop()
	}
}

// kill ends the host: cron and all processes.
func (h *host) kill() {
	h.stopCron()
	h.signalAll(syscall.SIGKILL, func(string) bool { return true })
	h.polls.Wait()
}

// signalAll sends a signal to all processes of the host, until the signal has reached them all.
// which chooses by the command line.
func (h *host) signalAll(signal syscall.Signal, which func(cmdline string) bool) {
	for reached := map[int]bool{}; ; {
		more := false
		for _, p := range h.processes() {
			if which(p.cmdline) && (!reached[p.pid] || signal == syscall.SIGKILL) {
				_ = syscall.Kill(p.pid, signal) // it may have ended
				reached[p.pid], more = true, true
			}
		}
		if !more {
			return
		}
	}
}

// process is a process of a host.
type process struct {
	pid     int
	cmdline string
}

// processes returns the processes of the host that have not ended.
func (h *host) processes() (found []process) {
	names, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, name := range names {
		env, err := os.ReadFile(name)
		if err != nil || !bytes.Contains(env, []byte(h.dir+"\x00")) && !bytes.Contains(env, []byte(h.dir+"/")) {
			continue
		}
		cmdline, err := os.ReadFile(filepath.Join(filepath.Dir(name), "cmdline"))
		pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(name)))
		if err == nil && len(cmdline) > 0 && pid > 1 && pid != os.Getpid() {
			found = append(found, process{pid, string(bytes.ReplaceAll(cmdline, []byte{0}, []byte{' '}))})
		}
	}
	return found
}

// runner returns the process that runs the agent, 0 without one: the parent of the agent.
func (h *host) runner() int {
	for _, p := range h.processes() {
		if !strings.Contains(p.cmdline, "agent.sh") {
			continue
		}
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.pid))
		if err != nil {
			continue
		}
		var state string
		var parent int
		_, after, _ := strings.Cut(string(stat), ") ")
		if n, _ := fmt.Sscan(after, &state, &parent); n == 2 && parent > 1 {
			return parent
		}
	}
	return 0
}

// seatRecord is the part of fleet.json that the trial looks at.
type seatRecord struct {
	Holds bool          `json:"holds"`
	End   time.Duration `json:"end"`
	Head  struct {
		Term uint64 `json:"term"`
		Host string `json:"host"`
	} `json:"head"`
	Revision uint64 `json:"revision"`
}

// seat returns what the host knows about the seat.
func (h *host) seat() (s seatRecord) {
	h.t.Helper()
	data, err := os.ReadFile(filepath.Join(h.dir, "state", "fleet.json"))
	if err == nil {
		err = json.Unmarshal(data, &s)
	}
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		h.t.Errorf("fleet.json of %s: %v", h.name, err)
	}
	return s
}

// state returns the state in the directory.
func (h *host) state() state.State {
	h.t.Helper()
	s, err := h.store().Read()
	if err != nil {
		h.t.Errorf("state of %s: %v", h.name, err)
	}
	return s
}

// now returns the time since the machine started.
func now(t testing.TB) time.Duration {
	t.Helper()
	n, err := boot.Now()
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// sign is one line of an agent.
type sign struct {
	host  string
	pid   int
	at    time.Duration // since the boot
	order string
}

// signs reads the file in which agents note that they live.
func signs(t testing.TB, life string) (all []sign) {
	t.Helper()
	data, err := os.ReadFile(life)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(data)) {
		var s sign
		var up float64
		if n, _ := fmt.Sscan(line, &s.host, &s.pid, &up, &s.order); n != 4 {
			continue // a line that a kill has cut
		}
		s.at = time.Duration(up * float64(time.Second))
		all = append(all, s)
	}
	return all
}

// until waits until done. It fails the test after the patience.
func until(t testing.TB, patience time.Duration, what string, done func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !done(); time.Sleep(20 * time.Millisecond) { // between looks
		if time.Now().After(end) {
			t.Fatalf("not within %v: %s", patience, what)
		}
	}
}
