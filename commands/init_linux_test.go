package commands

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"agentstateloop/commands/terminal"
	"agentstateloop/internal/account"
	"agentstateloop/internal/testkit/crontest"
	"agentstateloop/internal/testkit/fleettest"
	"agentstateloop/internal/testkit/mailtest"
)

// openTerminal returns both ends of a pseudo-terminal.
func openTerminal(t *testing.T) (person, program *os.File) {
	t.Helper()
	person, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil && os.Getenv(requireReal) != "" {
		t.Fatal(err)
	}
	if err != nil {
		t.Skip("no pseudo-terminals here: ", err)
	}
	t.Cleanup(func() { person.Close() })
	fd := int(person.Fd())
	if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	number, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	program, err = os.OpenFile("/dev/pts/"+strconv.Itoa(number), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { program.Close() })
	return person, program
}

// dialogueTimeout is how long a program may take until it prints the text that a test waits for.
const dialogueTimeout = 30 * time.Second

var errDialogueTimeout = fmt.Errorf("nothing more came within %v", dialogueTimeout)

// readUntil reads the output of a program up to the end of text. If that does not come in time, it
// calls abort, which must end the reads, and returns the output and an error.
func readUntil(r *bufio.Reader, text string, abort func()) (printed string, err error) {
	watchdog := time.AfterFunc(dialogueTimeout, abort)
	defer watchdog.Stop()
	var all strings.Builder
	for !strings.HasSuffix(all.String(), text) {
		b, err := r.ReadByte()
		if err != nil {
			return all.String(), fmt.Errorf("the program did not print %q: %w", text, err)
		}
		all.WriteByte(b)
	}
	return all.String(), nil
}

// initDialogue is an init that runs in this process, at a pseudo-terminal.
type initDialogue struct {
	t          *testing.T
	dir        string
	person     *os.File      // the person's end: the keyboard and the screen
	tty        *os.File      // the end of init
	output     *bufio.Reader // standard error of init
	abort      func()        // ends the reads of output
	printed    bytes.Buffer  // standard output of init; to be read when it is done
	transcript bytes.Buffer  // questions and answers so far
	done       chan int      // the exit code
}

// startInit starts init with flags. The folder bin in dir is in its PATH. If dir has no
// configuration, init uses a crontab of the test.
func startInit(t *testing.T, dir string, flags ...string) *initDialogue {
	t.Helper()
	return startInitAs(t, dir, "/usr/bin/"+name, flags...)
}

// startInitAs is startInit for a program whose path is self.
func startInitAs(t *testing.T, dir, self string, flags ...string) *initDialogue {
	t.Helper()
	if _, err := os.Stat(filepath.Join(dir, "agent.toml")); err != nil {
		crontab, _, err := crontest.Write(dir)
		if err != nil {
			t.Fatal(err)
		}
		flags = append(slices.Clone(flags), "--crontab", crontab)
	}
	return startInitIn(t, dir, self, filepath.Join(dir, "bin")+":/usr/bin:/bin", flags...)
}

// startInitIn is startInitAs with this PATH and these flags alone.
func startInitIn(t *testing.T, dir, self, path string, flags ...string) *initDialogue {
	t.Helper()
	d := &initDialogue{t: t, dir: dir, done: make(chan int, 1)}
	d.person, d.tty = openTerminal(t)
	args := append([]string{name, "init", "--config", d.config()}, flags...)
	read, write := io.Pipe()
	d.output, d.abort = bufio.NewReader(read), func() { write.CloseWithError(errDialogueTimeout) }
	p := testProgram()
	p.stdin, p.out, p.proc = d.tty, terminal.Output{Stdout: &d.printed, Stderr: write}, "/proc"
	p.loader.Environ = []string{"PATH=" + path}
	p.loader.Account = func() (account.Account, error) { return account.Account{Home: dir, Known: true}, nil }
	p.loader.Executable = func() (string, error) { return self, nil }
	go func() {
		d.done <- p.run(t.Context(), args)
		write.Close()
	}()
	return d
}

func (d *initDialogue) config() string { return filepath.Join(d.dir, "agent.toml") }

// waitFor waits until init has printed all of these texts, one after another.
func (d *initDialogue) waitFor(texts ...string) {
	d.t.Helper()
	for _, text := range texts {
		printed, err := readUntil(d.output, text, d.abort)
		d.transcript.WriteString(printed)
		if err != nil {
			d.t.Fatalf("%v; the terminal shows\n%s", err, &d.transcript)
		}
	}
}

// answer waits for a question that ends so, and types the answer.
func (d *initDialogue) answer(question, text string) {
	d.t.Helper()
	d.waitFor(question + ": ")
	if strings.Contains(question, "not shown") {
		waitForEcho(d.t, d.tty, false)
	}
	if _, err := io.WriteString(d.person, text+"\n"); err != nil {
		d.t.Fatal(err)
	}
	d.transcript.WriteString("\n") // which the terminal shows
}

