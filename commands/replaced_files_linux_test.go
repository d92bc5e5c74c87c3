package commands

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"agentstateloop/internal/osfile"
	"agentstateloop/internal/testkit/mailtest"
	"agentstateloop/state/store"
)

// TestReplacedFiles replaces each file and folder of a state directory by an obstacle, such as a
// link, one at a time, and runs the program: it must not hang, not write through a link, stay
// within its memory, name the file, and go on with the rest. With AGENTSTATELOOP_SOAK the test tries
// all obstacles in each place, else every forty-seventh one, or every fifth if the real servers are
// required.
func TestReplacedFiles(t *testing.T) {
	t.Parallel()
	world := newReplacedWorld(t)
	all := os.Getenv(soakVariable) != ""
	each := part(5, 47)
	number := 0
	for _, place := range world.places(t) {
		for _, kind := range obstaclesOf(place.folder) {
			number++
			if !all && number%each != 0 && !(kind.always && place.stops()) {
				continue
			}
			t.Run(place.name+" is "+kind.name, func(t *testing.T) { world.try(t, place, kind, all) })
		}
	}
}

// place is a file or folder below the state directory.
type place struct {
	name   string
	folder bool
	needed bool // by a pending message or by every cycle: status and doctor must name it
}

// stops reports whether a poll fails without the place.
func (p place) stops() bool {
	return slices.Contains([]string{store.CycleLock, store.TurnLock, "state.lock", store.OutboxDir, store.TurnsDir}, p.name)
}

// obstacle replaces a file or folder.
type obstacle struct {
	name   string
	always bool
	huge   bool // a regular file, but too large
	denied bool // for all users but root
	put    func(path, canary string) error
}

// obstaclesOf returns the obstacles for a file, or for a folder.
func obstaclesOf(folder bool) []obstacle {
	link := func(to string) func(path, canary string) error {
		return func(path, _ string) error { return os.Symlink(to, path) }
	}
	all := []obstacle{
		{name: "a pipe", always: true, put: func(path, _ string) error { return syscall.Mkfifo(path, 0o600) }},
		{name: "a link elsewhere", always: true, put: func(path, canary string) error { return os.Symlink(canary, path) }},
		{name: "a dangling link", put: link("/does/not/exist")},
		{name: "a link to itself", put: func(path, _ string) error { return os.Symlink(filepath.Base(path), path) }},
		{name: "a socket", put: makeSocket},
		{name: "a device", put: func(path, _ string) error { return syscall.Mknod(path, syscall.S_IFCHR|0o666, 1<<8|5) }}, // zero
		{name: "unreadable", denied: true, put: func(path, _ string) error { return os.WriteFile(path, nil, 0) }},
	}
	if folder {
		return append(all, obstacle{name: "a file", put: func(path, _ string) error { return os.WriteFile(path, []byte("x"), 0o600) }})
	}
	return append(all,
		obstacle{name: "an empty folder", put: func(path, _ string) error { return os.Mkdir(path, 0o700) }},
		obstacle{name: "a folder", always: true, put: func(path, _ string) error { return os.MkdirAll(filepath.Join(path, "in it"), 0o700) }},
		obstacle{name: "huge", huge: true, put: func(path, _ string) error {
			return errors.Join(os.WriteFile(path, nil, 0o600), os.Truncate(path, 8<<30))
		}},
	)
}

func makeSocket(path, _ string) error {
	// The path of a socket is short, so it is made elsewhere.
	dir, err := os.MkdirTemp("", "s")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(dir, "s"), Net: "unix"})
	if err != nil {
		return err
	}
	l.SetUnlinkOnClose(false)
	return errors.Join(l.Close(), os.Rename(filepath.Join(dir, "s"), path))
}

// replacedWorld is an agent with every file that an agent can have.
type replacedWorld struct {
	program, template string
	user              *syscall.Credential // who is not root
}

const anotherUser = 65534

