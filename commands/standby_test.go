package commands

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net"
	"net/http"
	"net/http/cookiejar"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/urfave/cli/v2"

	"agentstateloop/cycle"
	"agentstateloop/fleet"
	"agentstateloop/fleet/seat"
	"agentstateloop/internal/account"
	"agentstateloop/internal/testkit/fleettest"
	"agentstateloop/state"
	"agentstateloop/state/store"
)

// fleetHosts is one agent on several hosts. Each host is a folder. A command on a host is a process
// of the program.
type fleetHosts struct {
	t      *testing.T
	engine *fleettest.Engine
	hosts  map[string]installedAgent
	agents map[string]*cycle.Agent // in this process
}

const fleetHandle = "goulard3120"

// newFleetHosts makes the hosts alpha, which acts, and beta, a standby that waits for a person. Their
// configuration ends with more.
func newFleetHosts(t *testing.T, more string) *fleetHosts {
	t.Helper()
	f := &fleetHosts{t: t, engine: fleettest.Start(t, fleetHandle, "dorlange3120"), hosts: map[string]installedAgent{}, agents: map[string]*cycle.Agent{}}
	for _, host := range []string{"alpha", "beta"} {
		dir := tempDir(t)
		writeFile(t, filepath.Join(dir, "key"), f.engine.Users[fleetHandle].Seed+"\n")
		writeScript(t, filepath.Join(dir, "reply.sh"), "cat >prompt\necho \"answered on $PWD in term $AGENTSTATELOOP_TERM\"\n")
		path := filepath.Join(dir, "agent.toml")
		writeFile(t, path, fmt.Sprintf("[mesh]\nurl = %q\nkey_file = \"key\"\n[fleet]\nhost = %q\nauto = false\n", f.engine.URL(), host)+more)
		a, err := testLoader().Load(path)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(a.Close)
		joined, err := a.Seat.Join(t.Context(), false)
		if err != nil || joined.Made != (host == "alpha") {
			t.Fatalf("%s: %+v, %v", host, joined, err)
		}
		f.hosts[host], f.agents[host] = installedAgent{dir, buildProgram(t, dir)}, a
	}
	return f
}

// fleetConfig is the rest of a configuration.
const fleetConfig = agentSection + "[turn]\ncommand = [\"./reply.sh\"]\n" + noSchedule

// run runs a command on a host. It returns its output, errors included.
func (f *fleetHosts) run(host string, code int, args ...string) string {
	f.t.Helper()
	cmd := f.hosts[host].command(f.t.Context(), args...)
	lock := filepath.Join(f.hosts[host].dir, "running")
	release := shareLock(f.t, cmd, lock)
	out, err := cmd.CombinedOutput()
	release()
	if err := settle(lock); err != nil {
		f.t.Fatal(err)
	}
	if cmd.ProcessState.ExitCode() != code {
		f.t.Fatalf("%s: %q exits with %v, want %d:\n%s", host, args, err, code, out)
	}
	return string(out)
}

// state returns the state of a host.
func (f *fleetHosts) state(host string) state.State {
	f.t.Helper()
	s, err := f.agents[host].Store.Read()
	if err != nil {
		f.t.Fatal(err)
	}
	return s
}

// move moves the seat between two hosts.
func (f *fleetHosts) move(from, to string) {
	f.t.Helper()
	if err := f.agents[from].Seat.Release(f.t.Context()); err != nil {
		f.t.Fatal(err)
	}
	if err := f.agents[to].Seat.Take(f.t.Context(), func(context.Context) {}, func(error) {}); err != nil {
		f.t.Fatal(err)
	}
}

// waits returns the number of messages in the agent's mailbox.
func (f *fleetHosts) waits() int {
	f.t.Helper()
	var info struct {
		State struct{ Messages int }
	}
	f.engine.Ask("STREAM.INFO.ASL_BOX", nil, &info)
	return info.State.Messages
}

