package acp

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"agentstateloop/internal/osfile"
	"agentstateloop/turn"
	"agentstateloop/turn/box"
)

// host is turn.ACPCommand. It writes each question to the operator to a file that is named by its
// number, which is its id.
func host(args []string) int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	p := Process{Stdin: os.Stdin, Stdout: os.Stdout, Ask: askByFile, ExitWithin: 500 * time.Millisecond}
	if err := p.Main(ctx, args); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		return 1
	}
	return 0
}

func askByFile(_ context.Context, text string) (string, error) {
	dir := os.Getenv("TEST_QUESTIONS")
	if dir == "" {
		return "", errors.New("the operator is unreachable")
	}
	asked, err := os.ReadDir(dir)
	if err != nil {
		return "", err
	}
	id := fmt.Sprintf("q%d", len(asked)+1)
	return id, os.WriteFile(filepath.Join(dir, id), []byte(text), 0o600)
}

// fixture is an attempt of an ACP agent, ready to run.
type fixture struct {
	turn.Config
	turn.Attempt
	t *testing.T
}

// newFixture prepares an attempt of the agent of a script.
func newFixture(t *testing.T, script string) *fixture {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	state := t.TempDir()
	t.Cleanup(func() { osfile.MakeWritable(state) })
	b := &fixture{
		t: t,
		Config: turn.Config{
			Runner: turn.ACP, Command: []string{exe, "__agent", script}, Workdir: t.TempDir(),
			Timeout: time.Minute, Grace: 10 * time.Second, Self: exe, Version: "test",
		},
		Attempt: turn.Attempt{Dir: filepath.Join(state, "turns", "t1", "1"), TurnID: "t1", Epoch: 1, Prompt: []byte("hello\n")},
	}
	b.prepare(1)
	return b
}

// prepare makes the folder of the attempt with that epoch.
func (b *fixture) prepare(epoch uint64) {
	b.t.Helper()
	b.Epoch = epoch
	b.Dir = filepath.Join(filepath.Dir(b.Dir), fmt.Sprint(epoch))
	if err := turn.Prepare(b.Dir, nil, ""); err != nil {
		b.t.Fatal(err)
	}
}

// wantNoProcesses checks that all processes of the attempt have ended. The kernel closes the files of
// the last threads of a process a moment after its end.
func (b *fixture) wantNoProcesses() {
	b.t.Helper()
	held, _, err := turn.Probe(b.Dir)
	for until := time.Now().Add(5 * time.Second); held && time.Now().Before(until); held, _, err = turn.Probe(b.Dir) {
		time.Sleep(10 * time.Millisecond) // a lock cannot be awaited without taking it
	}
	if held || err != nil {
		b.t.Errorf("the attempt is alive: %v, %v", held, err)
	}
}

func (b *fixture) run() turn.Result {
	b.t.Helper()
	return b.runWith(b.t.Context(), nil)
}

func (b *fixture) runWith(ctx context.Context, show func(turn.Progress)) turn.Result {
	b.t.Helper()
	res, err := b.Config.Run(ctx, b.Attempt, show)
	if err != nil {
		b.t.Fatal(err)
	}
	return res
}

// stopAt runs the attempt, and stops it at this text of the agent.
func (b *fixture) stopAt(text string) turn.Result {
	b.t.Helper()
	ctx, cancel := context.WithCancelCause(b.t.Context())
	defer cancel(nil)
	return b.runWith(ctx, func(p turn.Progress) {
		if strings.Contains(p.Event.Text, text) {
			cancel(turn.ErrStopped)
		}
	})
}

// stopWhen runs the attempt, and stops it when a condition is true.
func (b *fixture) stopWhen(isTrue func() bool) turn.Result {
	b.t.Helper()
	ctx, cancel := context.WithCancelCause(b.t.Context())
	defer cancel(nil)
	go func() {
		for !isTrue() && ctx.Err() == nil {
			time.Sleep(20 * time.Millisecond) // the condition is a file of another process
		}
		cancel(turn.ErrStopped)
	}()
	return b.runWith(ctx, nil)
}

func wantResult(t *testing.T, r turn.Result, status turn.Status, text, reason string) {
	t.Helper()
	if r.Status != status || r.Text != text || !strings.Contains(r.Reason, reason) || (reason == "") != (r.Reason == "") {
		t.Errorf("%s %q, because %q; want %s %q, because %q\n%s", r.Status, r.Text, r.Reason, status, text, reason, r.Stderr)
	}
}

