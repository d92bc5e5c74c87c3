package box_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"agentstateloop/turn/box"
)

// runnerCommand runs a program in a sandbox, in a process that can be killed: WAY FOLDER SCRIPT MARK.
const runnerCommand = "__runner"

func runRunner(args []string) error {
	path, err := os.Executable()
	if err != nil {
		return err
	}
	w, err := ways[args[0]](context.Background(), path)
	if err != nil {
		return err
	}
	b := box.Box{Self: path, Write: []string{args[1]}, Dir: args[1]}
	_, err = runWith(context.Background(), b, w, "sh", "-c", args[2], args[3])
	return err
}

// daemon starts a daemon in its own session, whose parent has ended, and awaits it. Its name is that
// of the shell.
const daemon = `(setsid sh -c 'setsid sh -c "trap : TERM HUP INT; >ready; while :; do sleep 1; done" "$0" </tmp >/tmp/out 2>&1 &' "$0" &); while [ ! -e ready ]; do sleep 0.02; done; `

// countProcesses counts the processes of this machine that have mark in their arguments. The
// first process of a sandbox has it too.
func countProcesses(t *testing.T, mark string) int {
	t.Helper()
	names, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, name := range names {
		if b, err := os.ReadFile(name); err == nil && bytes.Contains(b, []byte(mark)) {
			n++
		}
	}
	return n
}

// await waits until a condition is true.
func await(t *testing.T, name string, isTrue func() bool) {
	t.Helper()
	for range 3000 {
		if isTrue() {
			return
		}
		time.Sleep(10 * time.Millisecond) // the processes are not our children
	}
	t.Fatalf("still waiting: %s", name)
}

// newMark returns a folder for a sandbox, and a mark for the arguments of its processes.
func newMark(t *testing.T) (dir, mark string) {
	t.Helper()
	dir = t.TempDir()
	return dir, "mark" + strings.ReplaceAll(dir, "/", "-")
}

// isReady returns a function that reports whether a program in a sandbox has made its file "ready".
func isReady(dir string) func() bool {
	return func() bool { return exists(filepath.Join(dir, "ready")) == nil }
}

// TestNothingOutlivesRun checks that all processes of a program have ended when Run returns, also
// after its context was canceled.
func TestNothingOutlivesRun(t *testing.T) {
	for name, c := range map[string]struct {
		script string
		cancel bool
		want   string
	}{
		"it ends":               {daemon + "echo done", false, ""},
		"it fails":              {daemon + "exit 3", false, "exit status 3"},
		"it is killed":          {daemon + "kill -9 $$", false, "exit status 137"},
		"it kills all it can":   {daemon + "trap : TERM; kill -TERM -1; exit 4", false, "exit status 4"},
		"it becomes a daemon":   {daemon + "exec setsid -f sleep 600", false, ""},
		"it is canceled":        {daemon + "sleep 600", true, "enough"},
		"it ignores signals":    {"trap '' TERM INT HUP QUIT; " + daemon + "while :; do sleep 1; done", true, "enough"},
		"it stops itself":       {daemon + "kill -STOP $$", true, "enough"},
		"it left our group":     {daemon + "exec setsid sleep 600", true, "enough"},
		"it forks all the time": {daemon + "while :; do (:); done", true, "enough"},
	} {
		t.Run(name, func(t *testing.T) {
			inEachWay(t, func(t *testing.T, w box.Way) {
				dir, mark := newMark(t)
				ctx, cancel := context.WithCancelCause(t.Context())
				defer cancel(nil)
				if c.cancel {
					go func() {
						for !isReady(dir)() {
							time.Sleep(10 * time.Millisecond) // a program in a sandbox can only make files
						}
						cancel(errors.New("enough"))
					}()
				}
				out, err := runWith(ctx, box.Box{Self: self(t), Write: []string{dir}, Dir: dir}, w, "sh", "-c", c.script, mark)
				n := countProcesses(t, mark)
				if got := fmt.Sprint(err); got != c.want && !(err == nil && c.want == "") {
					t.Errorf("it ended with %q, want %q\n%s", got, c.want, out)
				}
				if !isReady(dir)() {
					t.Errorf("the daemon did not run\n%s", out)
				}
				if n != 0 {
					t.Errorf("%d processes are left", n)
				}
			})
		})
	}
}

// TestNothingOutlivesRunner checks that a sandbox ends with the process that made it, after each signal.
func TestNothingOutlivesRunner(t *testing.T) {
	// Under nohup this test starts with HUP ignored, and so would the runner. A signal
	// that is caught here has its default action in a new program.
	caught := make(chan os.Signal, 1)
	signal.Notify(caught, unix.SIGHUP)
	defer signal.Stop(caught)
	for _, sig := range []syscall.Signal{unix.SIGKILL, unix.SIGTERM, unix.SIGHUP} {
		t.Run(sig.String(), func(t *testing.T) {
			inEachWay(t, func(t *testing.T, w box.Way) {
				dir, mark := newMark(t)
				cmd := exec.Command(self(t), runnerCommand, w.String(), dir, daemon+"sleep 600", mark)
				cmd.Stdin = bytes.NewReader(nil)
				if err := cmd.Start(); err != nil {
					t.Fatal(err)
				}
				await(t, "the daemon", isReady(dir))
				if countProcesses(t, mark) == 0 {
					t.Error("no process runs")
				}
				if err := cmd.Process.Signal(sig); err != nil {
					t.Fatal(err)
				}
				_ = cmd.Wait()
				await(t, "the end of the sandbox", func() bool { return countProcesses(t, mark) == 0 })
			})
		})
	}
}

// TestFilesAndSignalsOfArgv checks that a process that becomes a sandbox by Argv keeps its open files
// only in the first process of the sandbox, and that a signal to its group reaches the program.
func TestFilesAndSignalsOfArgv(t *testing.T) {
	w := findWay(t, "bubblewrap")
	dir := t.TempDir()
	lock := filepath.Join(t.TempDir(), "lock")
	f, err := os.Create(lock)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	argv, err := box.Box{Self: self(t), Write: []string{dir}, Dir: dir}.Argv(w, []string{"sh", "-c", "trap 'echo in order; exit 5' TERM; ls /proc/self/fd; cat; >ready; while :; do sleep 0.02; done"})
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Env, cmd.Stdin, cmd.Stdout, cmd.Stderr = []string{"PATH=/usr/bin:/bin"}, strings.NewReader("input\n"), &out, &out
	cmd.ExtraFiles = []*os.File{f}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	f.Close()
	held := func() bool {
		f, err := os.Open(lock)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		return errors.Is(unix.Flock(int(f.Fd()), unix.LOCK_SH|unix.LOCK_NB), unix.EWOULDBLOCK)
	}
	await(t, "the program", isReady(dir))
	if !held() {
		t.Error("the lock is free while the sandbox lives")
	}
	if err := unix.Kill(-cmd.Process.Pid, unix.SIGTERM); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	await(t, "the lock", func() bool { return !held() })
	if got := out.String(); !strings.HasPrefix(got, "0\n1\n2\n3\ninput\n") || !strings.HasSuffix(got, "in order\n") {
		t.Errorf("it printed %q", got)
	}
	if _, err := (box.Box{Self: self(t)}).Argv(box.Way{}, nil); err == nil {
		t.Error("a command line without bubblewrap")
	}
}