// files returns the content of the files of a state directory, without locks, the log, and the
// record of the seat.
func (f *fleetHosts) files(host string) map[string]string {
	f.t.Helper()
	files, root := map[string]string{}, f.agents[host].Store.Dir
	err := filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
		switch {
		case err != nil, e.IsDir(), strings.HasSuffix(path, ".lock"), e.Name() == "log", e.Name() == "fleet.json":
			return err
		}
		text, err := os.ReadFile(path)
		files[path] = string(text)
		return err
	})
	if err != nil {
		f.t.Fatal(err)
	}
	return files
}

// stored returns the last sequence of each stream, except the registry: each host tells it that it
// looked.
func (f *fleetHosts) stored() string {
	f.t.Helper()
	var list struct {
		Streams []struct {
			Config struct{ Name string }
			State  struct {
				Last int `json:"last_seq"`
			}
		}
	}
	f.engine.Ask("STREAM.LIST", nil, &list)
	var rows []string
	for _, s := range list.Streams {
		if s.Config.Name == fleet.WhoStream {
			continue
		}
		rows = append(rows, fmt.Sprint(s.Config.Name, " ", s.State.Last))
	}
	slices.Sort(rows)
	return strings.Join(rows, ", ")
}

// verbs lists all commands, and for those that would change the agent their arguments. A standby
// refuses those.
var verbs = map[string][][]string{
	"answer": {{"1", "yes"}}, "inbox next": {{}}, "inbox done": {{"1", "text"}}, "inbox drop": {{"1"}}, "inbox release": {{"q1"}}, "inbox retry": {{"1"}},
	"outbox drop": {{"1"}}, "outbox retry": {{"1"}}, "remind": {{"10m", "look"}}, "credit": {{"5"}}, "reset": {{}}, "compact": {{}},
	"stop": {{}}, "halt": {{}, {"--reason", "x"}}, "resume": {{}}, "prompt run": {{"morning"}},
	"poll": {{}, {"--dry-run"}, {"--if-due"}, {"--linger", "50s"}, {"--no-turn"}}, "transition": {{"ACTIVE"}}, "report": {{"ID", "text"}}, "hook test": {{"pager"}},
	"submit": {{"text"}, {"text", "--after", "suspend"}}, "ask": {{"dorlange3120", "why?"}, {"operator", "why?"}}, "send": {{"dorlange3120", "hello"}}, "sleep": {{"10m"}, {"10m", "why"}}, "remember": {{"text"}},
	"mesh inbox": {{"--ack", "x"}}, "__hooks": {{}},
	"nudge": {{"--no-poll"}, {"--wait"}, {"--wait=done"}},

	// Commands that work on a standby: they only read, set up this host, or are of the mesh as a
	// whole. nudge and tell without these flags go through the mesh.
	"status": nil, "history": nil, "inbox": nil, "inbox list": nil, "inbox show": nil, "outbox": nil, "outbox list": nil, "outbox show": nil, "prompt": nil, "events": nil,
	"explain": nil, "replay": nil, "doctor": nil, "version": nil, "completion": nil, "man": nil, "demo": nil, "init": nil, "login": nil, "listen": nil, "tell": nil,
	"backup": nil, "restore": nil, "move": nil, "uninstall": nil, "mesh": nil, "mesh serve": nil, "mesh send": nil, "mesh halt": nil, "mesh resume": nil,
	"hook": nil, "__react": nil, "mcp": nil, // mcp checks each call
}

