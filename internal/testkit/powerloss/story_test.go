package powerloss

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"agentstateloop/internal/testkit/mailtest"
)

// scenario is a story and the promises that hold after each crash in it.
type scenario struct {
	name   string
	shards int            // how many tests at a time try its crashes; 0 is one
	set    func(s *story) // what is there before it begins
	tell   func(s *story) // what happens, under strace
	hold   func(c *crash) // starts the program after a crash and checks
}

// story is one run of a scenario. Its folder holds
//
//	disk/           what is recorded, and loses power; disk/home is the user's home
//	agent.toml      the configuration, unless the scenario has it on the disk
//	agentstateloop  a copy of the program, so that its processes can be found
type story struct {
	*testing.T
	dir, root, program string
	world              *world
	tokens             *mailtest.Tokens // nil: no OAuth2

	traces int
	calls  []call
}

// path returns the path of a file on the disk.
func (s *story) path(name string) string { return filepath.Join(s.root, name) }

// config returns the path of the configuration.
func (s *story) config() string { return filepath.Join(s.dir, "agent.toml") }

// args returns the command line of the program with its configuration.
func (s *story) args(args ...string) []string {
	return append([]string{s.program, "--config", s.config()}, args...)
}

// run runs a command under strace until it and every process that it started have
// ended. It must exit 0.
func (s *story) run(args ...string) {
	s.Helper()
	s.trace("", s.args(args...)...)
}

// killed is run for a command that something kills.
func (s *story) killed(args ...string) {
	s.Helper()
	cmd, read := s.start(s.args(args...)...)
	if out, err := cmd.CombinedOutput(); err == nil {
		s.Fatalf("%s: nothing killed it: %s", args, out)
	}
	read()
}

// trace is run for any command line, with standard input.
func (s *story) trace(stdin string, args ...string) {
	s.Helper()
	cmd, read := s.start(args...)
	cmd.Stdin = strings.NewReader(stdin)
	out, err := cmd.CombinedOutput()
	read()
	if err != nil {
		s.Fatalf("%s: %v\n%s", args, err, out)
	}
	s.world.note(event{kind: ended, text: strings.Join(args[1:], " ")})
}

// start returns a command under strace, and the function that reads its trace.
func (s *story) start(args ...string) (cmd *exec.Cmd, read func()) {
	s.traces++
	file := filepath.Join(s.dir, fmt.Sprintf("trace%d", s.traces))
	cmd = s.command(straced(file, args...)...)
	return cmd, func() {
		s.Helper()
		calls, err := readTrace(file)
		if err != nil {
			s.Fatal(err)
		}
		s.calls = append(s.calls, calls...)
		os.Remove(file)
	}
}

// command returns a command for which the user's home is on the disk: the program
// takes it from passwd.
func (s *story) command(args ...string) *exec.Cmd {
	cmd := exec.Command("bwrap", append([]string{"--dev-bind", "/", "/", "--ro-bind", filepath.Join(s.dir, "passwd"), "/etc/passwd", "--"}, args...)...)
	cmd.Env, cmd.Dir = []string{"PATH=/usr/local/bin:/usr/bin:/bin", "CLIENT_SECRET=client-canary-0123"}, s.dir
	return cmd
}

// crash is the program after one power loss.
type crash struct {
	*story
	point  int
	loss   loss
	past   []event // what had happened in the world
	before tree    // what every process had seen
	after  tree    // what the power loss left
}

func (c *crash) String() string {
	last := ""
	if len(c.past) > 0 {
		e := c.past[len(c.past)-1]
		last = fmt.Sprintf(", after %s %.60q", e.kind, e.text)
	}
	return fmt.Sprintf("point %d%s, %s", c.point, last, c.loss)
}

// Errorf reports a broken promise.
func (c *crash) Errorf(format string, args ...any) {
	c.Helper()
	if !c.Failed() {
		c.Logf("the history after it:\n%s", tail(c.read(stateDir+"/history-"+time.Now().UTC().Format("2006-01")+".jsonl"), 1500))
	}
	c.story.Errorf("%s: %s", c, fmt.Sprintf(format, args...))
}

