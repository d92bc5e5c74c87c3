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

// host is turn.ACPCommand. A question to the operator is written to a file, and its id is
// its number.
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
		return "", errors.New("nobody is there")
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

// wantNoProcesses fails the test unless nothing of the attempt lives. The kernel closes the files
// of a process's last threads a moment after its end.
func (b *fixture) wantNoProcesses() {
	b.t.Helper()
	held, _, err := turn.Probe(b.Dir)
	for until := time.Now().Add(5 * time.Second); held && time.Now().Before(until); held, _, err = turn.Probe(b.Dir) {
		time.Sleep(10 * time.Millisecond) // a lock tells nobody that it is free
	}
	if held || err != nil {
		b.t.Errorf("it lives: %v, %v", held, err)
	}
}

func (b *fixture) run() turn.Result {
	b.t.Helper()
	res, err := b.Config.Run(b.t.Context(), b.Attempt, nil)
	if err != nil {
		b.t.Fatal(err)
	}
	return res
}

// stopAt runs the attempt, and stops it when the agent has said want.
func (b *fixture) stopAt(want string) turn.Result {
	b.t.Helper()
	ctx, cancel := context.WithCancelCause(b.t.Context())
	defer cancel(nil)
	res, err := b.Config.Run(ctx, b.Attempt, func(p turn.Progress) {
		if strings.Contains(p.Event.Text, want) {
			cancel(turn.ErrStopped)
		}
	})
	if err != nil {
		b.t.Fatal(err)
	}
	return res
}

// stopWhen runs the attempt, and stops it when something holds.
func (b *fixture) stopWhen(holds func() bool) turn.Result {
	b.t.Helper()
	ctx, cancel := context.WithCancelCause(b.t.Context())
	defer cancel(nil)
	go func() {
		for !holds() && ctx.Err() == nil {
			time.Sleep(20 * time.Millisecond) // what holds is a file of another process
		}
		cancel(turn.ErrStopped)
	}()
	res, err := b.Config.Run(ctx, b.Attempt, nil)
	if err != nil {
		b.t.Fatal(err)
	}
	return res
}

func check(t *testing.T, r turn.Result, status turn.Status, text, reason string) {
	t.Helper()
	if r.Status != status || r.Text != text || !strings.Contains(r.Reason, reason) || (reason == "") != (r.Reason == "") {
		t.Errorf("%s %q, because %q; want %s %q, because %q\n%s", r.Status, r.Text, r.Reason, status, text, reason, r.Stderr)
	}
}

func init() {
	waits := func(s *scripted, p received) {
		s.say("working")
		s.until("session/cancel")
		os.WriteFile("cancelled", nil, 0o600)
		s.say(", cancelled")
		s.end(p, "cancelled")
		s.until("")
	}
	scripts["waits"] = func(s *scripted) { waits(s, s.begin()) }
	scripts["ignores all"] = func(s *scripted) {
		signal.Ignore(syscall.SIGTERM)
		s.begin()
		s.say("working")
		select {}
	}
	scripts["answers no cancel"] = func(s *scripted) {
		s.begin()
		s.say("working")
		time.Sleep(time.Hour)
	}
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
	scripts["login"] = func(s *scripted) {
		s.initialize(object{})
		s.fault(s.until("session/new"), -32000, "Authentication required", object{"details": "run x login"})
		s.until("")
	}
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
		s.end(p, "end_turn")
		s.until("")
	}
	scripts["long lines"] = func(s *scripted) {
		p := s.begin()
		s.line(strings.Repeat("x", maxMessage+1))
		s.say("well")
		s.end(p, "end_turn")
		s.until("")
	}
	scripts["does not read"] = func(s *scripted) {
		s.begin()
		for i := range maxUnsent * 3 {
			s.send(object{"jsonrpc": "2.0", "id": i, "method": "fs/read_text_file", "params": object{"path": strings.Repeat("x", 100)}})
		}
		s.say("done")
		time.Sleep(time.Hour)
	}
	scripts["asks much"] = func(s *scripted) {
		p := s.begin()
		for i, method := range []string{"fs/read_text_file", "terminal/create", "elicitation/create", "_x"} {
			s.send(object{"jsonrpc": "2.0", "id": i, "method": method, "params": object{}})
			if h := s.read(); h.Error == nil || h.Error.Code != codeNoMethod {
				s.say("not refused: " + method)
			}
		}
		s.say("all refused")
		s.end(p, "end_turn")
		s.until("")
	}
	scripts["refuses"] = func(s *scripted) { p := s.begin(); s.say("I would rather not."); s.end(p, "refusal"); s.until("") }
	scripts["stays"] = func(s *scripted) {
		signal.Ignore(syscall.SIGTERM)
		p := s.begin()
		s.say("done")
		s.end(p, "end_turn")
		time.Sleep(time.Hour)
	}
	scripts["tells its session"] = func(s *scripted) {
		s.initialize(object{"loadSession": true})
		s.newSession()
		p := s.until("session/prompt")
		s.say("hello")
		s.end(p, "end_turn")
		s.until("")
	}
}

