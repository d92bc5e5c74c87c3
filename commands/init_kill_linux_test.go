package commands

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"golang.org/x/term"

	"agentstateloop/internal/testkit/crontest"
	"agentstateloop/internal/testkit/mailtest"
)

// TestInitKilledAtEachWrite ends init at its system calls that change files: by KILL, after
// which the same init must succeed, and by INT, after which either all files or no files exist.
func TestInitKilledAtEachWrite(t *testing.T) {
	t.Parallel()
	if out, err := exec.Command("strace", "-f", "-qq", "-o", os.DevNull, "true").CombinedOutput(); err != nil {
		if os.Getenv(requireReal) != "" {
			t.Fatalf("strace does not work: %v: %s", err, out)
		}
		t.Skipf("strace does not work here: %v: %s", err, out)
	}
	program := buildProgram(t, t.TempDir())
	ended := map[string]int{}
	for signal, calls := range map[string]map[string]int{
		"KILL": {"mkdirat": 4, "flock": 2, "fsync": 6, "linkat": 2, "unlinkat": 2},
		"INT":  {"fsync": 6, "linkat": 2},
	} {
		for call, times := range calls {
			step := 1
			if signal == "KILL" {
				step = part(1, 2) // there are only a few cases of INT
			}
			for n := 0; n < times; n += step {
				dir := t.TempDir()
				if _, _, err := crontest.Write(dir); err != nil {
					t.Fatal(err)
				}
				at := fmt.Sprintf("%s at %s %d", signal, call, n+1)
				args := initArguments(dir)
				trace := filepath.Join(t.TempDir(), "trace")
				traced := append([]string{"-f", "-qq", "-o", trace, "-e", "trace=" + call,
					"-e", fmt.Sprintf("inject=%s:signal=SIG%s:when=%d", call, signal, n+1), "--", program}, args...)
				cmd := exec.Command("strace", traced...)
				cmd.Stdin = strings.NewReader("hunter2-and-more\n")
				if output, err := cmd.CombinedOutput(); err != nil {
					ended[signal]++
				} else if len(output) == 0 {
					t.Errorf("%s: init prints nothing", at)
				}
				effective := signal
				if n := strings.Count(readFile(t, trace), "--- SIGINT "); n > 1 {
					effective = "KILL" // strace counts the calls of each thread; the second INT ends init at once
				} else if n == 1 {
					ended["one INT"]++
				}
				wantAllOrNothing(t, dir, at, effective)
				again := exec.Command(program, args...)
				again.Stdin = strings.NewReader("hunter2-and-more\n")
				if output, err := again.CombinedOutput(); err != nil {
					t.Errorf("%s: the next init: %v: %s", at, err, output)
				}
				wantAllOrNothing(t, dir, at+", again", signal)
				if _, err := os.Stat(filepath.Join(dir, "conf/agent.toml")); err != nil {
					t.Errorf("%s: the next init made no configuration: %v", at, err)
				}
				if left, _ := filepath.Glob(filepath.Join(dir, "*/.init-*")); len(left) > 0 {
					t.Errorf("%s: left over: %q", at, left)
				}
			}
		}
	}
	if ended["one INT"] < 1 {
		t.Error("each INT arrived twice, so init could not clean up")
	}
	for _, signal := range []string{"KILL", "INT"} {
		if ended[signal] < 5 {
			t.Errorf("%s ended init only %d times: the test proves nothing", signal, ended[signal])
		}
	}
}

// initArguments are the arguments of an init that writes two files and two folders in dir.
func initArguments(dir string) []string {
	return []string{"init", "--config", filepath.Join(dir, "conf/agent.toml"), "--no-network", "--preset", "gmail",
		"--handle", "goulard3120", "--operator", "operator@example.com", "--address", "goulard3120@gmail.com", "--password-stdin",
		"--command", "/bin/cat", "--workdir", filepath.Join(dir, "agents/work"), "--state-dir", filepath.Join(dir, "state"),
		"--crontab", filepath.Join(dir, "crontab")}
}

// wantAllOrNothing checks that all files of a configuration exist with it, and that init leaves no
// files without a configuration if a signal let it clean up.
func wantAllOrNothing(t *testing.T, dir, at, signal string) {
	t.Helper()
	password, err := os.ReadFile(filepath.Join(dir, "conf/goulard3120.password"))
	if err == nil && string(password) != "hunter2-and-more\n" {
		t.Errorf("%s: the password is torn: %q", at, password)
	}
	work, workErr := os.Stat(filepath.Join(dir, "agents/work"))
	text, confErr := os.ReadFile(filepath.Join(dir, "conf/agent.toml"))
	switch {
	case confErr == nil && (err != nil || workErr != nil || !work.IsDir()):
		t.Errorf("%s: a configuration without its password (%v) or its folder (%v)", at, err, workErr)
	case confErr == nil && !bytes.HasSuffix(text, []byte("\n")):
		t.Errorf("%s: the configuration is torn", at)
	case confErr != nil && signal == "INT":
		if left := filesLeftByInit(t, dir); len(left) > 0 {
			t.Errorf("%s: it left %q", at, left)
		}
	}
}