// waitForExit waits until init ends with this exit code, and returns its output since the last
// answer. No line of the dialogue may repeat its words.
func (d *initDialogue) waitForExit(code int) string {
	d.t.Helper()
	watchdog := time.AfterFunc(dialogueTimeout, d.abort)
	defer watchdog.Stop()
	rest, err := io.ReadAll(d.output)
	d.transcript.Write(rest)
	if err != nil {
		d.t.Fatalf("init does not end: %v; the terminal shows\n%s", err, &d.transcript)
	}
	if got := <-d.done; got != code {
		d.t.Fatalf("init exits %d, want %d: %s\n%s", got, code, &d.transcript, &d.printed)
	}
	for line := range strings.Lines(d.transcript.String()) {
		if words := mailtest.Repeated(line); words != "" {
			d.t.Errorf("%q is repeated in %q", words, line)
		}
	}
	return string(rest)
}

// TestInitHidesPassword checks that the terminal does not show the password while
// it is typed, and that only the password file has it.
func TestInitHidesPassword(t *testing.T) {
	d := startInit(t, t.TempDir(), "--preset", "gmail", "--runner", "none", "--no-network")
	d.answer("the one you write from", "operator@example.com")
	d.answer("the agent's own email address", "goulard3120@gmail.com")
	d.answer("[goulard3120]", "")
	d.answer(passwordNote, "hunter2-and-more")
	d.waitForExit(exitDone)
	shown := make([]byte, 4096)
	n, err := d.person.Read(shown)
	if err != nil || bytes.Contains(shown[:n], []byte("hunter2")) || !bytes.Contains(shown[:n], []byte("operator@example.com")) {
		t.Errorf("the terminal shows %q, %v", shown[:n], err)
	}
	if got := readFile(t, filepath.Join(d.dir, "goulard3120.password")); got != "hunter2-and-more\n" {
		t.Errorf("the file has %q", got)
	}
	if strings.Contains(readFile(t, d.config()), "hunter2") {
		t.Error("the password is in agent.toml")
	}
}

// TestInitOffersSandbox checks that init asks about the sandbox on a machine that has them, and
// that an empty line takes it if the program works in it.
func TestInitOffersSandbox(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	needSandbox(t, self)
	printed := []string{"--print", "--no-network", "--preset", "none", "--schedule", "none", "--handle", "goulard3120"}
	const works = "[ \"$1\" = --version ] && echo 2.1.0 && echo x >\"$HOME/settings\""
	type exchange struct{ text, question, answer string }
	for name, c := range map[string]struct {
		runner, script string
		dialogue       []exchange
		sandbox        bool
	}{
		"claude":                  {"claude", works, []exchange{{"", "[bwrap]", ""}}, true},
		"gemini":                  {"gemini", works, []exchange{{"", "[bwrap]", ""}}, true},
		"declined":                {"claude", works, []exchange{{"", "[bwrap]", "none"}}, false},
		"another word":            {"claude", works, []exchange{{"", "[bwrap]", "docker"}, {"docker: is not one of", "[bwrap]", "bwrap"}}, true},
		"fails in the sandbox":    {"claude", `cat "${0%/*}/../private" && echo 2.1.0`, []exchange{{"", "[none]", ""}}, false},
		"program missing":         {"claude", "", []exchange{{"claude is not in the agent's PATH", useAnyway, "y"}, {"", "[none]", ""}}, false},
		"its own sandbox":         {"codex", works, []exchange{{"", "[none]", ""}}, false},
		"despite its own sandbox": {"codex", works, []exchange{{"", "[none]", "bwrap"}}, true},
		"exec is not run":         {"exec", `echo "$0 was run" >"${0%/*}/../ran"`, []exchange{{"", "[bwrap]", ""}}, true},
		"api":                     {"api", "", nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			writeFiles(t, dir, map[string]string{"private": "hunter2\n", "bin/other": ""})
			program := filepath.Join(dir, "bin", c.runner)
			if c.script != "" {
				writeScript(t, program, c.script)
			}
			flags := append(slices.Clone(printed), "--runner", c.runner)
			switch c.runner {
			case "exec":
				flags = append(flags, "--command", program)
			case "api":
				flags = append(flags, "--api-provider", "openai", "--api-model", "m", "--api-base-url", "http://127.0.0.1:1/v1")
			}
			d := startInitAs(t, dir, self, flags...)
			for _, e := range c.dialogue {
				d.waitFor(e.text)
				d.answer(e.question, e.answer)
			}
			d.wantSandbox(c.sandbox)
			if _, err := os.Stat(filepath.Join(dir, "ran")); err == nil {
				t.Error("a program of the operator's own was run")
			}
		})
	}

	// On a machine without sandboxes, init does not ask.
	dir := t.TempDir()
	broken := filepath.Join(dir, "self")
	writeScript(t, broken, "exit 1")
	startInitAs(t, dir, broken, append(printed, "--command", "/bin/cat")...).wantSandbox(false)
}

