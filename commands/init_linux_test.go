package commands

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"golang.org/x/term"

	"agentstateloop/commands/config"
	"agentstateloop/commands/terminal"
	"agentstateloop/internal/account"
	"agentstateloop/internal/secret"
	"agentstateloop/internal/testkit"
	"agentstateloop/internal/testkit/crontest"
	"agentstateloop/internal/testkit/fleettest"
	"agentstateloop/internal/testkit/mailtest"
	"agentstateloop/turn/box"
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

// initDialogue is an init that runs in this process, at a pseudo-terminal.
type initDialogue struct {
	t          *testing.T
	dir        string
	person     *os.File      // the person's end: the keyboard and the screen
	tty        *os.File      // the end of init
	questions  *bufio.Reader // what init prints to standard error
	printed    bytes.Buffer  // what it prints to standard output; to be read when it is done
	transcript bytes.Buffer  // questions and answers so far
	cancel     context.CancelFunc
	done       chan int // the exit code
}

// startInit starts init with flags. The folder bin in dir is in its PATH.
func startInit(t *testing.T, dir, self string, flags ...string) *initDialogue {
	t.Helper()
	d := &initDialogue{t: t, dir: dir, done: make(chan int, 1)}
	d.person, d.tty = openTerminal(t)
	command, _, err := crontest.Write(d.dir)
	if err != nil {
		t.Fatal(err)
	}
	p := program{
		stdin: d.tty,
		loader: &config.Loader{
			Environ:    []string{"PATH=" + filepath.Join(d.dir, "bin") + ":/usr/bin:/bin"},
			Account:    func() (account.Account, error) { return account.Account{Home: d.dir, Known: true}, nil },
			Executable: func() (string, error) { return self, nil },
			Now:        time.Now,
			Secrets:    new(secret.Known),
		},
		proc: "/proc",
	}
	d.listen(func(ctx context.Context, stderr io.Writer) int {
		p.out = terminal.Output{Stdout: &d.printed, Stderr: stderr}
		return p.run(ctx, append([]string{name, "init", "--config", d.config(), "--no-network", "--crontab", command}, flags...))
	})
	return d
}

// listen runs init in this process, and hears what it prints to standard error.
func (d *initDialogue) listen(run func(ctx context.Context, stderr io.Writer) int) {
	read, write := io.Pipe()
	d.questions = bufio.NewReader(read)
	ctx, cancel := context.WithCancel(d.t.Context())
	d.cancel = cancel
	d.t.Cleanup(cancel)
	go func() {
		d.done <- run(ctx, write)
		write.Close()
	}()
}

func (d *initDialogue) config() string { return filepath.Join(d.dir, "agent.toml") }

// startInitOfMail starts `init --preset gmail --runner none`.
func startInitOfMail(t *testing.T) *initDialogue {
	t.Helper()
	return startInit(t, t.TempDir(), "/usr/bin/"+name, "--preset", "gmail", "--runner", "none")
}

// answer waits for a question that contains this text, with all that is said before it,
// and types the answer.
func (d *initDialogue) answer(question, text string) {
	d.t.Helper()
	var asked strings.Builder
	for !strings.HasSuffix(asked.String(), ": ") || !strings.Contains(asked.String(), question) {
		b, err := d.questions.ReadByte()
		if err != nil {
			d.t.Fatalf("instead of %q: %q, %v", question, asked.String(), err)
		}
		asked.WriteByte(b)
	}
	if _, err := io.WriteString(d.person, text); err != nil {
		d.t.Fatal(err)
	}
}

// waitForEchoOff waits until the terminal does not show what is typed.
func (d *initDialogue) waitForEchoOff() {
	d.t.Helper()
	ctx, cancel := context.WithTimeout(d.t.Context(), 30*time.Second)
	defer cancel()
	for {
		if ctx.Err() != nil {
			d.t.Fatal("the terminal still shows what is typed")
		}
		attributes, err := unix.IoctlGetTermios(int(d.tty.Fd()), unix.TCGETS)
		if err != nil {
			d.t.Fatal(err)
		}
		if attributes.Lflag&unix.ECHO == 0 {
			return
		}
	}
}

// terminalText returns what the terminal has shown of what was typed.
func (d *initDialogue) terminalText() string {
	d.t.Helper()
	if err := d.person.SetReadDeadline(time.Now().Add(time.Second)); err != nil {
		// This device has no deadlines. All of the text is there by now.
		d.t.Log(err)
	}
	var all []byte
	buf := make([]byte, 4096)
	if n, err := d.person.Read(buf); err == nil {
		all = append(all, buf[:n]...)
	}
	return string(all)
}