// attempt runs a command until it and every other process of the program has ended.
func (c *crash) attempt(args ...string) (out string, code int) {
	cmd := c.command(c.args(args...)...)
	cmd.WaitDelay = time.Second // a process that it left may hold the output open
	data, err := cmd.CombinedOutput()
	c.settle()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		return err.Error(), -1
	}
	return string(data), cmd.ProcessState.ExitCode()
}

// run is attempt for a command that must exit 0.
func (c *crash) run(args ...string) string {
	c.Helper()
	out, code := c.attempt(args...)
	if code != 0 {
		c.Errorf("%s: exit %d: %s\n%s", args, code, out, tail(c.read(stateDir+"/log"), 2000))
	}
	return out
}

// tail returns the last n bytes of a text.
func tail(text string, n int) string { return text[max(0, len(text)-n):] }

// settle waits until no process runs the program.
func (s *story) settle() {
	for {
		running := s.processes()
		if len(running) == 0 {
			return
		}
		<-time.After(2 * time.Millisecond)
	}
}

// processes returns the ids of the processes that run the program.
func (s *story) processes() (pids []int) {
	entries, _ := os.ReadDir("/proc")
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		if exe, err := os.Readlink("/proc/" + e.Name() + "/exe"); err == nil && exe == s.program {
			pids = append(pids, pid)
		}
	}
	return pids
}

// terminate sends TERM to each process that runs the program.
func (s *story) terminate() {
	for _, pid := range s.processes() {
		syscall.Kill(pid, syscall.SIGTERM)
	}
}

// had returns the texts of what had happened of a kind when the power went.
func (c *crash) had(k kind) []string { return texts(c.past, k) }

// has returns those of what has happened by now.
func (c *crash) has(k kind) []string { return texts(c.world.happened(), k) }

func texts(events []event, k kind) (all []string) {
	for _, e := range events {
		if e.kind == k {
			all = append(all, e.text)
		}
	}
	return all
}

// had returns whether a command that contains text had succeeded.
func (c *crash) hadEnded(text string) bool {
	return slices.ContainsFunc(c.had(ended), func(e string) bool { return strings.Contains(e, text) })
}

// read returns what the disk holds under a name, or "".
func (c *crash) read(name string) string {
	data, _ := os.ReadFile(c.path(name))
	return string(data)
}

// contents returns what the files that match a pattern hold, one after the other.
func (c *crash) contents(pattern string) (all string) {
	for _, name := range c.files(pattern) {
		all += c.read(name) + "\n"
	}
	return all
}

// files returns the names below the disk's folder that match a pattern.
func (c *crash) files(pattern string) []string {
	names, err := fs.Glob(os.DirFS(c.root), pattern)
	if err != nil {
		c.Fatal(err)
	}
	return names
}

// wantPrivate checks that nobody else can read the files that match a pattern.
func (c *crash) wantPrivate(pattern string) {
	for _, name := range c.files(pattern) {
		if info, err := os.Lstat(c.path(name)); err == nil && info.Mode().Perm()&0o077 != 0 {
			c.Errorf("%s has mode %o", name, info.Mode().Perm())
		}
	}
}

// moment is what happened next in the story: a system call, or an event in the world.
type moment struct {
	at    int64
	call  *call
	event *event
}

// play plays a moment on the disk.
func (s *story) play(d *disk, m moment) {
	if m.call == nil {
		return
	}
	if err := d.play(*m.call); err != nil {
		s.Fatal(err)
	}
}

// moments returns all of them, in order.
func (s *story) moments() []moment {
	var all []moment
	for i := range s.calls {
		all = append(all, moment{at: s.calls[i].end, call: &s.calls[i]})
	}
	events := s.world.happened()
	for i := range events {
		all = append(all, moment{at: events[i].at, event: &events[i]})
	}
	slices.SortStableFunc(all, func(a, b moment) int { return int(a.at - b.at) })
	return all
}
