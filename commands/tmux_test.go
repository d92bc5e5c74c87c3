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
	"agentstateloop/internal/testkit/mailtest"
)

// hostileSubjects are subjects of mails of the operator and of strangers.
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
	socket  string
	env     []string
	windows int
}

// startTmux starts a server with windows of this size, whose programs have this environment.
func startTmux(t *testing.T, columns, rows int, env []string) *tmux {
	t.Helper()
	w := &tmux{t: t, socket: filepath.Join(t.TempDir(), "tmux"), env: env}
	t.Cleanup(w.end)
	w.run("-f", os.DevNull, "-u", "new-session", "-d", "-x", strconv.Itoa(columns), "-y", strconv.Itoa(rows), "exec sleep 600")
	w.run("set-option", "-g", "history-limit", "20000")
	w.run("set-option", "-g", "status", "off")
	w.run("set-option", "-g", "default-size", fmt.Sprintf("%dx%d", columns, rows))
	return w
}

// command returns a command for the server.
func (w *tmux) command(args ...string) *exec.Cmd {
	cmd := exec.Command("tmux", append([]string{"-S", w.socket}, args...)...)
	cmd.Env = w.env
	return cmd
}

func (w *tmux) run(args ...string) string {
	w.t.Helper()
	out, err := w.command(args...).CombinedOutput()
	if err != nil {
		w.t.Fatalf("tmux %q: %v\n%s", args, err, out)
	}
	return string(out)
}

// end ends the server and all processes on its terminals. At its end, a shell still writes its
// history, and fish reads manual pages in the background: both would do so in a folder that the test
// removes.
func (w *tmux) end() {
	leaders, err := w.command("list-panes", "-a", "-F", "#{pane_pid}").Output()
	if err != nil {
		w.t.Errorf("tmux list-panes: %v", err)
	}
	if out, err := w.command("kill-server").CombinedOutput(); err != nil {
		w.t.Errorf("tmux kill-server: %v: %s", err, out)
	}
	deadline := time.Now().Add(time.Minute)
	for _, leader := range strings.Fields(string(leaders)) {
		for pids := sessionProcesses(leader); len(pids) > 0; pids = sessionProcesses(leader) {
			for _, pid := range pids {
				syscall.Kill(pid, syscall.SIGKILL)
			}
			if time.Now().After(deadline) {
				w.t.Errorf("processes %v of a terminal of tmux do not end", pids)
				return
			}
			time.Sleep(10 * time.Millisecond) // they are not our children
		}
	}
}