// answerUntilPassword answers all questions but the last, which asks for the
// password.
func (d *initDialogue) answerUntilPassword() {
	d.answer("your own email address", "operator@example.com\n")
	d.answer("the agent's own email address", "goulard3120@gmail.com\n")
	d.answer("[goulard3120]", "\n")
	d.answer("app password", "")
	d.waitForEchoOff()
}

// TestInitHidesPassword checks that the terminal does not show the password while
// it is typed, and that only the password file has it.
func TestInitHidesPassword(t *testing.T) {
	d := startInitOfMail(t)
	d.answerUntilPassword()
	go io.Copy(io.Discard, d.questions)
	if _, err := io.WriteString(d.person, "hunter2-and-more\n"); err != nil {
		t.Fatal(err)
	}
	if code := <-d.done; code != exitDone {
		t.Fatalf("init exits %d, want 0", code)
	}
	if shown := d.terminalText(); strings.Contains(shown, "hunter2") || !strings.Contains(shown, "operator@example.com") {
		t.Errorf("the terminal shows %q", shown)
	}
	if got := readFile(t, filepath.Join(d.dir, "goulard3120.password")); got != "hunter2-and-more\n" {
		t.Errorf("the file has %q", got)
	}
	if strings.Contains(readFile(t, d.config()), "hunter2") {
		t.Error("the password is in agent.toml")
	}
}

// TestInitInterrupted checks that an interrupted init restores the terminal and
// writes no file.
func TestInitInterrupted(t *testing.T) {
	d := startInitOfMail(t)
	before, err := term.GetState(int(d.tty.Fd()))
	if err != nil {
		t.Fatal(err)
	}
	d.answerUntilPassword()
	go io.Copy(io.Discard, d.questions)
	d.cancel()
	if code := <-d.done; code == exitDone {
		t.Error("an interrupted init exits 0")
	}
	if after, err := term.GetState(int(d.tty.Fd())); err != nil || *after != *before {
		t.Errorf("the terminal is in state %+v, %v; want %+v", after, err, before)
	}
	entries, err := os.ReadDir(d.dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if e.Name() != "crontab" {
			t.Errorf("it left the file %s", e.Name())
		}
	}
}

// TestInitOffersSandbox checks that init asks about the box where one can be made, and
// that an empty line takes it if the program works there.
func TestInitOffersSandbox(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := box.Bubblewrap(t.Context(), self); err != nil {
		if os.Getenv(requireReal) != "" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	const works = "[ \"$1\" = --version ] && echo 2.1.0 && echo x >\"$HOME/settings\""
	type exchange struct{ question, answer string }
	for name, c := range map[string]struct {
		runner, script string
		dialogue       []exchange
		want           string
	}{
		"claude":                  {"claude", works, []exchange{{"[bwrap]", "\n"}}, "bwrap"},
		"gemini":                  {"gemini", works, []exchange{{"[bwrap]", "\n"}}, "bwrap"},
		"declined":                {"claude", works, []exchange{{"[bwrap]", "none\n"}}, ""},
		"another word":            {"claude", works, []exchange{{"[bwrap]", "docker\n"}, {"docker", ""}, {"is not one of", ""}, {"[bwrap]", "bwrap\n"}}, "bwrap"},
		"fails in the sandbox":    {"claude", `cat "${0%/*}/../private" && echo 2.1.0`, []exchange{{"[none]", "\n"}}, ""},
		"program missing":         {"claude", "", []exchange{{"claude is not in the agent's PATH", ""}, {"use it anyway? [y/N]", "y\n"}, {"[none]", "\n"}}, ""},
		"program found":           {"claude", works, []exchange{{"[bwrap]", "\n"}}, "bwrap"},
		"its own sandbox":         {"codex", works, []exchange{{"[none]", "\n"}}, ""},
		"despite its own sandbox": {"codex", works, []exchange{{"[none]", "bwrap\n"}}, "bwrap"},
		"exec is not run":         {"exec", `echo "$0 was run" >"${0%/*}/../ran"`, []exchange{{"[bwrap]", "\n"}}, "bwrap"},
		"api":                     {"api", "", nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if err := os.Mkdir(filepath.Join(dir, "bin"), 0o700); err != nil {
				t.Fatal(err)
			}
			program := filepath.Join(dir, "bin", c.runner)
			for file, text := range map[string]string{program: "#!/bin/sh\n" + c.script + "\n", filepath.Join(dir, "private"): "hunter2\n"} {
				if err := testkit.WriteProgram(file, text); err != nil {
					t.Fatal(err)
				}
			}
			if c.script == "" {
				if err := os.Remove(program); err != nil {
					t.Fatal(err)
				}
			}
			flags := []string{"--print", "--preset", "none", "--schedule", "none", "--handle", "goulard3120", "--runner", c.runner}
			switch c.runner {
			case "exec":
				flags = append(flags, "--command", program)
			case "api":
				flags = append(flags, "--api-provider", "openai", "--api-model", "m", "--api-base-url", "http://127.0.0.1:1/v1")
			}
			d := startInit(t, dir, self, flags...)
			for _, e := range c.dialogue {
				d.answer(e.question, e.answer)
			}
			d.wantSandbox(c.want)
			if _, err := os.Stat(filepath.Join(dir, "ran")); err == nil {
				t.Error("a program of the operator's own was run")
			}
		})
	}

	// Where no box can be made, nothing is asked.
	dir := t.TempDir()
	broken := filepath.Join(dir, "self")
	if err := testkit.WriteProgram(broken, "#!/bin/sh\nexit 1\n"); err != nil {
		t.Fatal(err)
	}
	startInit(t, dir, broken, "--print", "--preset", "none", "--schedule", "none", "--handle", "goulard3120", "--command", "/bin/cat").wantSandbox("")
}

