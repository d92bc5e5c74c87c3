package commands

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"net"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/emersion/go-smtp"
	"github.com/gofrs/flock"
	"github.com/rogpeppe/go-internal/testscript"

	"agentstateloop/commands/config"
	"agentstateloop/commands/terminal"
	"agentstateloop/internal/account"
	"agentstateloop/internal/secret"
	"agentstateloop/internal/testkit"
	"agentstateloop/internal/testkit/crontest"
	"agentstateloop/internal/testkit/mailtest"
	"agentstateloop/internal/testkit/scripted"
	"agentstateloop/mesh"
	"agentstateloop/state"
	"agentstateloop/state/store"
)

// TestMain makes the test binary be the program itself, for the scripts.
func TestMain(m *testing.M) {
	// In a sandbox our binary has another name, which testscript does not know.
	if code, ok := Become(os.Args, os.Stderr); ok {
		os.Exit(code)
	}
	if err := testkit.InMemoryWithoutSandboxes(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(exitError)
	}
	syscall.Umask(0o022)           // doctor warns of files that others can write to
	flag.Set("test.parallel", "4") // most of these tests wait for processes; the command line may say another number
	testscript.Main(testRun{m}, map[string]func(){name: func() { os.Exit(runForScript()) }})
}

// runForScript is main's run, with the home of the script instead of the user's.
func runForScript() int {
	if code, ok := Become(os.Args, os.Stderr); ok {
		return code
	}
	if err := shareRunningLock(os.Getenv("TEST_RUNNING")); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return exitError
	}
	now, err := clockOf(os.Getenv("TEST_NOW"))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return exitError
	}
	recorder := newJSONRun(os.Getenv("TEST_JSON"), os.Args)
	p := program{
		stdin: os.Stdin,
		out: terminal.Output{
			Stdout: recorder.stdout(), Stderr: os.Stderr,
			Columns: terminal.ColumnsOf(os.Stdout), ErrColumns: terminal.ColumnsOf(os.Stderr),
			Rows: terminal.RowsOf(os.Stdout),
		},
		loader: &config.Loader{
			Environ: os.Environ(),
			Account: func() (account.Account, error) {
				return account.Account{Home: os.Getenv("TEST_HOME"), Known: true}, nil
			},
			Executable: os.Executable,
			Version:    version(),
			Now:        now,
			Secrets:    new(secret.Known),
		},
		proc: os.Getenv("TEST_PROC"),
	}
	return recorder.ended(p.run(context.Background(), os.Args))
}

// clockOf returns a clock that stops at the given time, for a script that must not run at
// midnight or in the minute in which a poll is due. For "" it returns the machine's clock.
func clockOf(text string) (now func() time.Time, err error) {
	if text == "" {
		return time.Now, nil
	}
	at, err := time.Parse(time.RFC3339, text)
	return func() time.Time { return at }, err
}

// shareRunningLock takes a lock that every process we start inherits, so that a script can
// wait for polls in the background. The lock is never closed. The demo itself
// waits for the processes that it starts.
func shareRunningLock(file string) error {
	if file == "" {
		return nil
	}
	fd, err := syscall.Open(file, syscall.O_RDWR, 0)
	if err != nil {
		return err
	}
	return syscall.Flock(fd, syscall.LOCK_SH)
}

// world holds the servers and programs around a script's agent.
type world struct {
	mail    *mailtest.Servers
	meshURL string
	model   *scripted.Server // nil before `model`

	monitor *monitor // nil before `monitor`

	smtp atomic.Pointer[func(raw []byte) error] // the answer to a mail; nil accepts all

	script atomic.Pointer[func(scripted.Request) scripted.Reply] // the answers of the model
}

type worldKey struct{}