// TestStandbyChangesNothing runs each command that would change the agent on a standby.
func TestStandbyChangesNothing(t *testing.T) {
	t.Parallel()
	var reached atomic.Int32
	server, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	go func() {
		for {
			c, err := server.Accept()
			if err != nil {
				return
			}
			reached.Add(1)
			c.Close()
		}
	}()
	at := server.Addr().String()
	f := newFleetHosts(t, fleetConfig+fmt.Sprintf(`heartbeat = "http://%[1]s/beat"
[trust]
require = "from"
[mail]
address = "goulard@example.org"
[mail.imap]
host = "%[1]s"
password_file = "key"
[mail.smtp]
host = "%[1]s"
[[hook]]
name = "pager"
on = ["task"]
url = "http://%[1]s/hook"
[[prompt]]
name = "morning"
at = "0 8 * * *"
text = "look"
`, at))
	f.run("alpha", exitDone, "tell", "--no-wait", "the first message")
	if err := f.agents["beta"].Seat.Look(t.Context()); !onStandby(err) {
		t.Fatal(err)
	}
	if len(f.state("beta").Seen) == 0 {
		t.Fatal("the standby has no copy")
	}
	reached.Store(0)
	before, stored := f.files("beta"), f.stored()
	for _, command := range allCommands() {
		all, known := verbs[command]
		if !known && !strings.HasPrefix(command, "fleet") {
			t.Errorf("%s: decide what it does on a standby, and add it to verbs", command)
		}
		for _, args := range all {
			p := testProgram()
			p.loader.Environ = []string{"AGENTSTATELOOP_TURN=t1", "AGENTSTATELOOP_EPOCH=1"}
			if !slices.Contains([]string{"submit", "ask", "send", "sleep", "remember", "mcp"}, command) {
				p.loader.Environ = nil
			}
			p.stdin = strings.NewReader("")
			args = slices.Concat([]string{"--config", filepath.Join(f.hosts["beta"].dir, "agent.toml")}, strings.Fields(command), args)
			code, out := runInProcess(t, p, args...)
			if code != exitBusy || !strings.Contains(out, "alpha acts for goulard3120 (term 1, ") {
				t.Errorf("%q exits with %d:\n%s", args[2:], code, out)
			}
			for path, text := range f.files("beta") {
				if before[path] != text {
					t.Errorf("%q changes %s", args[2:], path)
				}
			}
		}
	}
	if now := f.files("beta"); len(now) != len(before) {
		t.Errorf("%d files before, %d after", len(before), len(now))
	}
	if now := f.stored(); now != stored {
		t.Errorf("the servers have %s, and before %s", now, stored)
	}
	if n := reached.Load(); n != 0 {
		t.Errorf("%d connections to mail, hook or monitor", n)
	}
}

// allCommands returns the commands, with their parents: "inbox show".
func allCommands() (all []string) {
	var add func(parent string, commands []*cli.Command)
	add = func(parent string, commands []*cli.Command) {
		for _, c := range commands {
			full := strings.TrimSpace(parent + " " + c.Name)
			all = append(all, full)
			add(full, c.Subcommands)
		}
	}
	add("", testProgram().app().Commands)
	return all
}

// TestStandbyReads runs commands that stay useful on a standby.
func TestStandbyReads(t *testing.T) {
	t.Parallel()
	f := newFleetHosts(t, fleetConfig)
	key := strings.TrimSpace(f.run("alpha", exitDone, "tell", "--no-wait", "the first message"))
	if out := f.run("beta", exitBusy, "poll"); !strings.Contains(out, "alpha acts for goulard3120 (term 1, 0 s ago)") || !strings.Contains(out, "fleet take") {
		t.Errorf("poll prints\n%s", out)
	}
	if out := f.run("beta", exitDone, "poll", "--quiet", "--if-due"); out != "" {
		t.Errorf("poll --quiet prints\n%s", out)
	}
	for _, args := range [][]string{
		{"status"}, {"history"}, {"inbox", "list"}, {"outbox", "list"}, {"events"}, {"prompt"}, {"remind", "--list"}, {"explain", "--help"}, {"inbox", "show", key},
	} {
		f.run("beta", exitDone, args...)
	}
	if out := f.run("beta", exitDone, "inbox", "show", key); !strings.Contains(out, "answered on "+f.hosts["alpha"].dir) {
		t.Errorf("inbox show prints\n%s", out)
	}
}