// TestInitOffersTimer checks that init offers a timer on a machine with systemd and without cron.
func TestInitOffersTimer(t *testing.T) {
	flags := []string{"--print", "--no-network", "--preset", "none", "--handle", "goulard3120", "--runner", "none"}
	const question = "no crontab program; let a systemd timer poll the agent? [y/N]"
	for _, c := range []struct {
		programs []string
		flags    []string
		answer   string // "": init does not ask
		mode     string
	}{
		{[]string{"systemctl"}, nil, "y", "systemd"},
		{[]string{"systemctl"}, nil, "n", ""},
		{[]string{"systemctl", "crontab"}, nil, "", ""},
		{nil, nil, "", ""},
		{[]string{"systemctl"}, []string{"--schedule", "none"}, "", "none"},
		{[]string{"crontab"}, []string{"--timer"}, "", "systemd"},
	} {
		dir := t.TempDir()
		bin := filepath.Join(dir, "bin")
		for _, program := range c.programs {
			writeScript(t, filepath.Join(bin, program), "exit 1")
		}
		d := startInitIn(t, dir, "/usr/bin/"+name, bin, append(slices.Clone(flags), c.flags...)...)
		if c.answer != "" {
			d.answer(question, c.answer)
		}
		if rest := d.waitForExit(exitDone); strings.Contains(rest, question) {
			t.Errorf("%v: init asks %q", c.programs, rest)
		}
		mode := ""
		if _, rest, ok := strings.Cut(d.printed.String(), "[schedule]\nmode = \""); ok {
			mode, _, _ = strings.Cut(rest, "\"")
		}
		if mode != c.mode {
			t.Errorf("%v %v %q: mode %q, want %q\n%s", c.programs, c.flags, c.answer, mode, c.mode, &d.printed)
		}
	}
}

// wantSandbox checks that init has no more questions, and whether it prints a sandbox.
func (d *initDialogue) wantSandbox(want bool) {
	d.t.Helper()
	if rest := strings.TrimSpace(d.waitForExit(exitDone)); rest != "" {
		d.t.Errorf("init asks %q", rest)
	}
	if got := strings.Contains(d.printed.String(), "\nsandbox = \"bwrap\""); got != want {
		d.t.Errorf("want a sandbox: %v, in\n%s", want, &d.printed)
	}
}

// TestInitTestsNATSMesh checks that init asks again for the URL and the key of a mesh over NATS
// until the servers accept them.
func TestInitTestsNATSMesh(t *testing.T) {
	t.Parallel()
	engine := fleettest.Start(t, "agent")
	dir, closed := t.TempDir(), mailtest.StartNobody(t)
	key := func(name, seed string) string { return writeFile(t, filepath.Join(dir, name), seed+"\n") }
	wrong, right := fleettest.NewKey(t), engine.Users["agent"]
	const question = "the file for the agent's mesh key (created if it is missing)"
	d := startInit(t, dir, "--preset", "none", "--runner", "none", "--handle", "agent", "--mesh-url", "nats://"+closed)
	d.answer(question+" ["+filepath.Join(dir, "agent.nk")+"]", key("bad", "my-password"))
	d.waitFor("not the seed of a user's nkey", "hint: ")
	d.answer(useAnyway, "")
	d.answer(question+" ["+filepath.Join(dir, "bad")+"]", key("wrong", wrong.Seed))
	d.waitFor("trying nats://"+closed, "connection refused", "hint: check that nats-server is running and that the url is correct")
	d.answer(useAnyway, "")
	d.answer("the URL of the mesh [nats://"+closed+"]", "nats://n1.example.com")
	d.waitFor("would send messages unencrypted")
	d.answer(useAnyway, "")
	d.answer("the URL of the mesh [nats://n1.example.com]", engine.URL())
	d.waitFor("trying "+engine.URL(), "key refused", "hint: the servers must know this agent's key: pass agent="+wrong.Public+" to `agentstateloop fleet plan`")
	d.answer(useAnyway, "")
	d.answer(question+" ["+filepath.Join(dir, "wrong")+"]", key("right", right.Seed))
	d.waitFor("trying " + engine.URL() + " …\n")
	d.waitForExit(exitDone)
	if text := readFile(t, d.config()); !strings.Contains(text, `key_file = "~/right"`) || !strings.Contains(text, engine.URL()) {
		t.Errorf("the key and the url are not in\n%s", text)
	}
	if text := d.transcript.String() + d.printed.String(); strings.Contains(text, right.Seed) || strings.Contains(text, "my-password") || !strings.Contains(text, "\n  agent="+right.Public+"\n") {
		t.Errorf("it said\n%s", text)
	}
}

// TestInitCreatesKey checks that init writes a new key with the configuration, without trying it.
func TestInitCreatesKey(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	d := startInit(t, dir, "--preset", "none", "--runner", "none", "--handle", "agent", "--mesh-url", "nats://"+mailtest.StartNobody(t))
	d.answer("["+filepath.Join(dir, "agent.nk")+"]", "")
	if text := d.waitForExit(exitDone); strings.Contains(text, "trying nats") {
		t.Errorf("it said %s", text)
	}
	seed := strings.TrimSpace(readFile(t, filepath.Join(dir, "agent.nk")))
	if text := d.transcript.String() + d.printed.String(); !strings.HasPrefix(seed, "SU") || strings.Contains(text, seed) {
		t.Errorf("the key is %q, and it said\n%s", seed, text)
	}
}