// A stop cancels the turn before it ends the process.
func TestStop(t *testing.T) {
	t.Parallel()
	b := newFixture(t, "waits")
	check(t, b.stopAt("working"), turn.Canceled, "working, cancelled", "stopped")
	if _, err := os.Stat(filepath.Join(b.Workdir, "cancelled")); err != nil {
		t.Error("the agent was not asked to cancel")
	}
}

// An agent that does not heed the stop is ended, and killed.
func TestStopUnresponsiveAgent(t *testing.T) {
	t.Parallel()
	for _, script := range []string{"answers no cancel", "ignores all", "does not read"} {
		t.Run(script, func(t *testing.T) {
			t.Parallel()
			b := newFixture(t, script)
			b.Grace = 300 * time.Millisecond
			want := "working"
			if script == "does not read" {
				want = "agent does not read"
			}
			if r := b.stopAt(want); r.Status != turn.Canceled {
				t.Errorf("%+v", r)
			}
			b.wantNoProcesses()
		})
	}
}

// A hostile or broken agent costs its turn alone, and ends with it.
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
		"asks much":         {turn.Success, "all refused", ""},
		"refuses":           {turn.Failed, "I would rather not.", "the agent refused this message"},
		"stays":             {turn.Success, "done", ""},
	} {
		t.Run(script, func(t *testing.T) {
			t.Parallel()
			b := newFixture(t, script)
			if strings.HasPrefix(script, "hangs") {
				b.Silence, b.Grace = 1500*time.Millisecond, 200*time.Millisecond
			}
			check(t, b.run(), c.status, c.text, c.reason)
			b.wantNoProcesses()
		})
	}
}

func TestCredential(t *testing.T) {
	t.Parallel()
	r := newFixture(t, "login").run()
	if r.Credential == nil || !strings.Contains(r.Credential.Error(), "agent:acp") || !strings.Contains(r.Credential.Error(), "run x login") {
		t.Errorf("%+v", r)
	}
}

// Text that comes after the answer to the prompt belongs to the answer.
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
	b := newFixture(t, "tells its session")
	if r := b.run(); r.Session != "s1" {
		t.Errorf("session %q", r.Session)
	}
	b = newFixture(t, "plain")
	if r := b.run(); r.Session != "" {
		t.Errorf("session %q of an agent that can load none", r.Session)
	}
	b = newFixture(t, "gone")
	b.Session = "kept"
	if r := b.run(); !r.SessionFailed || r.Session != "" || r.Credential != nil {
		t.Errorf("%+v", r)
	}
}

// What the operator has answered to the question of an attempt holds for the next one,
// and until it was used.
func TestDecisionsHoldForNextAttempt(t *testing.T) {
	t.Parallel()
	b := newFixture(t, "cancels in order")
	b.Config.Env = map[string]string{"TEST_QUESTIONS": t.TempDir()}
	b.Grants.Ask = true
	check(t, b.run(), turn.Success, "I would like to. \n\ncancelled", "")

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
	check(t, b.run(), turn.Success, "cancelled \n\ncancelled \n\ncancelled", "") // it asks for another one first, and the turn waits
	if got, _ := turn.Decisions(dir, map[string]bool{"q1": true}); len(got) != 1 {
		t.Errorf("%q is not left", got)
	}
	b.prepare(3)
	b.Grants.Ask = false
	check(t, b.run(), turn.Success, "ao \n\nro", "")
	if got, _ := turn.Decisions(dir, map[string]bool{"q1": true}); len(got) > 0 {
		t.Errorf("%q is left, although it was used", got)
	}
}

// doctor and init ask the agent what it is.
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
		t.Error("an agent that hangs has an answer")
	}
}

// In a sandbox both our process and the agent run.
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
	check(t, b.stopAt("working"), turn.Canceled, "working, cancelled", "stopped")
	b = newFixture(t, "plain")
	b.Box = &turn.Sandbox{}
	check(t, b.run(), turn.Success, "It is blue.", "")
	if about, err := newFixture(t, "plain").AskACP(t.Context()); err != nil || about.Name != "scripted" {
		t.Errorf("%+v, %v", about, err)
	}
}
