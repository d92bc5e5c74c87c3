package commands

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"agentstateloop/commands/terminal"
	"agentstateloop/internal/account"
	"agentstateloop/internal/osfile"
	"agentstateloop/internal/testkit/crontest"
)

// userHome is the home directory of a user with agents, a crontab, and the built program.
type userHome struct {
	t            *testing.T
	dir, program string
	user         *syscall.Credential // nil: who runs the test
}

func newUserHome(t *testing.T) *userHome {
	t.Helper()
	dir := tempDir(t)
	if _, _, err := crontest.Write(dir); err != nil {
		t.Fatal(err)
	}
	writeScript(t, filepath.Join(dir, "systemctl"), "exit 0")
	return &userHome{t: t, dir: dir, program: buildProgram(t, dir)}
}

func (h *userHome) path(elements ...string) string {
	return filepath.Join(append([]string{h.dir}, elements...)...)
}

// command returns a command of the program with the home directory and its crontab.
func (h *userHome) command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, h.program, args...)
	cmd.Env = append(os.Environ(), "TEST_HOME="+h.dir, "HOME="+h.dir, "XDG_CONFIG_HOME=", "PATH="+h.dir+":"+os.Getenv("PATH"))
	cmd.Dir = h.dir
	cmd.WaitDelay = 10 * time.Second
	if h.user != nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: h.user}
	}
	return cmd
}

// run runs a command that must exit 0.
func (h *userHome) run(args ...string) string {
	h.t.Helper()
	out, err := h.command(h.t.Context(), args...).CombinedOutput()
	if err != nil {
		h.t.Fatalf("%v: %v\n%s", args, err, out)
	}
	return string(out)
}

// init sets up an agent whose turns run a script.
func (h *userHome) init(handle, script string) {
	h.t.Helper()
	writeScript(h.t, h.path(handle+".sh"), script)
	h.run("init", "--no-network", "--preset", "none", "--handle", handle, "--command", h.path(handle+".sh"),
		"--config", h.path(".config", name, handle+".toml"))
}

// TestKilledPurge kills `uninstall --purge` at random moments and repeats it by the handle. In the
// end everything of the agent is gone, and the other agent is untouched all the time.
func TestKilledPurge(t *testing.T) {
	t.Parallel()
	h := newUserHome(t)
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	chance := rand.New(rand.NewPCG(seed, 0))
	h.init("other3120", "echo done")
	h.run("@other3120", "poll")
	kills, left := 0, map[string]bool{}
	for range part(15, 3) {
		h.init("goulard3120", "echo done")
		config, err := os.OpenFile(h.path(".config", name, "goulard3120.toml"), os.O_APPEND|os.O_WRONLY, 0)
		if err == nil {
			_, err = config.WriteString("[mesh]\nurl = \"http://127.0.0.1:1\"\ntoken_file = \"goulard3120.token\"\n")
		}
		if err := errors.Join(err, config.Close()); err != nil {
			t.Fatal(err)
		}
		for i := range 100 {
			writeFile(t, h.path(".local/state", name, "goulard3120/turns", fmt.Sprint("t", i), "1/output/file"), "x")
			writeFile(t, h.path("agents/goulard3120", fmt.Sprint("d", i), "file"), "x")
		}
		writeFile(t, h.path(".config", name, "goulard3120.token"), "x")
		before := contents(t, h.path(".config", name, "other3120.toml")) + contents(t, h.path(".local/state", name, "other3120"))
		for try := 1; ; try++ { // with more and more time, because a busy machine may need it
			ctx, cancel := context.WithTimeout(t.Context(), time.Duration(5+chance.IntN(40+20*try))*time.Millisecond)
			cmd := h.command(ctx, "uninstall", "@goulard3120", "--purge", "--yes")
			out, err := cmd.CombinedOutput()
			killed := ctx.Err() != nil
			cancel()
			if err == nil {
				break
			}
			if !killed {
				// It was killed after its last step.
				if !bytes.Contains(out, []byte("agent not found: @goulard3120")) {
					t.Fatalf("purge: %v\n%s", err, out)
				}
				break
			}
			kills++
			for _, path := range []string{".local/state/" + name + "/goulard3120", ".config/" + name + "/goulard3120.toml", "agents/goulard3120"} {
				if _, err := os.Lstat(h.path(path)); err == nil {
					left[path] = true
				}
			}
		}
		for _, path := range []string{
			".local/state/" + name + "/goulard3120", ".config/" + name + "/goulard3120.toml", ".config/" + name + "/goulard3120.token", "agents/goulard3120",
		} {
			if _, err := os.Lstat(h.path(path)); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("%s stays: %v", path, err)
			}
		}
		if table := readFile(t, h.path("crontab.table")); strings.Contains(table, "goulard3120") || !strings.Contains(table, "# agentstateloop other3120\n") {
			t.Errorf("the crontab has\n%s", table)
		}
		if after := contents(t, h.path(".config", name, "other3120.toml")) + contents(t, h.path(".local/state", name, "other3120")); after != before {
			t.Errorf("the other agent has\n%s\nbefore\n%s", after, before)
		}
	}
	if kills == 0 || len(left) == 0 {
		t.Errorf("%d kills, which left %v", kills, left)
	}
}