// sessionProcesses returns the processes of a session that still run.
func sessionProcesses(leader string) (pids []int) {
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

// window runs a command in a new window, and returns the window's name.
func (w *tmux) window(command string) string {
	w.t.Helper()
	w.windows++
	name := fmt.Sprint("w", w.windows)
	w.run("new-window", "-d", "-n", name, "exec "+command)
	return name
}

// keys types text in a window, and presses the keys of these names.
func (w *tmux) keys(window, text string, keys ...string) {
	w.t.Helper()
	if text != "" {
		w.run("send-keys", "-t", window, "-l", text)
	}
	if len(keys) > 0 {
		w.run(append([]string{"send-keys", "-t", window}, keys...)...)
	}
}

// wait waits until a window shows text.
func (w *tmux) wait(window, text string) {
	w.t.Helper()
	deadline := time.Now().Add(time.Minute)
	for !strings.Contains(w.screen(window), text) {
		if time.Now().After(deadline) {
			w.t.Fatalf("no %q in\n%s", text, w.screen(window))
		}
		time.Sleep(50 * time.Millisecond) // tmux does not report the output of a program
	}
}

// screen returns the text of a window, with the lines that have scrolled out of it.
func (w *tmux) screen(window string, more ...string) string {
	w.t.Helper()
	return w.run(append([]string{"capture-pane", "-p", "-S", "-", "-t", window}, more...)...)
}

// brokenLines returns the lines of a window that the terminal has broken, as the program has
// written them. A single word that is longer than a line may be broken.
func (w *tmux) brokenLines(window string, columns int) (lines []string) {
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

// needPrograms skips a test if a program is not installed.
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

// busyAgent is an agent with mail in its inbox, in quarantine and in its outbox, and with a
// history, whose commands run in windows of a terminal.
type busyAgent struct{ installedAgent }

func newBusyAgent(t *testing.T) busyAgent {
	t.Helper()
	dir := tempDir(t)
	a := busyAgent{installedAgent{dir, buildProgram(t, t.TempDir())}}
	servers := mailtest.StartMemory(t, mailtest.Options{Username: "goulard@example.org"})
	config := fmt.Sprintf(agentSection+`[mail]
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
	writeFiles(t, dir, map[string]string{"agent.toml": config, "password": servers.Password})
	writeScript(t, filepath.Join(dir, "agent.sh"), "echo it is green")
	run := func(args ...string) {
		if out, code, _ := a.run(t.Context(), args...); code != exitDone && code != exitSource {
			t.Fatalf("%v: exit %d\n%s", args, code, out)
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
	return a
}

// startTmux starts a terminal for commands of the agent.
func (a busyAgent) startTmux(t *testing.T, columns, rows int) *tmux {
	t.Helper()
	return startTmux(t, columns, rows, append(os.Environ(), "TMUX=", "LC_ALL=C.UTF-8", "AGENTSTATELOOP_CONFIG="+filepath.Join(a.dir, "agent.toml")))
}

// endMark is printed after the script of a window.
const endMark = "=== the end ==="

// window runs a script in a new window, in which $P is the program, and returns the
// window's name.
func (a busyAgent) window(w *tmux, script string) string {
	w.t.Helper()
	text := fmt.Sprintf("cd '%s'\nP='%s'\n%s\nprintf '\\n%s\\n'\nexec sleep 600", a.dir, a.program, script, endMark)
	file := filepath.Join(w.t.TempDir(), "script.sh")
	writeScript(w.t, file, text)
	return w.window("'" + file + "'")
}

// encodedWord encodes each byte for a header (RFC 2047).
func encodedWord(text string) string {
	var b strings.Builder
	for _, c := range []byte(text) {
		fmt.Fprintf(&b, "=%02X", c)
	}
	return b.String()
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

// TestOutputFitsTheTerminal runs the real program in a real terminal of several widths. The
// terminal never has to break a line: the program breaks its lines itself, at words. Unless the
// real servers are required, the wider ones get every third command.
func TestOutputFitsTheTerminal(t *testing.T) {
	t.Parallel()
	needPrograms(t, "tmux")
	agent := newBusyAgent(t)
	for first, columns := range []int{60, 80, 200} {
		t.Run(fmt.Sprint(columns), func(t *testing.T) {
			w := agent.startTmux(t, columns, 40)
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
				windows[script] = agent.window(w, script)
			}
			for _, script := range order {
				w.wait(windows[script], endMark)
				command, _, _ := strings.Cut(script, "\n")
				for _, line := range w.brokenLines(windows[script], columns) {
					t.Errorf("%s: the terminal has broken %q", command, line)
				}
				if title := w.run("display-message", "-p", "-t", windows[script], "#{pane_title}"); strings.Contains(title, "owned") {
					t.Errorf("%s: a subject has set the title of the terminal", command)
				}
			}
		})
	}
}

// TestWatchOnTerminal checks that status --watch stays on one screen of a real terminal,
// changes with the time and the size, and restores the terminal at its end.
func TestWatchOnTerminal(t *testing.T) {
	t.Parallel()
	needPrograms(t, "tmux")
	agent := newBusyAgent(t)
	w := agent.startTmux(t, 80, 40)
	facts := func(window string) string {
		return strings.TrimSpace(w.run("display-message", "-p", "-t", window, "alternate #{alternate_on} cursor #{cursor_flag} scrolled #{history_size}"))
	}
	watch := agent.window(w, "echo before\n$P status --watch & echo $! >watcher\nwait\n")
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
	pid, err := os.ReadFile(filepath.Join(agent.dir, "watcher"))
	if err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("kill", "-TERM", strings.TrimSpace(string(pid))).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	w.wait(watch, endMark)
	if got := facts(watch); got != "alternate 0 cursor 1 scrolled 0" || !strings.Contains(w.screen(watch), "before") || strings.Contains(w.screen(watch), "inbox ") {
		t.Errorf("after TERM: %s\n%s", got, w.screen(watch))
	}

	interrupted := agent.window(w, "trap : INT\n$P status --watch\necho code $?\n")
	w.wait(interrupted, "@goulard3120 is")
	w.keys(interrupted, "", "C-c")
	w.wait(interrupted, endMark)
	if got := facts(interrupted); got != "alternate 0 cursor 1 scrolled 0" || !strings.Contains(w.screen(interrupted), "code 0") {
		t.Errorf("after Ctrl-C: %s\n%s", got, w.screen(interrupted))
	}

	stopped := agent.window(w, "set -m\n$P status --watch\necho stopped\nread line\nfg\n")
	w.wait(stopped, "@goulard3120 is")
	w.keys(stopped, "", "C-z")
	w.wait(stopped, "stopped")
	if got := facts(stopped); got != "alternate 0 cursor 1 scrolled 0" {
		t.Errorf("after Ctrl-Z: %s\n%s", got, w.screen(stopped))
	}
	w.keys(stopped, "", "Enter")
	w.wait(stopped, "inbox ")
	if got := facts(stopped); got != "alternate 1 cursor 0 scrolled 0" {
		t.Errorf("in the foreground again: %s\n%s", got, w.screen(stopped))
	}

	// tmux moves lines of a smaller screen into its history for every program.
	resized := agent.window(w, "$P status --watch\n")
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