// TestScript runs the stories of testdata/script, each with an IMAP server, a
// mail sink, a mesh and a crontab of its own, in its own directory:
//
//	agent.toml, mail.toml  the agent goulard3120 without and with mail and mesh
//	reply.sh               its turns: answers "you said: TEXT"
//	crontab.table          its crontab, once there is one
//	proc/                  the processes of its machine: init is 1, cron is 7
//	state/                 its state directory
//	$TEST_NOW              if set, the time of its clock, which is stopped
//
// Their own commands:
//
//	mail SUBJECT TEXT          a mail from the operator
//	deliver FILE               puts a mail into the mailbox as it is
//	answer TEXT                answers the last mail that was sent; TOKEN is its token
//	[!] sent PATTERN           matches the mails that were sent
//	smtp KIND CODE TEXT        the mail server's answer to mails whose id begins with KIND, or to all
//	smtp ok                    it accepts all mail again
//	message FROM TEXT [FIELDS TRACE]
//	                           a message from a peer, which asks for fields, in a chain
//	presence HANDLE PHASE      a peer registers with the mesh
//	[!] mailbox PATTERN        matches the messages for dorlange3120 on the mesh: each of them,
//	                           and in a line below it the fields, the status and the chain
//	report FROM TEXT [FIELDS]  FROM answers its last question
//	model PROVIDER FILE        our own loop runs the turns, with the answers of the model in FILE
//	[!] requests PATTERN       matches the requests to the model
//	monitor CODE               a monitor at $MONITOR answers heartbeats with this code; 0: it hangs
//	[!] heartbeats PATTERN     matches the requests to the monitor since the last heartbeats command,
//	                           one a line
//	hold LOCK                  takes a lock as another process would
//	happens restored FILE      the state is one that was restored from a backup
//	happens moved HOST FILE    the agent was moved; happens stays: a move was taken back
//	happens elsewhere HOST     another machine works as the agent
//	settle                     waits for polls in the background
//	exits CODE COMMAND [ARG…]  checks an exit code
//
//	engine stop, engine start  stops and starts the NATS server of TestStoriesOverNATS
//
// The output with --json in every script must match the schemas of docs/json (checkJSONRuns). The
// scripts json-*.txtar have each command print JSON.
func TestScript(t *testing.T) {
	printed, ran := t.TempDir(), &scriptsRun{}
	t.Cleanup(func() {
		found := checkJSONRuns(t, printed)
		if ran.all("testdata/script/json-*.txtar") && !t.Failed() {
			found.checkCoverage(t)
		}
	})
	testscript.Run(t, testscript.Params{
		Dir:                "testdata/script",
		Setup:              func(env *testscript.Env) error { ran.add(env); return setUp(env, printed) },
		RequireUniqueNames: true,
		Cmds:               scriptCommands(),
	})
}

// scriptCommands returns the commands of scripts.
func scriptCommands() map[string]func(*testscript.TestScript, bool, []string) {
	all := map[string]func(*testscript.TestScript, bool, []string){
		"sent":       matchCommand(scriptSent),
		"mailbox":    matchCommand(scriptMailbox),
		"requests":   matchCommand(scriptRequests),
		"heartbeats": matchCommand(scriptHeartbeats),
	}
	for _, c := range []struct {
		usage       string
		least, most int // arguments
		run         func(*testscript.TestScript, []string)
	}{
		{"mail SUBJECT TEXT", 2, 2, scriptMail},
		{"deliver FILE", 1, 1, scriptDeliver},
		{"answer TEXT", 1, 1, scriptAnswer},
		{"message FROM TEXT [FIELDS TRACE]", 2, 4, scriptMessage},
		{"smtp KIND CODE TEXT, or smtp ok", 1, 3, scriptSMTP},
		{"presence HANDLE PHASE", 2, 2, scriptPresence},
		{"hold LOCK", 1, 1, scriptHold},
		{"happens restored FILE, happens moved HOST FILE, happens stays, or happens elsewhere HOST", 1, 3, scriptHappens},
		{"settle", 0, 0, scriptSettle},
		{"exits CODE COMMAND [ARG…]", 2, 100, scriptExits},
		{"model PROVIDER FILE", 2, 2, scriptModel},
		{"report FROM TEXT [FIELDS]", 2, 3, scriptReport},
		{"monitor CODE", 1, 1, scriptMonitor},
		{"engine stop, or engine start", 1, 1, scriptEngine},
	} {
		name, _, _ := strings.Cut(c.usage, " ")
		all[name] = func(ts *testscript.TestScript, neg bool, args []string) {
			if neg || len(args) < c.least || len(args) > c.most {
				ts.Fatalf("usage: %s", c.usage)
			}
			c.run(ts, args)
		}
	}
	return all
}