// TestPurgeStopsAgent removes an agent while a turn runs, a listener serves it with a pipe, and a
// poll lingers for another one: all of them end, and nothing comes back.
func TestPurgeStopsAgent(t *testing.T) {
	t.Parallel()
	h := newUserHome(t)
	h.init("goulard3120", "echo started >"+h.path("started")+"; sleep 1000")
	pipe := h.path("pipe")
	listener := h.command(t.Context(), "--config", h.path(".config", name, "goulard3120.toml"), "listen", "--pipe", pipe)
	startServer(t, listener)
	h.run("@goulard3120", "tell", "--no-wait", "work")
	waitForFile(t, h.path("started"))
	h.run("@goulard3120", "tell", "--no-wait", "more work") // its turn must not begin

	h.init("other3120", "echo done")
	lingers := h.command(t.Context(), "@other3120", "poll", "--linger", "300s")
	if err := lingers.Start(); err != nil {
		t.Fatal(err)
	}
	waitForFile(t, h.path(".local/state", name, "other3120/linger.lock"))

	h.run("uninstall", "@goulard3120", "--purge", "--yes")
	h.run("uninstall", "@other3120", "--purge", "--yes")
	for who, cmd := range map[string]*exec.Cmd{"the listener": listener, "the poll": lingers} {
		if err := cmd.Wait(); err != nil {
			t.Errorf("%s ends with %v", who, err)
		}
	}
	installedAgent{h.dir, h.program}.waitForProcesses()
	for _, path := range []string{pipe, h.path(".local/state", name), h.path(".config", name), h.path("agents")} {
		if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s stays: %v", path, err)
		}
	}
}

// waitForFile waits until a file exists.
func waitForFile(t *testing.T, path string) {
	t.Helper()
	for end := time.Now().Add(time.Minute); ; <-time.After(5 * time.Millisecond) {
		if _, err := os.Stat(path); err == nil {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%s did not appear", path)
		}
	}
}

// TestKilledListenerPipe kills a listener, whose pipe stays. The next one takes it over, and removes
// it at SIGTERM or SIGINT. Without another listener `uninstall --purge` removes it.
func TestKilledListenerPipe(t *testing.T) {
	t.Parallel()
	h := newUserHome(t)
	h.init("goulard3120", "echo done")
	pipe := h.path("pipe")
	listen := func() *exec.Cmd {
		cmd := h.command(t.Context(), "@goulard3120", "listen", "--pipe", pipe)
		startServer(t, cmd)
		return cmd
	}
	end := func(cmd *exec.Cmd, sig syscall.Signal) {
		t.Helper()
		if err := cmd.Process.Signal(sig); err != nil {
			t.Fatal(err)
		}
		if err := cmd.Wait(); err != nil && sig != syscall.SIGKILL {
			t.Errorf("%v: %v", sig, err)
		}
	}
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT} {
		end(listen(), syscall.SIGKILL)
		if _, err := os.Lstat(pipe); err != nil {
			t.Errorf("after a kill: %v", err)
		}
		end(listen(), sig)
		if _, err := os.Lstat(pipe); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("the pipe stays after %v: %v", sig, err)
		}
	}
	end(listen(), syscall.SIGKILL)
	if out := h.run("uninstall", "@goulard3120"); !strings.Contains(out, pipe) {
		t.Errorf("uninstall does not name the pipe:\n%s", out)
	}
	h.run("uninstall", "@goulard3120", "--purge", "--yes")
	if _, err := os.Lstat(pipe); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the pipe stays after a purge: %v", err)
	}
}