// filesLeftByInit returns the files in dir besides the crontab program of the test.
func filesLeftByInit(t *testing.T, dir string) []string {
	t.Helper()
	var left []string
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if name := d.Name(); path != dir && name != "crontab" && name != "crontab.table" {
			left = append(left, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return left
}

// TestCtrlCAtInit presses Ctrl-C at a terminal where a person has started the program:
// at a question, while the terminal does not echo, while init tries a server, and at the
// question that follows. Init leaves no file, and the terminal has its first state again.
func TestCtrlCAtInit(t *testing.T) {
	t.Parallel()
	program := buildProgram(t, t.TempDir())
	hangs, _ := startSilentServer(t)
	closed := mailtest.StartNobody(t)
	for name, c := range map[string]struct {
		flags   []string
		answers []string // to the questions before
		at      string   // the end of the screen when Ctrl-C is pressed
		hidden  bool
	}{
		"the first question": {nil, nil, "the one you write from: ", false},
		"a later question":   {nil, []string{"the one you write from: ", "operator@example.com", "own email address: ", "a@gmail.com"}, "call it @NAME) [a]: ", false},
		"the password":       {[]string{"--operator", "operator@example.com", "--address", "a@gmail.com", "--handle", "a"}, nil, "(not shown; leave empty to add it later): ", true},
		"a trial":            {[]string{"--operator", "operator@example.com", "--address", "a@example.org", "--handle", "a", "--imap-host", hangs}, nil, "trying " + hangs + " …", false},
		"after a trial":      {[]string{"--operator", "operator@example.com", "--address", "a@example.org", "--handle", "a", "--imap-host", closed}, nil, "use it anyway? [y/N]: ", false},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if _, _, err := crontest.Write(dir); err != nil {
				t.Fatal(err)
			}
			person, tty := openTerminal(t)
			cmd := exec.Command(program, append([]string{"init", "--config", filepath.Join(dir, "conf/agent.toml"), "--runner", "none",
				"--state-dir", filepath.Join(dir, "state"), "--crontab", filepath.Join(dir, "crontab")}, c.flags...)...)
			cmd.Stdin, cmd.Stdout, cmd.Stderr = tty, tty, tty
			cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
			before, err := term.GetState(int(tty.Fd()))
			if err == nil {
				err = cmd.Start()
			}
			if err != nil {
				t.Fatal(err)
			}
			screen := bufio.NewReader(person)
			waitFor := func(text string) {
				t.Helper()
				// The screen has an end when all processes have closed the terminal.
				printed, err := readUntil(screen, text, func() { cmd.Process.Kill(); tty.Close() })
				if err != nil {
					t.Fatalf("%v; the terminal shows\n%s", err, printed)
				}
			}
			for pair := range slices.Chunk(c.answers, 2) {
				waitFor(pair[0])
				io.WriteString(person, pair[1]+"\n")
			}
			waitFor(c.at)
			if c.hidden {
				waitForEcho(t, tty, false)
			}
			began := time.Now()
			io.WriteString(person, "\x03")
			go io.Copy(io.Discard, screen)
			stop := time.AfterFunc(dialogueTimeout, func() { cmd.Process.Kill() })
			defer stop.Stop()
			err = cmd.Wait()
			if exit, ok := errors.AsType[*exec.ExitError](err); !ok || exit.ExitCode() != exitError || time.Since(began) > 5*time.Second {
				t.Errorf("init ended with %v after %v", err, time.Since(began))
			}
			waitForEcho(t, tty, true)
			if after, err := term.GetState(int(tty.Fd())); err != nil || *after != *before {
				t.Errorf("the terminal is in state %+v, %v; want %+v", after, err, before)
			}
			if left := filesLeftByInit(t, dir); len(left) > 0 {
				t.Errorf("it left %q", left)
			}
		})
	}
}

// waitForEcho waits until the terminal echoes the keyboard, or does not.
func waitForEcho(t *testing.T, tty *os.File, echoes bool) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) { // a terminal does not report such a change
		attributes, err := unix.IoctlGetTermios(int(tty.Fd()), unix.TCGETS)
		if err != nil {
			t.Fatal(err)
		}
		if (attributes.Lflag&unix.ECHO != 0) == echoes {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("the terminal echoes: %v", !echoes)
		}
	}
}