// matchCommand returns a command of scripts that matches a text with a pattern.
func matchCommand(textOf func(*testscript.TestScript) string) func(*testscript.TestScript, bool, []string) {
	return func(ts *testscript.TestScript, neg bool, args []string) {
		if len(args) != 1 {
			ts.Fatalf("usage: [!] COMMAND PATTERN")
		}
		text := textOf(ts)
		if found := regexp.MustCompile(`(?m)` + args[0]).MatchString(text); found == neg {
			ts.Fatalf("%q: found is %v in:\n%s", args[0], found, text)
		}
	}
}

// TestScriptsCheckOutputOfFailures checks that a story which expects a command to fail also checks
// its output: an exit code alone may have another reason on another machine.
func TestScriptsCheckOutputOfFailures(t *testing.T) {
	fails := regexp.MustCompile(`^(exits [1-9]\d* |! (exec )?agentstateloop )`)
	looks := regexp.MustCompile(`^(! )?(stdout|stderr) `)
	files, err := filepath.Glob("testdata/*/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		story, _, _ := strings.Cut(readFile(t, file), "\n-- ")
		waiting := ""
		for line := range strings.Lines(story + "\n") {
			switch line = strings.TrimSpace(line); {
			case line == "" || strings.HasPrefix(line, "#"):
				continue
			case waiting != "" && !looks.MatchString(line):
				t.Errorf("%s: %q fails, and the story does not check why", file, waiting)
			}
			if waiting = ""; fails.MatchString(line) && !strings.HasSuffix(line, "&") {
				waiting = line
			}
		}
	}
}

// setUp makes the world of a script. Its runs for JSON are recorded in the folder
// printed.
func setUp(env *testscript.Env, printed string) error {
	dir := env.WorkDir
	w := &world{}
	servers, err := mailtest.Start(dir, mailtest.Options{Username: "goulard@example.org", OnData: w.answer})
	if err != nil {
		return err
	}
	env.Defer(func() { servers.Close() })
	w.mail = servers
	web := httptest.NewServer(mesh.NewServer(mesh.Options{Open: true}))
	env.Defer(web.Close)
	w.meshURL = web.URL
	env.Values[worldKey{}] = w
	if _, _, err := crontest.Write(dir); err != nil {
		return err
	}
	lock := filepath.Join(dir, "running")
	plain := fmt.Sprintf(plainConfig, dir, lock, printed)
	files := map[string]string{
		"secret":     servers.Password + "\n",
		"agent.toml": plain,
		"mail.toml":  plain + fmt.Sprintf(mailConfig, servers.IMAPTLS, servers.SMTPTLS, web.URL),
	}
	for file, text := range files {
		if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600); err != nil {
			return err
		}
	}
	if err := testkit.WriteProgram(filepath.Join(dir, "reply.sh"), replyScript); err != nil {
		return err
	}
	env.Setenv("TEST_HOME", dir)
	env.Setenv("HOME", dir)
	env.Setenv("PATH", dir+string(os.PathListSeparator)+env.Getenv("PATH")) // its crontab, also where no configuration names it
	env.Setenv("TEST_JSON", printed)
	proc, err := crontest.WriteProc(dir)
	if err != nil {
		return err
	}
	env.Setenv("TEST_PROC", proc)
	if err := os.WriteFile(lock, nil, 0o600); err != nil {
		return err
	}
	env.Setenv("TEST_RUNNING", lock)
	env.Defer(func() { settle(lock) })
	// Under the race detector each process would stay a second longer.
	env.Setenv("GORACE", "atexit_sleep_ms=0")
	return nil
}

