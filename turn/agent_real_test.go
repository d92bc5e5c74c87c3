package turn

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"agentstateloop/internal/testkit/clitest"
	"agentstateloop/state"
)

// realCLI prepares an attempt of one of the real CLIs, with its own home that is set up for the
// scripted provider only, or skips the test.
func realCLI(t *testing.T, runner string, answers ...clitest.Answer) (*fixture, *clitest.Provider) {
	t.Helper()
	dir := os.Getenv("AGENTSTATELOOP_CLIS")
	if _, err := os.Stat(filepath.Join(dir, runner)); dir == "" || err != nil {
		if os.Getenv("AGENTSTATELOOP_REQUIRE_REAL") != "" {
			t.Fatalf("no %s in AGENTSTATELOOP_CLIS=%q", runner, dir)
		}
		t.Skipf("no %s: set AGENTSTATELOOP_CLIS to the node_modules/.bin that has it", runner)
	}
	p := clitest.New(t, answers...)
	home := t.TempDir()
	b := newFixture(t, "")
	b.Runner, b.Command = runner, []string{filepath.Join(dir, runner)}
	b.Timeout = 5 * time.Minute // on a busy machine it starts within one
	b.Prompt = []byte("what do you see? answer @goulard3120\n")
	args, env, err := clitest.Home(runner, home, p.URL)
	if err != nil {
		t.Fatal(err)
	}
	b.Command, b.Config.Env = append(b.Command, args...), env
	return b, p
}