// TestStandbyForwards sends nudges and messages from a standby.
func TestStandbyForwards(t *testing.T) {
	t.Parallel()
	f := newFleetHosts(t, fleetConfig)
	f.run("alpha", exitDone, "poll")

	out := f.run("beta", exitDone, "nudge", "--from", "make", "--reason", "the build is green")
	if !strings.Contains(out, "nudged @goulard3120 through the mesh: alpha acts for goulard3120") {
		t.Errorf("nudge prints\n%s", out)
	}
	key := strings.TrimSpace(f.run("beta", exitDone, "tell", "--no-wait", "what \x01 are you \"doing\"?"))
	f.run("beta", exitDone, "nudge", "--wait=queued", "--json")
	if n := f.waits(); n != 3 {
		t.Fatalf("%d messages wait", n)
	}
	f.run("alpha", exitDone, "poll")
	s := f.state("alpha")
	if ring := s.LastRing; s.LastRing.Source != state.Mesh || ring.At.IsZero() {
		t.Errorf("the last nudge is %+v", ring)
	}
	if history := f.run("alpha", exitDone, "history", "-n", "0", "--json"); !strings.Contains(history, `"from":"make"`) || !strings.Contains(history, `"reason":"the build is green"`) {
		t.Errorf("no nudge of make in\n%s", history)
	}
	m := f.message("alpha", key)
	if m.Source != state.CLI || !m.Operator || !strings.HasSuffix(m.From, "@beta") || m.Proof != "" {
		t.Errorf("the message is %+v", m)
	}
	if n := f.waits(); n != 0 {
		t.Errorf("%d messages still wait", n)
	}
	text, err := f.agents["alpha"].Store.ReadSummed(m.Payload, m.Sum)
	if err != nil || string(text) != "what \x01 are you \"doing\"?" {
		t.Errorf("the text is %q, %v", text, err)
	}

	// What cannot work says so before anything is sent.
	f.run("beta", exitError, "tell", "--no-wait", strings.Repeat("x", 70<<10))
	f.run("beta", exitError, "tell", "--no-wait", strings.Repeat("\x01", 30<<10))
	f.run("beta", exitBusy, "nudge", "--wait=done")
	if n := f.waits(); n != 0 {
		t.Errorf("%d messages wait", n)
	}
}

// message returns the message that arrived under a key.
func (f *fleetHosts) message(host, key string) (m state.Message) {
	f.t.Helper()
	times := 0
	for l, err := range f.agents[host].Store.History(state.LineMessage) {
		if err != nil {
			f.t.Fatal(err)
		}
		if l.Key == key {
			m = *l.Message
			times++
		}
	}
	if times != 1 {
		f.t.Fatalf("%s arrived %d times", key, times)
	}
	return m
}

// TestForwardedNeedsProof posts messages that are like forwarded ones. None of them counts.
func TestForwardedNeedsProof(t *testing.T) {
	t.Parallel()
	f := newFleetHosts(t, fleetConfig)
	const peer = "dorlange3120"
	alone := writeConfig(t, fmt.Sprintf("[mesh]\nurl = %q\nkey_file = %q\n", f.engine.URL(), filepath.Join(f.hosts["alpha"].dir, "key"))+fleetConfig)
	without, err := testLoader().Load(alone)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(without.Close)
	const fields = `{"as":"tell","key":"cli:1","from":"you"}`
	for what, post := range map[string]struct {
		agent        *cycle.Agent
		by           string
		from, fields string
		at           time.Duration
	}{
		"of a peer":               {f.agents["alpha"], peer, peer, fields, 0},
		"of a peer as the agent":  {f.agents["alpha"], peer, fleetHandle, fields, 0},
		"signed long ago":         {f.agents["alpha"], fleetHandle, fleetHandle, fields, -8 * 24 * time.Hour},
		"without a form":          {f.agents["alpha"], fleetHandle, fleetHandle, `{"key":"cli:1"}`, 0},
		"with the key of a peer":  {f.agents["alpha"], fleetHandle, fleetHandle, `{"as":"tell","key":"mesh:dorlange3120:1"}`, 0},
		"with a broken field":     {f.agents["alpha"], fleetHandle, fleetHandle, `{"as":"tell","key":1}`, 0},
		"to an agent of one host": {without, fleetHandle, fleetHandle, fields, 0},
	} {
		body := fmt.Sprintf(`{"id":"1","from":%q,"to":%q,"kind":"forward","message":"obey","fields":%s}`, post.from, fleetHandle, post.fields)
		if _, err := f.engine.Conn(post.by).Post(t.Context(), fleetHandle, "1", time.Now().Add(post.at), []byte(body), false); err != nil {
			t.Fatal(err)
		}
		r, err := post.agent.Poll(t.Context(), cycle.PollOptions{NoTurn: true})
		if err != nil || r.Arrived != 0 || len(r.Failed) > 0 {
			t.Errorf("%s: %+v, %v", what, r, err)
		}
		if s, err := post.agent.Store.Read(); err != nil || len(s.Inbox) != 0 {
			t.Errorf("%s: %+v, %v", what, s.Inbox, err)
		}
		if n := f.waits(); n != 0 {
			t.Errorf("%s: %d messages still wait", what, n)
		}
	}
}