const replyScript = `#!/bin/sh
text=$(sed -n '/^<message [a-z0-9]*>$/,/^<\/message [a-z0-9]*>$/p' | sed '1d;$d')
echo "you said: $text"
`

const plainConfig = `[agent]
handle = "goulard3120"
operator = ["operator@example.com"]
state_dir = "state"
[turn]
command = ["./reply.sh"]
env = { TEST_HOME = %q, TEST_RUNNING = %q, TEST_JSON = %q }
[schedule]
crontab = "./crontab"
`

const mailConfig = `[trust]
require = "from"
mesh = "open"
[mail]
address = "goulard@example.org"
[mail.imap]
host = %q
password_file = "secret"
ca_file = "ca.pem"
[mail.smtp]
host = %q
ca_file = "ca.pem"
[mesh]
url = %q
peers = ["dorlange3120"]
`

func worldOf(ts *testscript.TestScript) *world { return ts.Value(worldKey{}).(*world) }

// meshClient returns a client of the mesh for a peer.
func (w *world) meshClient(handle string) *mesh.Client {
	return &mesh.Client{URL: w.meshURL, Handle: handle}
}

// scriptMail: mail SUBJECT TEXT
func scriptMail(ts *testscript.TestScript, args []string) {
	raw := fmt.Sprintf("From: Operator <operator@example.com>\r\nTo: goulard@example.org\r\nSubject: %s\r\n"+
		"Message-ID: <%s@example.com>\r\nContent-Type: text/plain; charset=utf-8\r\n\r\n%s\r\n", args[0], store.NewID(), args[1])
	_, err := worldOf(ts).mail.Append([]byte(raw), time.Now())
	ts.Check(err)
}

// scriptDeliver: deliver FILE. A line "Date: now" in it gets the time.
func scriptDeliver(ts *testscript.TestScript, args []string) {
	raw := strings.ReplaceAll(ts.ReadFile(args[0]), "\n", "\r\n")
	raw = strings.ReplaceAll(raw, "Date: now", "Date: "+time.Now().Format(time.RFC1123Z))
	_, err := worldOf(ts).mail.Append([]byte(raw), time.Now())
	ts.Check(err)
}

// scriptAnswer: answer TEXT
func scriptAnswer(ts *testscript.TestScript, args []string) {
	sent := worldOf(ts).mail.Sent()
	if len(sent) == 0 {
		ts.Fatalf("answer: no mail was sent")
	}
	last := string(sent[len(sent)-1].Raw)
	field := func(name string) string {
		return regexp.MustCompile(`(?m)^` + name + `: (.*)\r$`).FindStringSubmatch(last)[1]
	}
	text := args[0]
	if token := regexp.MustCompile(`(?m)^YES ([a-z2-7]{26})\r$`).FindStringSubmatch(last); token != nil {
		text = strings.ReplaceAll(text, "TOKEN", token[1])
	}
	raw := fmt.Sprintf("From: Operator <operator@example.com>\r\nSubject: Re: %s\r\nMessage-ID: <%s@example.com>\r\nIn-Reply-To: %s\r\n\r\n%s\r\n",
		field("Subject"), store.NewID(), field("Message-ID"), text)
	_, err := worldOf(ts).mail.Append([]byte(raw), time.Now())
	ts.Check(err)
}

// scriptMessage: message FROM TEXT [FIELDS TRACE]
func scriptMessage(ts *testscript.TestScript, args []string) {
	m := mesh.Message{To: "goulard3120", Text: args[1]}
	if len(args) == 4 {
		ts.Check(json.Unmarshal([]byte(args[2]), &m.ResultFields))
		m.Trace = args[3]
	}
	_, err := worldOf(ts).meshClient(args[0]).Send(context.Background(), m)
	ts.Check(err)
}

