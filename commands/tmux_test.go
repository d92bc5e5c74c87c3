package commands

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/urfave/cli/v2"

	"agentstateloop/commands/terminal"
	"agentstateloop/internal/testkit"
	"agentstateloop/internal/testkit/mailtest"
)

// hostileSubjects are what mails of the operator and of strangers say in their subjects.
var hostileSubjects = []string{
	"is the build green?",
	"構築は成功しましたか、それとも失敗しましたか。もう一度確認してください、お願いします",
	"der Bau 🙂🚀🎉 ist grün 🙂🚀🎉 oder auch nicht, wer weiß das schon 🙂🚀🎉 so genau",
	"האם הבנייה ירוקה או אדומה ומה עושים עכשיו עם כל השינויים שנעשו אתמול בערב",
	strings.Repeat("w", 300),
	"a\x1b[2J\x1b]0;owned\x07b\x07c\x08\x08\u202egnp.exe\u2066 \u200b\u2028 end",
}

// tmux is a real terminal: a tmux server of its own.
type tmux struct {
	t       *testing.T
	program string
	dir     string
	agent   string // the folder of the agent whose commands run
	windows int
}

func startTmux(t *testing.T, agent, program string, columns, rows int) *tmux {
	t.Helper()
	w := &tmux{t: t, program: program, dir: tempDir(t), agent: agent}
	t.Cleanup(func() { endTmux(t, w.command) })
	w.run("-f", "/dev/null", "-u", "new-session", "-d", "-x", strconv.Itoa(columns), "-y", strconv.Itoa(rows), "exec sleep 600")
	w.run("set-option", "-g", "history-limit", "20000")
	w.run("set-option", "-g", "status", "off")
	w.run("set-option", "-g", "default-size", fmt.Sprintf("%dx%d", columns, rows))
	return w
}

// command is a command for the server. Its socket lies in a folder of the test.
func (w *tmux) command(args ...string) *exec.Cmd {
	cmd := exec.Command("tmux", append([]string{"-L", "width"}, args...)...)
	cmd.Env = append(os.Environ(), "TMUX=", "TMUX_TMPDIR="+w.dir, "LC_ALL=C.UTF-8", "AGENTSTATELOOP_CONFIG="+filepath.Join(w.agent, "agent.toml"))
	return cmd
}

func (w *tmux) run(args ...string) string {
	w.t.Helper()
	out, err := w.command(args...).CombinedOutput()
	if err != nil {
		w.t.Fatalf("tmux %v: %v\n%s", args, err, out)
	}
	return string(out)
}

// endTmux ends a server of tmux, and with it all that runs on its terminals. A shell that
// is told to end still writes its history, and fish reads manual pages in the background:
// both would do so in a folder that the test removes.
func endTmux(t *testing.T, command func(args ...string) *exec.Cmd) {
	t.Helper()
	leaders, err := command("list-panes", "-a", "-F", "#{pane_pid}").Output()
	if err != nil {
		t.Errorf("tmux list-panes: %v", err)
	}
	if out, err := command("kill-server").CombinedOutput(); err != nil {
		t.Errorf("tmux kill-server: %v: %s", err, out)
	}
	deadline := time.Now().Add(time.Minute)
	for _, leader := range strings.Fields(string(leaders)) {
		for pids := ofSession(leader); len(pids) > 0; pids = ofSession(leader) {
			for _, pid := range pids {
				syscall.Kill(pid, syscall.SIGKILL)
			}
			if time.Now().After(deadline) {
				t.Errorf("processes %v of a terminal of tmux do not end", pids)
				return
			}
			time.Sleep(10 * time.Millisecond) // they are not our children
		}
	}
}

// ofSession returns the processes of a session that still run.
func ofSession(leader string) (pids []int) {
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, file := range stats {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // it has ended since
		}
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:])) // state, parent, group, session
		if err == nil && len(fields) > 3 && fields[0] != "Z" && fields[3] == leader {
			pids = append(pids, pid)
		}
	}
	return pids
}

// theEnd is printed after what a window runs.
const theEnd = "=== the end ==="