// TestPurgeAsks checks the question at a terminal: an answer other than yes removes nothing.
func TestPurgeAsks(t *testing.T) {
	for answer, removed := range map[string]bool{"n": false, "": false, "y": true} {
		dir := t.TempDir()
		config := writeFile(t, filepath.Join(dir, "goulard3120.toml"), smallConfig+"[schedule]\nmode = \"none\"\n")
		person, tty := openTerminal(t)
		var printed bytes.Buffer
		p := testProgram()
		p.stdin, p.out = tty, terminal.Output{Stdout: &printed, Stderr: io.Discard}
		p.loader.Environ = []string{"PATH=/none"}
		p.loader.Account = func() (account.Account, error) { return account.Account{Home: dir, Known: true}, nil }
		if _, err := io.WriteString(person, answer+"\n"); err != nil {
			t.Fatal(err)
		}
		code := p.run(t.Context(), []string{name, "--config", config, "uninstall", "--purge"})
		if want := map[bool]int{true: exitDone, false: exitError}[removed]; code != want || !strings.Contains(printed.String(), config) {
			t.Errorf("the answer %q: exit %d, want %d\n%s", answer, code, want, &printed)
		}
		if _, err := os.Lstat(config); (err == nil) == removed {
			t.Errorf("the answer %q: the configuration: %v", answer, err)
		}
	}
}

// TestStateIsRemovable runs turns as an ordinary user: an ended one that made its output read-only, a
// compaction, and one whose poll was killed. Then a plain rm -rf removes the state directory.
func TestStateIsRemovable(t *testing.T) {
	t.Parallel()
	base, err := os.MkdirTemp("", name+"-removable-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { osfile.RemoveAll(base) })
	h := &userHome{t: t, dir: base, program: buildProgram(t, base)}
	work := h.path("work")
	writeScript(t, h.path("reply.sh"), `cat >`+work+`/prompt
mkdir -p "$AGENTSTATELOOP_OUTPUT/a/b"; echo x >"$AGENTSTATELOOP_OUTPUT/a/b/file"
chmod 500 "$AGENTSTATELOOP_OUTPUT/a/b" "$AGENTSTATELOOP_OUTPUT/a"
if grep -q "die now" `+work+`/prompt && [ ! -e `+work+`/died ]; then touch `+work+`/died; sleep 1000; fi
echo done`)
	config := writeFile(t, h.path("agent.toml"), "[agent]\nhandle = \"goulard3120\"\nstate_dir = \"work/state\"\n[turn]\ncommand = [\"./reply.sh\"]\nsummary = [\"/bin/cat\"]\n"+noSchedule)
	if err := os.Mkdir(work, 0o700); err != nil {
		t.Fatal(err)
	}
	if os.Getuid() == 0 {
		h.user = &syscall.Credential{Uid: anotherUser, Gid: anotherUser}
		for path, mode := range map[string]os.FileMode{base: 0o755, config: 0o644, h.path("reply.sh"): 0o755, h.program: 0o755} {
			if err := os.Chmod(path, mode); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.Chown(work, anotherUser, anotherUser); err != nil {
			t.Fatal(err)
		}
	}
	h.run("--config", config, "tell", "hello")
	h.run("--config", config, "tell", "--no-wait", "die now")
	waitForFile(t, h.path("work/died"))
	for _, pid := range (installedAgent{h.dir, h.program}).processes() { // the poll in the background
		_ = syscall.Kill(pid, syscall.SIGKILL) // it may have ended
	}
	h.run("--config", config, "poll")
	h.run("--config", config, "compact")
	if modes := readOnlyFolders(t, h.path("work/state")); len(modes) > 0 {
		t.Errorf("these folders are not 0700: %v", modes)
	}
	installedAgent{h.dir, h.program}.waitForProcesses()
	rm := exec.Command("rm", "-rf", h.path("work/state"))
	rm.SysProcAttr = &syscall.SysProcAttr{Credential: h.user}
	if out, err := rm.CombinedOutput(); err != nil {
		t.Errorf("rm -rf: %v\n%s", err, out)
	}
}

// readOnlyFolders returns the folders below a path that are not 0700.
func readOnlyFolders(t *testing.T, path string) (all []string) {
	t.Helper()
	attempts := 0
	err := filepath.WalkDir(path, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return err
		}
		if filepath.Base(path) == "context" {
			attempts++
		}
		if unix.Access(path, unix.W_OK) != nil {
			all = append(all, path)
		}
		if info, err := d.Info(); err == nil && info.Mode().Perm() != 0o700 {
			all = append(all, path)
		}
		return nil
	})
	if err != nil || attempts < 4 {
		t.Fatalf("%d context folders: %v", attempts, err)
	}
	return all
}