// scriptPresence: presence HANDLE PHASE
func scriptPresence(ts *testscript.TestScript, args []string) {
	ts.Check(worldOf(ts).meshClient(args[0]).Register(context.Background(), mesh.Presence{Phase: state.Phase(args[1])}))
}

// softBreak ends a line of quoted-printable text that goes on in the next one. Where it
// falls depends on the length of the folder's name.
var softBreak = regexp.MustCompile(`=\r?\n`)

// scriptSent: [!] sent PATTERN
func scriptSent(ts *testscript.TestScript) string {
	var all strings.Builder
	for _, m := range worldOf(ts).mail.Sent() {
		fmt.Fprintf(&all, "to %s\n%s\n", strings.Join(m.To, ", "), softBreak.ReplaceAll(m.Raw, nil))
	}
	return all.String()
}

// scriptSMTP: smtp KIND CODE TEXT, smtp ok
func scriptSMTP(ts *testscript.TestScript, args []string) {
	w := worldOf(ts)
	if args[0] == "ok" {
		w.smtp.Store(nil)
		return
	}
	code, err := strconv.Atoi(args[1])
	ts.Check(err)
	answer := func(raw []byte) error {
		if args[0] != "all" && !bytes.Contains(raw, []byte("Message-ID: <"+args[0]+".")) {
			return nil
		}
		return &smtp.SMTPError{Code: code, EnhancedCode: smtp.NoEnhancedCode, Message: args[2]}
	}
	w.smtp.Store(&answer)
}

// answer is the mail server's answer to the final dot.
func (w *world) answer(_ net.Conn, raw []byte) error {
	if answer := w.smtp.Load(); answer != nil {
		return (*answer)(raw)
	}
	return nil
}

// scriptMailbox: [!] mailbox PATTERN
func scriptMailbox(ts *testscript.TestScript) string {
	box, err := worldOf(ts).meshClient("dorlange3120").Mailbox(context.Background(), 0)
	ts.Check(err)
	var all strings.Builder
	for _, m := range box.Messages {
		fmt.Fprintf(&all, "%s from %s: %s\n", m.Kind, m.From, m.Text)
		asked, err := json.Marshal(m.ResultFields)
		ts.Check(err)
		fields, err := json.Marshal(m.Fields)
		ts.Check(err)
		fmt.Fprintf(&all, "  asks for %s, is %s %s of %s\n", asked, m.Status, fields, m.Trace)
	}
	return all.String()
}

// scriptHold: hold LOCK, for the rest of the script
func scriptHold(ts *testscript.TestScript, args []string) {
	ts.Check(os.MkdirAll(ts.MkAbs("state"), 0o700))
	lock := flock.New(ts.MkAbs(filepath.Join("state", args[0])))
	ts.Check(lock.Lock())
	ts.Defer(func() { lock.Unlock() })
}

// scriptSettle: settle
func scriptSettle(ts *testscript.TestScript, _ []string) {
	ts.Check(settle(ts.Getenv("TEST_RUNNING")))
}

// settle waits until no program of the script runs, not even a poll in the
// background.
func settle(running string) error {
	lock := flock.New(running)
	if err := lock.Lock(); err != nil {
		return err
	}
	return lock.Unlock()
}

// scriptExits: exits CODE COMMAND [ARG…], for exit codes that "!" does not distinguish
func scriptExits(ts *testscript.TestScript, args []string) {
	got, err := "0", ts.Exec(args[1], args[2:]...)
	if err != nil {
		got = strings.TrimPrefix(err.Error(), "exit status ")
	}
	if got != args[0] {
		ts.Fatalf("exit code %s, want %s (%v)", got, args[0], err)
	}
}