// window runs a script in a new window, in which $P is the program, and returns the
// window's name.
func (w *tmux) window(script string) string {
	w.t.Helper()
	w.windows++
	name := fmt.Sprint("w", w.windows)
	file := filepath.Join(w.dir, name+".sh")
	text := fmt.Sprintf("cd %s\nP=%s\n%s\nprintf '\\n%s\\n'\nexec sleep 600\n", quoted(w.agent), quoted(w.program), script, theEnd)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		w.t.Fatal(err)
	}
	w.run("new-window", "-d", "-n", name, "exec sh "+quoted(file))
	return name
}

func quoted(text string) string { return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'" }

// wait waits until a window shows text.
func (w *tmux) wait(window, text string) {
	w.t.Helper()
	deadline := time.Now().Add(time.Minute)
	for !strings.Contains(w.screen(window), text) {
		if time.Now().After(deadline) {
			w.t.Fatalf("no %q in\n%s", text, w.screen(window))
		}
		time.Sleep(50 * time.Millisecond) // tmux does not report what a program writes
	}
}

// screen returns what a window shows, and what has scrolled out of it.
func (w *tmux) screen(window string, more ...string) string {
	w.t.Helper()
	return w.run(append([]string{"capture-pane", "-p", "-S", "-", "-t", window}, more...)...)
}

// broken returns the lines of a window that the terminal has broken, as its program has
// written them. A single word that is longer than a line counts as whole: no place is
// right for it.
func (w *tmux) broken(window string, columns int) (lines []string) {
	w.t.Helper()
	visible := map[string]bool{}
	for _, line := range strings.Split(w.screen(window), "\n") {
		visible[strings.TrimRight(line, " ")] = true
	}
	for _, line := range strings.Split(w.screen(window, "-J"), "\n") {
		line = strings.TrimRight(line, " ")
		word := !strings.Contains(strings.TrimLeft(line, " "), " ")
		if !visible[line] && !(word && terminal.Cells(strings.TrimLeft(line, " ")) > columns) {
			lines = append(lines, line)
		}
	}
	return lines
}

// needPrograms skips a test where a program is not installed.
func needPrograms(t *testing.T, programs ...string) {
	t.Helper()
	for _, program := range programs {
		_, err := exec.LookPath(program)
		if err != nil && os.Getenv(requireReal) != "" {
			t.Fatal(err)
		}
		if err != nil {
			t.Skipf("%s is not installed", program)
		}
	}
}

// newBusyAgent makes an agent with mail in its inbox, in quarantine and in its outbox,
// and with a history. It returns its folder.
func newBusyAgent(t *testing.T, program string) (dir string) {
	t.Helper()
	dir = tempDir(t)
	servers := mailtest.StartMemory(t, mailtest.Options{Username: "goulard@example.org"})
	config := fmt.Sprintf(`[agent]
handle = "goulard3120"
operator = ["operator@example.com"]
state_dir = "state"
[mail]
address = "goulard@example.org"
[mail.imap]
host = %q
ca_file = %q
password_file = "password"
[mail.smtp]
host = "127.0.0.1:1"
password_file = "password"
[turn]
command = ["./agent.sh"]
[budget]
mails_an_hour = 1
[schedule]
mode = "none"
[trust]
authserv_id = "mx.example.org"
fallback = "challenge"
`, servers.IMAPTLS, servers.CAFile)
	for file, text := range map[string]string{"agent.toml": config, "password": servers.Password, "agent.sh": "#!/bin/sh\necho it is green\n"} {
		if err := testkit.WriteProgram(filepath.Join(dir, file), text); err != nil {
			t.Fatal(err)
		}
	}
	run := func(args ...string) {
		out, err := exec.Command(program, append([]string{"--config", filepath.Join(dir, "agent.toml")}, args...)...).CombinedOutput()
		if code := cmdExit(err); code != exitDone && code != exitSource {
			t.Fatalf("%v: %v\n%s", args, err, out)
		}
	}
	run("poll")
	const proof = "Authentication-Results: mx.example.org; dkim=pass header.d=example.com header.s=s1 header.b=c2lnbmVk;\r\n" +
		" dmarc=pass (p=none) header.from=example.com\r\n" +
		"DKIM-Signature: v=1; a=rsa-sha256; c=relaxed/relaxed; d=example.com; s=s1;\r\n" +
		" h=from:to:subject:date:message-id; bh=aGFzaA==; b=c2lnbmVkIGJ5IHRoZW0=\r\n"
	for id, header := range map[string]string{"proved": proof, "forged": ""} {
		for i, subject := range hostileSubjects {
			raw := fmt.Sprintf("%sFrom: The Operator =?utf-8?Q?%s?= <operator@example.com>\r\nTo: goulard@example.org\r\nSubject: @goulard3120 =?utf-8?Q?%s?=\r\nMessage-ID: <%d.%s@example.com>\r\nDate: %s\r\n\r\n%s\r\n",
				header, encodedWord(subject), encodedWord(subject), i, id, time.Now().Format(time.RFC1123Z), subject)
			if _, err := servers.Append([]byte(raw), time.Now()); err != nil {
				t.Fatal(err)
			}
		}
	}
	run("poll")
	run("remind", "5h", "look at the nightly build, and tell me whether "+strings.Repeat("x", 100)+" is green")
	return dir
}

// encodedWord encodes each byte for a header (RFC 2047).
func encodedWord(text string) string {
	var b strings.Builder
	for _, c := range []byte(text) {
		fmt.Fprintf(&b, "=%02X", c)
	}
	return b.String()
}

func cmdExit(err error) int {
	if exit, ok := err.(*exec.ExitError); ok {
		return exit.ExitCode()
	}
	if err != nil {
		return exitError
	}
	return exitDone
}

// helpPages returns a script that prints the help of each command.
func helpPages(t *testing.T) string {
	t.Helper()
	script := "$P --help\n"
	var add func(commands []*cli.Command, path string)
	add = func(commands []*cli.Command, path string) {
		for _, c := range commands {
			if !c.Hidden {
				script += fmt.Sprintf("$P%s %s --help\n", path, c.Name)
				add(c.Subcommands, path+" "+c.Name)
			}
		}
	}
	p := testProgram()
	add(p.app().Commands, "")
	return script
}

// TestOutputFitsTheTerminal runs the real program in a real terminal of several widths.
// The terminal never has to break a line: the program breaks its lines itself, at words.
// Without all that is real the wider ones get every third command.
func TestOutputFitsTheTerminal(t *testing.T) {
	t.Parallel()
	needPrograms(t, "tmux")
	program := buildProgram(t, t.TempDir())
	agent := newBusyAgent(t, program)
	for first, columns := range []int{60, 80, 200} {
		t.Run(fmt.Sprint(columns), func(t *testing.T) {
			w := startTmux(t, agent, program, columns, 40)
			windows := map[string]string{}
			var order []string
			for i, script := range []string{
				"$P status", "$P status --all", "$P inbox list", "$P inbox list --quarantined", "$P outbox list", "$P remind --list",
				"$P history", "$P history --all", "$P history --all -n 0", "$P history --cost", "$P history --search build",
				"$P doctor", "$P doctor --all", "$P doctor --all --no-network", "$P poll --dry-run", "$P inbox show 2",
				"$P statu", "$P status more", "$P --config nowhere.toml status", "$P inbox show nothing", "$P outbox retry reply.t1", "$P remind yesterday hello",
				"$P nudge somebody", "$P tell --no-wait ''", "$P transition SOON",
				helpPages(t),
			} {
				if columns > 60 && (i+first)%part(1, 3) != 0 {
					continue
				}
				order = append(order, script)
				windows[script] = w.window(script)
			}
			for _, script := range order {
				w.wait(windows[script], theEnd)
				what, _, _ := strings.Cut(script, "\n")
				for _, line := range w.broken(windows[script], columns) {
					t.Errorf("%s: the terminal has broken %q", what, line)
				}
				if title := w.run("display-message", "-p", "-t", windows[script], "#{pane_title}"); strings.Contains(title, "owned") {
					t.Errorf("%s: a subject has set the title of the terminal", what)
				}
			}
		})
	}
}

// TestWatchOnTerminal checks that status --watch stays in one place of a real terminal,
// moves with the time and the size, and leaves the terminal as it was.
func TestWatchOnTerminal(t *testing.T) {
	t.Parallel()
	needPrograms(t, "tmux")
	program := buildProgram(t, t.TempDir())
	agent := newBusyAgent(t, program)
	w := startTmux(t, agent, program, 80, 40)
	facts := func(window string) string {
		return strings.TrimSpace(w.run("display-message", "-p", "-t", window, "alternate #{alternate_on} cursor #{cursor_flag} scrolled #{history_size}"))
	}
	watch := w.window("echo before\n$P status --watch & echo $! >watcher\nwait\n")
	w.wait(watch, "@goulard3120 is")
	first := w.screen(watch)
	later := first
	for deadline := time.Now().Add(time.Minute); later == first; later = w.screen(watch) {
		if time.Now().After(deadline) {
			t.Fatalf("the view does not move:\n%s", later)
		}
		time.Sleep(50 * time.Millisecond) // as in wait
	}
	if got := facts(watch); got != "alternate 1 cursor 0 scrolled 0" {
		t.Errorf("while it watches: %s", got)
	}
	seen := map[string]bool{}
	for line := range strings.SplitSeq(later, "\n") {
		if line = strings.TrimSpace(line); line != "" && seen[line] {
			t.Errorf("the line %q is printed twice:\n%s", line, later)
		}
		seen[line] = true
	}
	pid, err := os.ReadFile(filepath.Join(agent, "watcher"))
	if err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("kill", "-TERM", strings.TrimSpace(string(pid))).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	w.wait(watch, theEnd)
	if got := facts(watch); got != "alternate 0 cursor 1 scrolled 0" || !strings.Contains(w.screen(watch), "before") || strings.Contains(w.screen(watch), "inbox ") {
		t.Errorf("after TERM: %s\n%s", got, w.screen(watch))
	}

	interrupted := w.window("trap : INT\n$P status --watch\necho code $?\n")
	w.wait(interrupted, "@goulard3120 is")
	w.run("send-keys", "-t", interrupted, "C-c")
	w.wait(interrupted, theEnd)
	if got := facts(interrupted); got != "alternate 0 cursor 1 scrolled 0" || !strings.Contains(w.screen(interrupted), "code 0") {
		t.Errorf("after Ctrl-C: %s\n%s", got, w.screen(interrupted))
	}

	stopped := w.window("set -m\n$P status --watch\necho stopped\nread line\nfg\n")
	w.wait(stopped, "@goulard3120 is")
	w.run("send-keys", "-t", stopped, "C-z")
	w.wait(stopped, "stopped")
	if got := facts(stopped); got != "alternate 0 cursor 1 scrolled 0" {
		t.Errorf("after Ctrl-Z: %s\n%s", got, w.screen(stopped))
	}
	w.run("send-keys", "-t", stopped, "Enter")
	w.wait(stopped, "inbox ")
	if got := facts(stopped); got != "alternate 1 cursor 0 scrolled 0" {
		t.Errorf("in the foreground again: %s\n%s", got, w.screen(stopped))
	}

	// tmux puts lines of a screen that shrinks into its history, whatever program it shows.
	resized := w.window("$P status --watch\n")
	w.wait(resized, "@goulard3120 is")
	w.run("resize-window", "-t", resized, "-x", "50", "-y", "6")
	w.wait(resized, "lines more")
	small := strings.Split(strings.TrimRight(w.run("capture-pane", "-p", "-t", resized), "\n"), "\n")
	if len(small) != 6 || !strings.HasPrefix(small[0], "@goulard3120 is") || !strings.HasPrefix(small[5], "… ") {
		t.Errorf("on a small screen:\n%s", strings.Join(small, "\n"))
	}
	w.run("resize-window", "-t", resized, "-x", "200", "-y", "40")
	w.wait(resized, "inbox ")
}