func init() {
	scripts["waits"] = func(s *scripted) {
		p := s.begin()
		s.say("working")
		s.until("session/cancel")
		os.WriteFile("cancelled", nil, 0o600)
		s.say(", cancelled")
		s.finish(p, "cancelled")
	}
	hangs := func(s *scripted) { s.begin(); s.say("working"); time.Sleep(time.Hour) }
	scripts["ignores cancel"] = hangs
	scripts["ignores cancel and SIGTERM"] = func(s *scripted) { signal.Ignore(syscall.SIGTERM); hangs(s) }
	scripts["dies"] = func(s *scripted) {
		s.begin()
		s.say("half an")
		fmt.Fprintln(os.Stderr, "out of paper")
		os.Exit(3)
	}
	scripts["dies at once"] = func(*scripted) { fmt.Fprintln(os.Stderr, "no such option --acp"); os.Exit(2) }
	scripts["closes its output"] = func(s *scripted) { s.begin(); os.Stdout.Close(); time.Sleep(time.Hour) }
	scripts["hangs"] = func(*scripted) { time.Sleep(time.Hour) } // select {} would be a deadlock, which ends a program
	scripts["hangs at new"] = func(s *scripted) { s.initialize(object{}); time.Sleep(time.Hour) }
	scripts["another version"] = func(s *scripted) { s.reply(s.until("initialize"), object{"protocolVersion": 9}); s.until("") }
	scripts["login"] = refusing(object{}, "session/new", -32000, "Authentication required", object{"details": "run x login"})
	scripts["rate limit"] = func(s *scripted) {
		p := s.begin()
		s.fault(p, -32603, "Internal error", object{"details": "429 too many requests"})
		s.until("")
	}
	scripts["flood"] = func(s *scripted) {
		p := s.begin()
		for range 20000 {
			s.say("xy")
		}
		s.finish(p, "end_turn")
	}
	scripts["long lines"] = func(s *scripted) {
		p := s.begin()
		s.line(strings.Repeat("x", maxMessage+1))
		s.say("well")
		s.finish(p, "end_turn")
	}
	scripts["does not read"] = func(s *scripted) {
		s.begin()
		for i := range maxUnsent * 3 {
			s.send(object{"jsonrpc": "2.0", "id": i, "method": "fs/read_text_file", "params": object{"path": strings.Repeat("x", 100)}})
		}
		s.say("done")
		time.Sleep(time.Hour)
	}
	scripts["unknown requests"] = func(s *scripted) {
		p := s.begin()
		for i, method := range []string{"fs/read_text_file", "terminal/create", "elicitation/create", "_x"} {
			s.send(object{"jsonrpc": "2.0", "id": i, "method": method, "params": object{}})
			if h := s.read(); h.Error == nil || h.Error.Code != codeNoMethod {
				s.say("not refused: " + method)
			}
		}
		s.say("all refused")
		s.finish(p, "end_turn")
	}
	scripts["refuses"] = func(s *scripted) { p := s.begin(); s.say("I would rather not."); s.finish(p, "refusal") }
	scripts["stays"] = func(s *scripted) {
		signal.Ignore(syscall.SIGTERM)
		p := s.begin()
		s.say("done")
		s.end(p, "end_turn")
		time.Sleep(time.Hour)
	}
	scripts["loads sessions"] = func(s *scripted) {
		s.initialize(object{"loadSession": true})
		s.newSession()
		s.answer("hello")
	}
}

// TestStopCancelsTurn checks that a stop cancels the turn before it ends the process.
func TestStopCancelsTurn(t *testing.T) {
	t.Parallel()
	b := newFixture(t, "waits")
	wantResult(t, b.stopAt("working"), turn.Canceled, "working, cancelled", "stopped")
	if _, err := os.Stat(filepath.Join(b.Workdir, "cancelled")); err != nil {
		t.Error("the agent got no session/cancel")
	}
}

// TestStopUnresponsiveAgent checks that a stop ends an agent that ignores it.
func TestStopUnresponsiveAgent(t *testing.T) {
	t.Parallel()
	for script, text := range map[string]string{
		"ignores cancel": "working", "ignores cancel and SIGTERM": "working", "does not read": "agent does not read",
	} {
		t.Run(script, func(t *testing.T) {
			t.Parallel()
			b := newFixture(t, script)
			b.Grace = 300 * time.Millisecond
			if r := b.stopAt(text); r.Status != turn.Canceled {
				t.Errorf("%+v", r)
			}
			b.wantNoProcesses()
		})
	}
}

// TestBadAgents checks that the turn of a hostile or broken agent ends, and all its processes.
func TestBadAgents(t *testing.T) {
	t.Parallel()
	for script, c := range map[string]struct {
		status       turn.Status
		text, reason string
	}{
		"dies":              {turn.Failed, "half an", "the agent ended without an answer: exit status 3: out of paper"},
		"dies at once":      {turn.Failed, "", "exit status 2: no such option --acp"},
		"closes its output": {turn.Failed, "", "it closed its output"},
		"hangs":             {turn.TimedOut, "", "printed nothing for 1.5s"},
		"hangs at new":      {turn.TimedOut, "", "printed nothing for 1.5s"},
		"another version":   {turn.Failed, "", "unsupported protocol version 9, expected 1"},
		"rate limit":        {turn.Failed, "", "Internal error: 429 too many requests"},
		"flood":             {turn.Success, strings.Repeat("xy", 20000), ""},
		"long lines":        {turn.Success, "well", ""},
		"unknown requests":  {turn.Success, "all refused", ""},
		"refuses":           {turn.Failed, "I would rather not.", "the agent refused this message"},
		"stays":             {turn.Success, "done", ""},
	} {
		t.Run(script, func(t *testing.T) {
			t.Parallel()
			b := newFixture(t, script)
			if strings.HasPrefix(script, "hangs") {
				b.Silence, b.Grace = 1500*time.Millisecond, 200*time.Millisecond
			}
			wantResult(t, b.run(), c.status, c.text, c.reason)
			b.wantNoProcesses()
		})
	}
}