func newReplacedWorld(t *testing.T) *replacedWorld {
	base, err := os.MkdirTemp("", "agentstateloop-replaced-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { osfile.RemoveAll(base) })
	if err := os.Chmod(base, 0o755); err != nil { // for the user
		t.Fatal(err)
	}
	w := &replacedWorld{program: buildProgram(t, base), template: filepath.Join(base, "template")}
	if os.Getuid() == 0 {
		w.user = &syscall.Credential{Uid: anotherUser, Gid: anotherUser}
	}
	if err := os.Mkdir(w.template, 0o755); err != nil {
		t.Fatal(err)
	}
	servers := mailtest.StartMemory(t, mailtest.Options{Username: "goulard@example.org"})
	config := fmt.Sprintf(agentSection+
		"[mail]\naddress = \"goulard@example.org\"\n[mail.imap]\nhost = %q\ntls = \"none\"\npassword_file = \"secret\"\n"+
		"[mail.smtp]\nhost = \"127.0.0.1:1\"\ntls = \"none\"\n"+ // without a listener: the mails wait in the outbox
		"[trust]\nrequire = \"from\"\n[turn]\ncommand = [\"/bin/echo\", \"done\"]\n[schedule]\nmode = \"none\"\n", servers.IMAP)
	state := filepath.Join(w.template, "state")
	writeFiles(t, w.template, map[string]string{"agent.toml": config, "secret": servers.Password})
	mail := func(subject string) {
		raw := fmt.Sprintf("From: operator@example.com\r\nTo: goulard@example.org\r\nSubject: @goulard3120 %s\r\nMessage-ID: <%[1]s@example.com>\r\n\r\nhello\r\n", subject)
		if _, err := servers.Append([]byte(raw), time.Now()); err != nil {
			t.Fatal(err)
		}
	}
	mail("one")
	first, out := w.run(t, w.template, nil, "poll")
	mail("two")
	if second, more := w.run(t, w.template, nil, "poll", "--no-turn"); first == exitError || second == exitError {
		t.Fatalf("exit %d, %d: %s%s", first, second, out, more)
	}
	writeFiles(t, state, map[string]string{
		"log.1": "old\n", "memory.md": "a note\n", "memory.md.prev": "a note\n", "memory.d/peer-ann.md": "a note\n",
		"nudges/one": "wake up\n", "listen.lock": "", "linger.lock": "", "state.json.tmp": "half",
		"quarantine/mail%3A1/verdict.json": `{"key":"mail:1","source":"mail","gate":"from"}`, "quarantine/mail%3A1/message.eml": "From: x\r\n\r\nx\r\n",
	})
	forgetFile(t, state)
	return w
}

// places returns every file and folder of the template.
func (w *replacedWorld) places(t *testing.T) []place {
	t.Helper()
	var all []place
	state := filepath.Join(w.template, "state")
	s, err := installedAgent{dir: w.template}.store().Read()
	if err != nil {
		t.Fatal(err)
	}
	waits := map[string]bool{}
	for _, m := range s.Inbox {
		waits[m.Payload] = true
	}
	for _, e := range s.Outbox {
		waits[e.File] = true
	}
	if len(s.Inbox) == 0 || len(s.Outbox) == 0 {
		t.Fatalf("%d messages and %d effects wait", len(s.Inbox), len(s.Outbox))
	}
	err = filepath.WalkDir(state, func(path string, d fs.DirEntry, err error) error {
		if err != nil || path == state {
			return err
		}
		name, err := filepath.Rel(state, path)
		ours := !strings.Contains(name, "/") && !strings.HasSuffix(name, ".tmp")
		all = append(all, place{name, d.IsDir(), ours || waits[name]})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(all) < 35 {
		t.Errorf("only %d places: %v", len(all), all)
	}
	return all
}

// try runs the program on a copy of the template with an obstacle in a place.
func (w *replacedWorld) try(t *testing.T, p place, o obstacle, all bool) {
	if o.denied && w.user == nil {
		t.Skip("to take its rights from a user needs root")
	}
	dir, err := os.MkdirTemp(filepath.Dir(w.template), "agent-")
	if err != nil {
		t.Fatal(err)
	}
	defer osfile.RemoveAll(dir)
	canary := filepath.Join(dir, "canary")
	path := filepath.Join(dir, "state", p.name)
	if out, err := exec.Command("cp", "-a", w.template+"/.", dir).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	// The context of an attempt is read-only, which stops an ordinary user.
	folder, err := os.Stat(filepath.Dir(path))
	if err != nil {
		t.Fatal(err)
	}
	osfile.MakeWritable(filepath.Dir(path))
	if err := os.Rename(path, canary); err != nil {
		t.Fatal(err)
	}
	if err := o.put(path, canary); err != nil {
		if o.name == "a device" {
			t.Skip(err)
		}
		t.Fatal(err)
	}
	if err := os.Chmod(filepath.Dir(path), folder.Mode().Perm()); err != nil {
		t.Fatal(err)
	}
	var user *syscall.Credential
	if o.denied {
		user = w.user
		if out, err := exec.Command("chown", "-R", fmt.Sprint(user.Uid), dir).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	before := contents(t, canary)

	wrong := !o.huge // a huge file is a file
	for _, args := range [][]string{{"status"}, {"doctor", "--no-network"}} {
		code, out := w.run(t, dir, user, args...)
		if wrong && p.needed && !strings.Contains(out, filepath.Base(p.name)) {
			t.Errorf("%v does not name %s: exit %d: %s", args, p.name, code, out)
		}
		if args[0] == "status" && code != exitDone && !(o.denied && strings.HasPrefix(p.name, "state.json")) {
			t.Errorf("status: exit %d: %s", code, out)
		}
	}
	if all {
		for _, args := range [][]string{{"nudge"}, {"transition", "PREP"}, {"tell", "hello"}, {"inbox", "list"}, {"history"}, {"listen"}} {
			w.run(t, dir, user, args...)
		}
	}
	code, out := w.run(t, dir, user, "poll")
	agent := installedAgent{dir, w.program}
	agent.waitForProcesses()
	switch {
	case !wrong:
	case p.stops():
		if code != exitError || !strings.Contains(out, filepath.Base(p.name)) {
			t.Errorf("poll: exit %d, and it should be 1 and name %s: %s", code, p.name, out)
		}
	case !o.denied && code != exitDone && code != exitSource:
		t.Errorf("poll: exit %d: %s", code, out)
	}
	// Without messages/ a damaged mail cannot be fetched again, and waits.
	waits := p.stops() || p.name == store.MessagesDir || o.denied
	if s, err := agent.store().Read(); !waits && (err != nil || len(s.Inbox) > 0) {
		t.Errorf("the message that waited was not run: %d wait, %v; poll said exit %d: %s", len(s.Inbox), err, code, out)
	}
	if after := contents(t, canary); after != before {
		t.Errorf("the file of %s was changed through the link: %s, it was %s", p.name, after, before)
	}
}

// contents returns the names and bytes below a path.
func contents(t *testing.T, path string) string {
	t.Helper()
	var all strings.Builder
	err := filepath.WalkDir(path, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			fmt.Fprintln(&all, path)
			return err
		}
		data, err := os.ReadFile(path)
		fmt.Fprintf(&all, "%s %q\n", path, data)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all.String()
}

// run runs a command that must end, and within its memory.
func (w *replacedWorld) run(t *testing.T, dir string, user *syscall.Credential, args ...string) (code int, out string) {
	t.Helper()
	// timeout ends the program with a stack of each goroutine.
	limit := []string{"--signal=QUIT", "--kill-after=5", "60"}
	if args[0] == "listen" { // it goes on until it is ended
		limit = []string{"--preserve-status", "--kill-after=60", "2"}
	}
	cmd := exec.CommandContext(t.Context(), "timeout", append(append(limit, w.program, "--config", filepath.Join(dir, "agent.toml")), args...)...)
	cmd.Env = append(os.Environ(), "HOME="+dir)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: user}
	cmd.WaitDelay = 10 * time.Second
	data, _ := cmd.CombinedOutput()
	if cmd.ProcessState == nil {
		t.Fatalf("%v could not be started", args)
	}
	const timedOut = 124
	if code = cmd.ProcessState.ExitCode(); code == timedOut || code < 0 {
		t.Errorf("%v did not end: exit %d: %.2000s", args, code, data)
	}
	// A process begins with the peak of the one that started it.
	var ours syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &ours); err != nil {
		t.Fatal(err)
	}
	usage := cmd.ProcessState.SysUsage().(*syscall.Rusage)
	if used := usage.Maxrss >> 10; used > 200 && usage.Maxrss > ours.Maxrss {
		t.Errorf("%v took %d MiB", args, used)
	}
	return code, string(data)
}