func writeConfig(t *testing.T, file, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// realAgent has the names that one CLI gives to the tools and options of these tests.
type realAgent struct {
	runner       string
	shell, arg   string   // its shell tool
	allow        []string // lets it run
	overloaded   int      // a status after which it tries again
	cost, thinks bool     // whether its stream reports them
	box          *Sandbox // nil: none
}

// start prepares an attempt of the agent.
func (a realAgent) start(t *testing.T, answers ...clitest.Answer) (*fixture, *clitest.Provider) {
	t.Helper()
	b, p := realCLI(t, a.runner, answers...)
	b.Box = a.box
	return b, p
}

func TestRealClaude(t *testing.T) {
	runRealAgentTests(t, realAgent{Claude, "Bash", "command", []string{"--allowedTools", "Bash"}, 529, true, true, nil})
}

func TestRealCodex(t *testing.T) {
	runRealAgentTests(t, realAgent{Codex, "exec_command", "cmd", []string{"--dangerously-bypass-approvals-and-sandbox"}, 503, false, true, nil})
}

// TestRealCodexPermissions checks that the permissions of a turn are set again with each resume.
func TestRealCodexPermissions(t *testing.T) {
	b, p := realCLI(t, Codex, clitest.Answer{Text: "one"}, clitest.Answer{Text: "two"})
	b.Extra = []string{"--sandbox", "read-only"}
	first := b.run()
	first.check(t, Success, ExitClean, "one", "")
	if p.Saw("danger-full-access") {
		t.Error("the first turn may do anything")
	}
	b.again("2")
	b.Session, b.Extra = first.Session, []string{"--sandbox", "danger-full-access"}
	b.run().check(t, Success, ExitClean, "two", "")
	if !p.Saw("danger-full-access") {
		t.Error("the resumed turn did not get its permissions")
	}
}

func TestRealGemini(t *testing.T) {
	runRealAgentTests(t, realAgent{Gemini, "run_shell_command", "command", []string{"--yolo"}, 503, false, false, nil})
}

func runRealAgentTests(t *testing.T, a realAgent) {
	t.Run("text, then resumed", func(t *testing.T) {
		b, p := a.start(t, clitest.Answer{Text: "a lighthouse"}, clitest.Answer{Text: "and the sea"})
		first := b.run()
		first.check(t, Success, ExitClean, "a lighthouse", "")
		if l, err := ReadLive(b.Dir); err != nil || l.Lifecycle != LifecycleKilled || l.Reason != "clean exit" || l.State != StateIdle || l.WaitingTools != 0 {
			t.Errorf("its view at the end is %+v, %v", l, err)
		}
		if first.Session == "" || first.Usage.Input == 0 || first.Usage.Output == 0 || a.cost && first.CostUSD == 0 && first.Model == "" {
			t.Errorf("%+v", first)
		}
		if !p.Saw("answer @goulard3120") {
			t.Error("the prompt never reached the provider")
		}
		b.again("2")
		b.Session = first.Session
		b.Prompt = []byte("what else?\n")
		b.Settle = time.Millisecond // it has not yet ended then
		second := b.answer(t.Context())
		if second.Rest == nil {
			t.Log("its process ended as it was done")
		} else {
			second.check(t, Success, ExitIdle, "and the sea", "")
			second = second.Rest()
		}
		second.check(t, Success, ExitClean, "and the sea", "")
		if second.Session == "" || second.SessionFailed {
			t.Errorf("session %q after %q", second.Session, first.Session)
		}
		// The earlier cost of the session is not reported as this process's again.
		switch a.runner {
		case Codex:
			if second.Meter != second.Session || second.Usage.Input != 2*first.Usage.Input {
				t.Errorf("the meter of %s shows %+v after %+v", second.Meter, second.Usage, first.Usage)
			}
		default:
			if second.Meter != "" || second.Usage != first.Usage || second.CostUSD > 1.1*first.CostUSD {
				t.Errorf("%+v after %+v, as if it was counted twice", second.Bill, first.Bill)
			}
		}
		if last := p.Asked()[len(p.Asked())-1]; !strings.Contains(last, "a lighthouse") || !strings.Contains(last, "what else?") {
			t.Error("the session was not resumed")
		}
	})

	t.Run("thinking and a tool", func(t *testing.T) {
		b, p := a.start(t,
			clitest.Answer{Thinking: "let me see", Text: "I will look.", Tool: a.shell, Args: map[string]any{a.arg: "printf tool-%d 42 | tee seen"}},
			clitest.Answer{Text: "It says tool-42."})
		b.Extra = a.allow
		var kinds []EventKind
		var tool Live
		res, err := b.Config.Run(t.Context(), b.Attempt, func(p Progress) {
			kinds = append(kinds, p.Event.Kind)
			if p.Event.Kind == ToolUse {
				tool = p.Live
			}
		})
		if err != nil {
			t.Fatal(err)
		}
		res.check(t, Success, ExitClean, "It says tool-42.", "")
		for _, want := range []EventKind{SessionStart, TextDelta, ToolUse, ToolResult, Done} {
			if !slices.Contains(kinds, want) {
				t.Errorf("no %s in %v", want, kinds)
			}
		}
		if a.thinks && !slices.Contains(kinds, Thinking) {
			t.Errorf("no thinking in %v", kinds)
		}
		if tool.State != StateRunningTool || tool.WaitingTools != 1 || tool.Tool == "" {
			t.Errorf("live %+v", tool)
		}
		if !p.Saw("tool-42") || readFile(t, b.Workdir, "seen") != "tool-42" {
			t.Error("the tool did not run, or its result did not reach the model")
		}
	})

	t.Run("stopped while a tool runs", func(t *testing.T) {
		b, _ := a.start(t, clitest.Answer{Text: "I will wait.", Tool: a.shell, Args: map[string]any{a.arg: "sh -c 'echo $$ > pid; exec sleep 1000'"}})
		b.Extra = a.allow
		ctx, cancel := context.WithCancelCause(t.Context())
		defer cancel(nil)
		ended := make(chan struct{})
		go func() {
			for tick := time.Tick(5 * time.Millisecond); ; {
				if pid, err := os.ReadFile(filepath.Join(b.Workdir, "pid")); err == nil && len(pid) > 0 {
					cancel(ErrStopped)
					return
				}
				select {
				case <-ended:
					return
				case <-tick:
				}
			}
		}()
		res, err := b.Config.Run(ctx, b.Attempt, nil)
		close(ended)
		if err != nil {
			t.Fatal(err)
		}
		res.check(t, Canceled, ExitStopped, "I will wait.", "stopped")
		if a.box != nil {
			return // the file has the pid in the sandbox
		}
		pid, _ := strconv.Atoi(strings.TrimSpace(readFile(t, b.Workdir, "pid")))
		if _, err := lookUp(pid); err == nil {
			killPIDFile(t, filepath.Join(b.Workdir, "pid"))
			t.Errorf("the tool outlived the agent: %q", res.Notes)
		}
	})

	t.Run("overloaded, then well", func(t *testing.T) {
		b, _ := a.start(t, clitest.Answer{Status: a.overloaded, Fault: "Overloaded"}, clitest.Answer{Text: "here now"})
		b.run().check(t, Success, ExitClean, "here now", "")
	})

	t.Run("limited until a time, then well", func(t *testing.T) {
		until := time.Now().Add(90 * time.Minute)
		b, p := a.start(t, clitest.Limit(a.runner, until), clitest.Answer{Text: "here again"})
		if a.runner == Claude { // with an API key it does not report when
			delete(b.Config.Env, "ANTHROPIC_API_KEY")
			b.Config.Env["CLAUDE_CODE_OAUTH_TOKEN"] = "sk-ant-oat01-test"
		}
		res := b.run()
		if res.Status != Failed || res.Outage == nil || res.Outage.Kind != state.UsageLimit || res.Credential != nil || res.Worked {
			t.Fatalf("%+v", res)
		}
		late := res.Outage.Until.Sub(until)
		if a.runner == Gemini && !res.Outage.Until.IsZero() { // it does not report when
			t.Errorf("it reports when: %+v", res.Outage)
		}
		if a.runner != Gemini && (late < -2*time.Minute || late > 2*time.Minute) {
			t.Errorf("it ends %v after the provider's time: %+v", late, res.Outage)
		}
		if n := len(p.Asked()); n != 1 {
			t.Errorf("the limit was met %d times", n)
		}
		b.again("2")
		b.Session = ""
		b.run().check(t, Success, ExitClean, "here again", "")
	})

	t.Run("overloaded for long", func(t *testing.T) {
		b, _ := a.start(t, clitest.Answer{Status: a.overloaded, Fault: "Overloaded"})
		b.Timeout = time.Minute
		if res := b.run(); res.Outage == nil || res.Outage.Kind != state.Overload || res.Credential != nil || res.Worked {
			t.Errorf("%+v", res)
		}
	})

	t.Run("a session that is too long", func(t *testing.T) {
		b, p := a.start(t, clitest.Answer{Text: "one"}, clitest.Answer{Status: 400, Fault: "prompt is too long: 205000 tokens > 200000 maximum"})
		first := b.run()
		first.check(t, Success, ExitClean, "one", "")
		b.again("2")
		b.Session = first.Session
		if res := b.run(); !res.SessionFailed || res.Session != "" || res.Status != Failed || res.Outage != nil {
			t.Errorf("%+v", res)
		}
		if n, most := len(p.Asked())-1, map[string]int{Claude: 5, Codex: 1, Gemini: 1}[a.runner]; n > most { // claude sums up first
			t.Errorf("it was asked %d times, want %d at most", n, most)
		}
	})

	t.Run("refused", func(t *testing.T) {
		b, _ := a.start(t, clitest.Answer{Status: 401, Fault: "invalid x-api-key"})
		res := b.run()
		if c, ok := state.CredentialFailure(res.Credential); !ok || c.Name != "agent:"+a.runner || res.Status != Failed {
			t.Errorf("%+v", res)
		}
	})

	t.Run("not logged in", func(t *testing.T) {
		b, _ := a.start(t, clitest.Answer{Text: "never"})
		for _, key := range []string{"ANTHROPIC_API_KEY", "TEST_KEY", "GEMINI_API_KEY"} {
			delete(b.Config.Env, key)
		}
		res := b.run()
		if c, ok := state.CredentialFailure(res.Credential); !ok || c.Name != "agent:"+a.runner || res.Status != Failed {
			t.Errorf("%+v", res)
		}
	})

	t.Run("cut stream", func(t *testing.T) {
		b, _ := a.start(t, clitest.Answer{Text: "half an answer", Cut: true})
		res := b.run()
		if res.Status != Failed || res.Reason == "" || res.Credential != nil {
			t.Errorf("%+v", res)
		}
	})

	t.Run("stale session", func(t *testing.T) {
		b, _ := a.start(t, clitest.Answer{Text: "fresh"})
		b.Session = "12345678-1234-4234-8234-123456789012"
		res := b.run()
		if !res.SessionFailed || res.Session != "" || res.Status != Failed || res.Credential != nil {
			t.Errorf("%+v", res)
		}
		b.again("2")
		b.Session = ""
		b.run().check(t, Success, ExitClean, "fresh", "")
	})
}

// TestRealLowModel checks that low_args choose the model, also in a session that began with another
// one. With the next message the session goes back to the usual model, if that is named: claude keeps
// the model that a session had last.
func TestRealLowModel(t *testing.T) {
	for _, c := range []struct {
		runner         string
		command, extra []string // the usual model, in command or in [turn.permissions]
		low            []string
		want           []string // asked, one by one
		env            string   // the usual model, in env
	}{
		{Claude, []string{"--model", "claude-opus-4-8"}, nil, []string{"--model", "claude-haiku-4-5"}, []string{"claude-opus-4-8", "claude-haiku-4-5", "claude-opus-4-8"}, ""},
		{Claude, []string{}, nil, []string{"--model", "claude-haiku-4-5"}, []string{"", "claude-haiku-4-5", "claude-haiku-4-5"}, ""},
		{Claude, nil, nil, []string{"--model", "claude-haiku-4-5"}, []string{"claude-opus-4-8", "claude-haiku-4-5", "claude-opus-4-8"}, "claude-opus-4-8"},
		{Codex, []string{"-m", "gpt-5-codex"}, nil, []string{"-m", "gpt-5-mini"}, []string{"gpt-5-codex", "gpt-5-mini", "gpt-5-codex"}, ""},
		{Codex, nil, []string{"-m", "gpt-5-codex"}, []string{"-m", "gpt-5-mini"}, []string{"gpt-5-codex", "gpt-5-mini", "gpt-5-codex"}, ""},
		{Gemini, []string{"--model", "gemini-2.5-pro"}, nil, []string{"--model", "gemini-2.5-flash"}, []string{"gemini-2.5-pro", "gemini-2.5-flash", "gemini-2.5-pro"}, ""},
	} {
		t.Run(strings.Join(slices.Concat([]string{c.runner}, c.command, c.extra), " ")+c.env, func(t *testing.T) {
			b, p := realCLI(t, c.runner, clitest.Answer{Text: "yes"})
			if c.env != "" {
				b.Config.Env["ANTHROPIC_MODEL"] = c.env
			}
			if keeps := c.want[2] == c.low[1]; b.Runner == Claude && wantKeepsLow(b, c.command, c.low) != keeps {
				t.Errorf("KeepsLow returns %v", !keeps)
			}
			b.Command, b.Extra = slices.Concat(b.Command[:1], c.command), c.extra
			b.Low.Args = c.low
			usual, attempt := b.Config, b.Attempt
			for i, low := range []bool{false, true, false} {
				attempt.Session = b.Session
				b.Config, b.Attempt = usual, attempt
				b.again(strconv.Itoa(i + 2))
				if low {
					lowered, attempt := b.WithLow(b.Attempt)
					b.Config, b.Attempt = *lowered, attempt
				}
				res := b.run()
				res.check(t, Success, ExitClean, "yes", "")
				b.Session = res.Session
			}
			if c.want[0] == "" {
				c.want[0] = p.Models()[0] // the default
			}
			if !slices.Equal(p.Models(), c.want) {
				t.Errorf("asked %q, want %q", p.Models(), c.want)
			}
		})
	}
}

// wantKeepsLow returns KeepsLow of a program with these arguments.
func wantKeepsLow(b *fixture, command, low []string) bool {
	c := b.Config
	c.Command, c.Low.Args = slices.Concat(b.Command[:1], command), low
	return c.KeepsLow(nil)
}

// again prepares the next attempt of the same turn.
func (b *fixture) again(epoch string) {
	b.t.Helper()
	b.Dir = filepath.Join(filepath.Dir(b.Dir), epoch)
	if err := Prepare(b.Dir, nil, ""); err != nil {
		b.t.Fatal(err)
	}
}