func TestMissingLogin(t *testing.T) {
	t.Parallel()
	r := newFixture(t, "login").run()
	if r.Credential == nil || !strings.Contains(r.Credential.Error(), "agent:acp") || !strings.Contains(r.Credential.Error(), "run x login") {
		t.Errorf("%+v", r)
	}
}

// TestTextAfterPromptAnswer checks that text after the end of the turn belongs to the answer.
func TestTextAfterPromptAnswer(t *testing.T) {
	t.Parallel()
	for _, script := range []string{"answers before it speaks", "answers in the middle"} {
		if r := newFixture(t, script).run(); r.Status != turn.Success || r.Text != "It is late." {
			t.Errorf("%s: %s %q", script, r.Status, r.Text)
		}
	}
}

func TestSessionIsKept(t *testing.T) {
	t.Parallel()
	b := newFixture(t, "loads sessions")
	if r := b.run(); r.Session != "s1" {
		t.Errorf("session %q", r.Session)
	}
	b = newFixture(t, "plain")
	if r := b.run(); r.Session != "" {
		t.Errorf("session %q of an agent that cannot load sessions", r.Session)
	}
	b = newFixture(t, "gone")
	b.Session = "kept"
	if r := b.run(); !r.SessionFailed || r.Session != "" || r.Credential != nil {
		t.Errorf("%+v", r)
	}
}

// TestDecisionsHoldForNextAttempt checks that the operator's answer to the question of an attempt is
// valid for the next ones until it is used.
func TestDecisionsHoldForNextAttempt(t *testing.T) {
	t.Parallel()
	b := newFixture(t, "cancels in order")
	b.Config.Env = map[string]string{"TEST_QUESTIONS": t.TempDir()}
	b.Grants.Ask = true
	wantResult(t, b.run(), turn.Success, "I would like to. \n\ncancelled", "")

	dir := filepath.Dir(b.Dir)
	once, refused := turn.Decisions(dir, map[string]bool{"q1": false, "q2": true})
	if len(once) > 0 || !slices.Equal(refused, []string{identityOf(t, shell("ls"))}) {
		t.Errorf("%q, %q", once, refused)
	}
	once, refused = turn.Decisions(dir, map[string]bool{"q1": true})
	if !slices.Equal(once, []string{identityOf(t, shell("ls"))}) || len(refused) > 0 {
		t.Errorf("%q, %q", once, refused)
	}

	b.prepare(2)
	b.Command[2], b.Grants.Once = "asks for another first", once
	wantResult(t, b.run(), turn.Success, "cancelled \n\ncancelled \n\ncancelled", "") // it asks for another one first, and the turn waits
	if got, _ := turn.Decisions(dir, map[string]bool{"q1": true}); len(got) != 1 {
		t.Errorf("%q is not left", got)
	}
	b.prepare(3)
	b.Grants.Ask = false
	wantResult(t, b.run(), turn.Success, "ao \n\nro", "")
	if got, _ := turn.Decisions(dir, map[string]bool{"q1": true}); len(got) > 0 {
		t.Errorf("%q is left, although it was used", got)
	}
}

// TestAskACP asks an agent for its description, as doctor and init do.
func TestAskACP(t *testing.T) {
	t.Parallel()
	about, err := newFixture(t, "replay").AskACP(t.Context())
	if want := (turn.ACPAgent{Name: "scripted", Version: "1.2", Protocol: 1, Loads: true}); err != nil || about != want {
		t.Errorf("%+v, %v", about, err)
	}
	for script, want := range map[string]string{"dies at once": "no such option --acp", "another version": "protocol version 9"} {
		if _, err := newFixture(t, script).AskACP(t.Context()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", script, err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if _, err := newFixture(t, "hangs").AskACP(ctx); err == nil {
		t.Error("an agent that hangs has a description")
	}
}

// TestInSandbox checks that our process and the agent run in a sandbox.
func TestInSandbox(t *testing.T) {
	t.Parallel()
	b := newFixture(t, "waits")
	if _, err := box.Bubblewrap(t.Context(), b.Self); err != nil {
		if os.Getenv("AGENTSTATELOOP_REQUIRE_REAL") != "" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	b.Box = &turn.Sandbox{Network: true}
	wantResult(t, b.stopAt("working"), turn.Canceled, "working, cancelled", "stopped")
	b = newFixture(t, "plain")
	b.Box = &turn.Sandbox{}
	wantResult(t, b.run(), turn.Success, "It is blue.", "")
	if about, err := newFixture(t, "plain").AskACP(t.Context()); err != nil || about.Name != "scripted" {
		t.Errorf("%+v, %v", about, err)
	}
}