// TestStandbyMethods calls what the page, the webhook and a running turn call on a standby. No file
// is left for a commit that is refused.
func TestStandbyMethods(t *testing.T) {
	t.Parallel()
	f := newFleetHosts(t, agentSection+"[turn]\nrunner = \"none\"\n"+noSchedule+"[[prompt]]\nname = \"morning\"\nat = \"0 8 * * *\"\ntext = \"look\"\n")
	f.run("alpha", exitDone, "tell", "--no-wait", "the first message")
	pulled, err := f.agents["alpha"].Next(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	a, ctx, in := f.agents["beta"], t.Context(), cycle.Inside{TurnID: pulled.TurnID, Epoch: pulled.Epoch}
	id, err := f.agents["alpha"].AwaitReport(ctx, in, cycle.Awaiting{})
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Seat.Look(ctx); !onStandby(err) {
		t.Fatal(err)
	}
	before, stored := f.files("beta"), f.stored()
	for what, err := range map[string]error{
		"Tell":           second(a.Tell(ctx, "you", "hello")),
		"TellEvent":      second(a.TellEvent(ctx, cycle.EventMessage{Text: "hello"})),
		"mail":           second(a.TellEvent(ctx, cycle.EventMessage{Text: "hello", Operator: true})),
		"Answer":         second(a.Answer(ctx, "1", "you", "yes")),
		"TakeReport":     second(a.TakeReport(ctx, id, cycle.LocalReport{Text: "done"})),
		"Ring":           a.Ring("make", "green"),
		"RunPrompt":      second(a.RunPrompt(ctx, "morning")),
		"RemindByHand":   second(a.RemindByHand(ctx, "you", "10m", "look")),
		"Release":        second(a.Release(ctx, "x", "")),
		"Halt":           second(a.Halt(ctx, "")),
		"Stop":           a.Stop(ctx, ""),
		"Reset":          a.Reset(ctx, "", ""),
		"Submit":         a.Submit(ctx, in, cycle.Submission{Text: "done"}),
		"Suspend":        second(a.Suspend(ctx, in, "later", time.Minute)),
		"Ask":            second(a.Ask(ctx, in, cycle.Question{To: "dorlange3120", Text: "why?"})),
		"AskOperator":    second(a.AskOperator(ctx, in, cycle.OperatorQuestion{Text: "why?"})),
		"Send":           a.Send(ctx, in, "dorlange3120", "hello"),
		"Sleep":          a.Sleep(ctx, in, time.Minute, ""),
		"Sleep with why": a.Sleep(ctx, in, time.Minute, "why"),
		"Remind":         second(a.Remind(ctx, in, "10m", "look")),
		"Remember":       a.Remember(ctx, in, "much"),
		"Done":           a.Done(ctx, in, "done"),
		"Poll":           second(a.Poll(ctx, cycle.PollOptions{})),
		"Preview":        second(a.Preview(ctx)),
		"CallHooks":      a.CallHooks(ctx),
	} {
		if !onStandby(err) && what != "CallHooks" {
			t.Errorf("%s: %v", what, err)
		}
	}
	if now := f.files("beta"); !maps.Equal(now, before) {
		for path := range now {
			if before[path] != now[path] {
				t.Errorf("%s is new or changed", path)
			}
		}
	}
	if now := f.stored(); now != stored {
		t.Errorf("the servers have %s, and before %s", now, stored)
	}
}

// second returns the error of a call.
func second[T any](_ T, err error) error { return err }

// TestTroubleOnceADay stops an agent that has not joined. Cron reports that once a day.
func TestTroubleOnceADay(t *testing.T) {
	t.Parallel()
	e := fleettest.Start(t, fleetHandle)
	dir := tempDir(t)
	writeFile(t, filepath.Join(dir, "key"), e.Users[fleetHandle].Seed+"\n")
	path := writeFile(t, filepath.Join(dir, "agent.toml"), fmt.Sprintf("[mesh]\nurl = %q\nkey_file = \"key\"\n[fleet]\n", e.URL())+fleetConfig)
	now := time.Now()
	load := func() *program {
		p := testProgram()
		p.loader.Account = func() (account.Account, error) { return account.Account{Home: dir, Known: true}, nil }
		p.loader.Now = func() time.Time { return now }
		return p
	}
	states, err := load().loader.StateFolder()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(states, 0o700); err != nil {
		t.Fatal(err)
	}
	poll := func(what string, code int, text string, args ...string) {
		t.Helper()
		got, out := runInProcess(t, load(), append([]string{"--config", path, "poll"}, args...)...)
		if got != code || text == "" && out != "" || !strings.Contains(out, text) {
			t.Errorf("%s: exit %d, %q", what, got, out)
		}
	}
	const trouble = "error: THIS HOST HAS NOT JOINED"
	poll("first", exitUsage, trouble, "--quiet")
	poll("a minute later", exitUsage, "", "--quiet")
	poll("by hand", exitUsage, trouble)
	now = now.Add(25 * time.Hour)
	poll("a day later", exitUsage, trouble, "--quiet")
	e.Servers[0].Kill()
	poll("without servers", exitSource, "", "--quiet")
	poll("without servers, by hand", exitSource, "cannot ask the servers who acts: ")
	e.Servers[0].Start()
	a, err := load().loader.Load(path)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	if _, err := a.Seat.Join(t.Context(), false); err != nil {
		t.Fatal(err)
	}
	poll("joined", exitDone, "", "--quiet")
	if marks, _ := filepath.Glob(filepath.Join(states, ".trouble-*")); len(marks) > 0 {
		t.Errorf("left: %q", marks)
	}
}

// TestStandbyTellWaits waits on a standby for the answer of the host that acts.
func TestStandbyTellWaits(t *testing.T) {
	t.Parallel()
	f := newFleetHosts(t, fleetConfig)
	cmd := f.hosts["beta"].command(t.Context(), "tell", "what are you doing?")
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	for f.waits() == 0 {
		select {
		case err := <-ended:
			t.Fatalf("it ended: %v\n%s", err, errs.String())
		case <-time.After(20 * time.Millisecond):
		}
	}
	f.run("alpha", exitDone, "poll")
	if err := <-ended; err != nil {
		t.Fatalf("%v\n%s", err, errs.String())
	}
	if want := "answered on " + f.hosts["alpha"].dir + " in term 1\n"; out.String() != want {
		t.Errorf("it prints %q, want %q", out.String(), want)
	}
	if !strings.Contains(errs.String(), "alpha acts for goulard3120") {
		t.Errorf("it notes\n%s", errs.String())
	}
}

// TestStandbyForwardsFiles puts files into nudges/ of a standby.
func TestStandbyForwardsFiles(t *testing.T) {
	t.Parallel()
	f := newFleetHosts(t, fleetConfig)
	nudges := f.agents["beta"].Store.Path("nudges")
	put := func(name, text string) {
		if err := os.MkdirAll(nudges, 0o700); err != nil {
			t.Fatal(err)
		}
		writeFile(t, filepath.Join(nudges, name), text)
	}
	put("ci.message", "the build is red")
	put("disk", "the disk is full")
	put("empty.message", "")
	list, err := f.agents["beta"].Store.Nudges(f.state("beta"))
	if err != nil {
		t.Fatal(err)
	}
	key := list.New[slices.IndexFunc(list.New, func(n store.NudgeFile) bool { return n.Name == "ci.message" })].Key

	// Without servers the files stay.
	f.engine.Servers[0].Kill()
	f.run("beta", exitSource, "poll", "--quiet")
	if left := f.names(nudges); len(left) != 3 {
		t.Errorf("left in nudges/: %q", left)
	}
	f.engine.Servers[0].Start()
	f.run("beta", exitDone, "poll", "--quiet")
	if left := f.names(nudges); !slices.Equal(left, []string{"empty.message"}) {
		t.Errorf("left in nudges/: %q", left)
	}

	// The file is there again, as after a crash between the forward and its removal.
	again := f.agents["beta"].Store.Path("again")
	put("twice.message", "the build is green")
	if err := os.Link(filepath.Join(nudges, "twice.message"), again); err != nil {
		t.Fatal(err)
	}
	f.run("beta", exitDone, "poll", "--quiet")
	if err := os.Link(again, filepath.Join(nudges, "twice.message")); err != nil {
		t.Fatal(err)
	}
	f.run("beta", exitDone, "poll", "--quiet")
	if n := f.waits(); n != 4 {
		t.Errorf("%d messages wait", n)
	}
	if err := os.Link(again, filepath.Join(nudges, "twice.message")); err != nil {
		t.Fatal(err)
	}
	f.run("alpha", exitDone, "poll")
	m := f.message("alpha", key)
	if m.Source != state.EventSource || m.Operator || m.From != "ci" || m.Proof != state.ByProgram {
		t.Errorf("the message is %+v", m)
	}
	f.move("alpha", "beta")
	f.run("beta", exitDone, "poll")
	arrived := 0
	for l, err := range f.agents["beta"].Store.History(state.LineMessage) {
		if err != nil {
			t.Fatal(err)
		}
		if l.From == "twice" {
			arrived++
		}
	}
	if arrived != 1 {
		t.Errorf("the message of twice arrived %d times", arrived)
	}
}

// names returns the names in a folder.
func (f *fleetHosts) names(dir string) (names []string) {
	f.t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		f.t.Fatal(err)
	}
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// TestStandbyListens runs a listener on each host, and moves the seat.
func TestStandbyListens(t *testing.T) {
	t.Parallel()
	f := newFleetHosts(t, agentSection+"[turn]\nrunner = \"none\"\n"+noSchedule)
	f.run("alpha", exitDone, "tell", "--no-wait", "the first message")
	listeners, urls := map[string]*runningProgram{}, map[string]string{}
	for host, a := range f.agents {
		token := writeFile(t, filepath.Join(f.hosts[host].dir, "token"), "open sesame\n")
		l := startProgram(t, "--config", a.Config, "listen", "--json", "--addr", "127.0.0.1:0", "--token-file", token)
		var ready listenOutput
		if err := json.Unmarshal([]byte(l.firstLine), &ready); err != nil || ready.Page == nil {
			t.Fatalf("%s: listen prints %s: %v", host, l.firstLine, err)
		}
		listeners[host], urls[host] = l, ready.URL+"/"
	}
	beta := f.agents["beta"]
	waitUntil(t, "the listener of beta copies the state", func() bool { return len(f.state("beta").Inbox) == 1 })

	// The webhook and the page take nothing.
	payloads := f.names(beta.Store.Path("messages"))
	for path, body := range map[string]string{"nudge": "{}", "message": `{"text":"the build is red"}`, "report/ID": `{"message":"done"}`} {
		req, err := http.NewRequest("POST", urls["beta"]+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer open sesame")
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		text, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		if resp.StatusCode != 503 || resp.Header.Get("Retry-After") != "60" || !strings.Contains(string(text), "alpha acts for goulard3120 (term 1, ") {
			t.Errorf("%s: %s, Retry-After %q: %s", path, resp.Status, resp.Header.Get("Retry-After"), text)
		}
	}
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	b := &pageBrowser{t: t, base: urls["beta"], client: &http.Client{Jar: jar}}
	if code, body := b.send("POST", "page/login", `{"token":"open sesame"}`); code != 200 {
		t.Fatalf("login: %d %s", code, body)
	}
	b.until("page/document", 200, `"act_token":null`)
	b.until("page/document", 200, `{"label":"standby","text":"alpha acts for goulard3120 (term 1)"}`)
	b.until("page/document", 200, "the first message")
	if now := f.names(beta.Store.Path("messages")); !slices.Equal(now, payloads) || len(f.names(beta.Store.Path("nudges"))) > 0 {
		t.Errorf("the calls leave %q, %q", now, f.names(beta.Store.Path("nudges")))
	}

	seen, err := f.engine.Client(fleetHandle).Seen(t.Context())
	if err != nil || len(seen) != 1 || seen[0].Host != "alpha" {
		t.Errorf("the registry has %+v, %v", seen, err)
	}

	// Rings of other agents make it look at most once a second.
	looks, last := 0, ""
	for began := time.Now(); time.Since(began) < 3*time.Second; time.Sleep(10 * time.Millisecond) { // rings that come one after another
		if err := beta.Seat.Engine.(*fleet.Conn).Ring(t.Context(), fleetHandle); err != nil {
			t.Fatal(err)
		}
		if record := readFile(t, beta.Store.Path(seat.RecordFile)); record != last {
			looks, last = looks+1, record
		}
	}
	if looks < 2 || looks > 6 {
		t.Errorf("%d looks in three seconds", looks)
	}

	// The listener of the holder is rung, and gives the seat away.
	began := time.Now()
	ring := func(ctx context.Context) {
		if err := beta.Seat.Engine.(*fleet.Conn).Ring(ctx, fleetHandle); err != nil {
			t.Error(err)
		}
	}
	if err := beta.Seat.Take(t.Context(), ring, func(error) {}); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(began); took > 15*time.Second {
		t.Errorf("the seat moved in %v", took)
	}
	f.run("beta", exitDone, "poll")
	if got := f.state("beta").Seat; got != (state.Seat{Host: "beta", Term: 2}) {
		t.Errorf("the seat is %+v", got)
	}
	f.run("beta", exitDone, "nudge", "--no-poll", "--from", "make")
	waitUntil(t, "the listener of beta takes the nudge", func() bool { return f.state("beta").LastRing.From == "make" })
	if code, body := b.send("GET", "page/document", ""); code != 200 || strings.Contains(body, `"label":"standby"`) || strings.Contains(body, `"act_token":null`) {
		t.Errorf("the page of the holder is %d %s", code, body)
	}
	f.run("alpha", exitDone, "nudge", "--from", "alpha")
	waitUntil(t, "the listener of beta takes the nudge of alpha", func() bool { return f.state("beta").LastRing.From == "alpha" })
	for host, want := range map[string]string{"alpha": "@goulard3120: standby: beta acts for goulard3120 (term 2)", "beta": "@goulard3120: standby: alpha acts for goulard3120 (term 1)"} {
		listeners[host].end(t)
		if log := listeners[host].stderr.String(); strings.Count(log, want) != 1 || strings.Count(log, "\n") > 4 {
			t.Errorf("%s logs\n%s", host, log)
		}
	}
}

// waitUntil waits until a condition holds.
func waitUntil(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !holds(); time.Sleep(20 * time.Millisecond) { // other processes do it, and tell nobody
		if time.Now().After(end) {
			t.Fatalf("waited without success until %s", what)
		}
	}
}