// wantSandbox checks that init asks nothing more, and which sandbox it prints.
func (d *initDialogue) wantSandbox(want string) {
	d.t.Helper()
	asked, _ := io.ReadAll(d.questions)
	if code := <-d.done; code != exitDone || len(asked) > 0 {
		d.t.Fatalf("init exits %d, and asks %q", code, asked)
	}
	if got := strings.Contains(d.printed.String(), "\nsandbox = \"bwrap\""); got != (want == "bwrap") {
		d.t.Errorf("want sandbox %q in\n%s", want, &d.printed)
	}
}

// TestInitTestsNATSMesh asks again for the URL and the key of a mesh over NATS,
// whose servers know another key.
func TestInitTestsNATSMesh(t *testing.T) {
	t.Parallel()
	engine := fleettest.Start(t, "agent")
	dir, closed := t.TempDir(), mailtest.StartNobody(t)
	key := func(name, seed string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(seed+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	wrong, right := fleettest.NewKey(t), engine.Users["agent"]
	const question = "the file for the agent's mesh key (created if it is missing)"
	d := startInitOnline(t, dir, "--preset", "none", "--runner", "none", "--handle", "agent", "--mesh-url", "nats://"+closed)
	d.types(question+" ["+filepath.Join(dir, "agent.nk")+"]", key("bad", "my-password"))
	d.says("not the seed of a user's nkey", "hint: ")
	d.types(keep, "")
	d.types(question+" ["+filepath.Join(dir, "bad")+"]", key("wrong", wrong.Seed))
	d.says("trying nats://"+closed, "connection refused", "hint: is nats-server running, and the url right?")
	d.types(keep, "")
	d.types("the URL of the mesh [nats://"+closed+"]", "nats://n1.example.com")
	d.says("would send messages unencrypted")
	d.types(keep, "")
	d.types("the URL of the mesh [nats://n1.example.com]", engine.URL())
	d.says("trying "+engine.URL(), "key refused", "hint: the servers must know this agent's key: pass agent="+wrong.Public+" to `agentstateloop fleet plan`")
	d.types(keep, "")
	d.types(question+" ["+filepath.Join(dir, "wrong")+"]", key("right", right.Seed))
	d.says("trying " + engine.URL() + " …\n")
	d.ends(exitDone)
	if text := readFile(t, d.config()); !strings.Contains(text, `key_file = "~/right"`) || !strings.Contains(text, engine.URL()) {
		t.Errorf("the key and the url are not in\n%s", text)
	}
	if text := d.transcript.String() + d.printed.String(); strings.Contains(text, right.Seed) || strings.Contains(text, "my-password") || !strings.Contains(text, "\n  agent="+right.Public+"\n") {
		t.Errorf("it said\n%s", text)
	}
}

// TestInitCreatesKey checks that a key that is made at a terminal is not tried, and is
// written with the configuration.
func TestInitCreatesKey(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	d := startInitOnline(t, dir, "--preset", "none", "--runner", "none", "--handle", "agent", "--mesh-url", "nats://"+mailtest.StartNobody(t))
	d.types("["+filepath.Join(dir, "agent.nk")+"]", "")
	if text := d.ends(exitDone); strings.Contains(text, "trying nats") {
		t.Errorf("it said %s", text)
	}
	seed := strings.TrimSpace(readFile(t, filepath.Join(dir, "agent.nk")))
	if text := d.transcript.String() + d.printed.String(); !strings.HasPrefix(seed, "SU") || strings.Contains(text, seed) {
		t.Errorf("the key is %q, and it said\n%s", seed, text)
	}
}
