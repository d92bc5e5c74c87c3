package acp

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"agentstateloop/internal/testkit/clitest"
	"agentstateloop/turn"
)

// realAgent is one of the real agents that speak ACP.
type realAgent struct {
	program  string // in AGENTSTATELOOP_CLIS
	of       string // whose home and protocol it has, for clitest
	args     []string
	shell    string // its tool that runs a command
	resumes  bool   // sessions without repeating them
	sameTime bool   // a session can be loaded within the minute in which it began
}

var realAgents = []realAgent{
	{"gemini", "gemini", []string{"--acp", "--skip-trust"}, "run_shell_command", false, false},
	{"claude-agent-acp", "claude", nil, "Bash", true, true},
}

// start prepares an attempt of the agent, with its own home that is set up for a scripted model only,
// or skips the test.
func (a realAgent) start(t *testing.T, answers ...clitest.Answer) (*fixture, *clitest.Provider) {
	t.Helper()
	dir := os.Getenv("AGENTSTATELOOP_CLIS")
	program := filepath.Join(dir, a.program)
	if _, err := os.Stat(program); dir == "" || err != nil {
		if os.Getenv("AGENTSTATELOOP_REQUIRE_REAL") != "" {
			t.Fatalf("no %s in AGENTSTATELOOP_CLIS=%q", a.program, dir)
		}
		t.Skipf("no %s: set AGENTSTATELOOP_CLIS to the node_modules/.bin that has it", a.program)
	}
	model := clitest.New(t, answers...)
	args, env, err := clitest.Home(a.of, t.TempDir(), model.URL)
	if err != nil {
		t.Fatal(err)
	}
	b := newFixture(t, "")
	b.Command = append(append([]string{program}, args...), a.args...)
	b.Timeout = 5 * time.Minute
	b.Config.Env = env
	b.Config.Env["TEST_QUESTIONS"] = t.TempDir()
	b.Prompt = []byte("what do you see? answer @goulard3120\n")
	return b, model
}

// again prepares another attempt.
func (a realAgent) again(b *fixture) {
	if !a.sameTime {
		backdateSessions(b.t, filepath.Join(b.Config.Env["HOME"], ".gemini"))
	}
	b.prepare(b.Epoch + 1)
}

// backdateSessions renames the sessions of gemini as if they had begun earlier: it writes over one
// that it loads in the minute in which it began.
func backdateSessions(t *testing.T, dir string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "tmp", "*", "chats", "session-*.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	for i, file := range files {
		name := filepath.Base(file)
		old := filepath.Join(filepath.Dir(file), fmt.Sprintf("session-2026-01-01T00-%02d", i)+name[strings.LastIndexByte(name, '-'):])
		if name < "session-2026-01-02" {
			continue
		}
		if err := os.Rename(file, old); err != nil {
			t.Fatal(err)
		}
	}
}

func (a realAgent) runs(command string) clitest.Answer {
	return clitest.Answer{Text: "I will look.", Tool: a.shell, Args: map[string]any{"command": command, "description": "look"}}
}

const command = "printf tool-%d 42 | tee seen"

func TestRealACP(t *testing.T) {
	for _, a := range realAgents {
		t.Run(a.program, func(t *testing.T) {
			t.Parallel()
			a.runTests(t)
		})
	}
}

func (a realAgent) runTests(t *testing.T) {
	t.Run("granted, then continued and refused", func(t *testing.T) {
		b, model := a.start(t, a.runs(command), clitest.Answer{Text: "It says so."}, a.runs("rm seen"), clitest.Answer{Text: "I may not."})
		b.Grants.Kinds = []string{"execute"}
		first := b.run()
		wantResult(t, first, turn.Success, "It says so.", "")
		if first.Session == "" || first.Usage.Input == 0 || first.Usage.Output == 0 || first.Model == "" {
			t.Errorf("%+v", first)
		}
		if !model.Saw("answer @goulard3120") || !model.Saw("tool-42") {
			t.Error("the prompt, or the result of the tool, never reached the model")
		}
		a.again(b)
		b.Session, b.Prompt, b.Grants.Kinds = first.Session, []byte("what else?\n"), []string{"read"}
		second := b.run()
		if second.Status != turn.Success || !strings.HasSuffix(second.Text, "I may not.") || strings.Contains(second.Text, "It says so.") {
			t.Errorf("%+v", second)
		}
		if second.SessionFailed || second.Session != first.Session {
			t.Errorf("%+v", second)
		}
		if asked := model.Asked(); !strings.Contains(asked[len(asked)-1], "It says so.") || !strings.Contains(asked[len(asked)-1], "what else?") {
			t.Error("the session was not continued")
		}
		if _, err := os.Stat(filepath.Join(b.Workdir, "seen")); err != nil {
			t.Error("the refused command ran")
		}
	})

	t.Run("the operator is asked, and allows", func(t *testing.T) {
		b, model := a.start(t, a.runs(command), a.runs(command), clitest.Answer{Text: "It says tool-42."})
		b.Grants.Ask = true
		first := b.run()
		if first.Status != turn.Success || first.Exit != turn.ExitClean {
			t.Errorf("%+v", first)
		}
		text, err := os.ReadFile(filepath.Join(b.Config.Env["TEST_QUESTIONS"], "q1"))
		if err != nil || !strings.Contains(string(text), "    "+command+"\n") {
			t.Errorf("asked %q, %v", text, err)
		}
		if _, err := os.Stat(filepath.Join(b.Workdir, "seen")); err == nil {
			t.Error("it ran before the answer")
		}
		dir := filepath.Dir(b.Dir)
		a.again(b)
		b.Session, b.Prompt = first.Session, []byte("your operator chose: allow\n")
		b.Grants.Once, _ = turn.Decisions(dir, map[string]bool{"q1": true})
		wantResult(t, b.run(), turn.Success, "It says tool-42.", "")
		if !model.Saw("tool-42") {
			t.Error("the allowed command did not run")
		}
		if files, _ := os.ReadDir(b.Config.Env["TEST_QUESTIONS"]); len(files) != 1 {
			t.Errorf("the operator was asked %d times", len(files))
		}
	})

	t.Run("stopped while a tool runs", func(t *testing.T) {
		b, _ := a.start(t, a.runs("echo begun > seen; exec sleep 1000"))
		b.Grants.Kinds = []string{"execute"}
		r := b.stopWhen(func() bool { _, err := os.Stat(filepath.Join(b.Workdir, "seen")); return err == nil })
		if r.Status != turn.Canceled || !strings.HasPrefix(r.Text, "I will look.") {
			t.Errorf("%+v", r)
		}
	})

	t.Run("refused by the model's service", func(t *testing.T) {
		b, _ := a.start(t, clitest.Answer{Status: 401, Fault: "invalid x-api-key"})
		r := b.run()
		if r.Credential == nil || !strings.Contains(r.Credential.Error(), "agent:acp") || r.Status != turn.Failed {
			t.Errorf("%+v", r)
		}
	})

	t.Run("its description, and a session that is gone", func(t *testing.T) {
		b, _ := a.start(t, clitest.Answer{Text: "fresh"})
		about, err := b.AskACP(t.Context())
		if err != nil || about.Name == "" || about.Version == "" || !about.Loads || about.Resumes != a.resumes {
			t.Errorf("%+v, %v", about, err)
		}
		b.Session = "12345678-1234-4234-8234-123456789012"
		if r := b.run(); !r.SessionFailed || r.Session != "" || r.Status != turn.Failed || r.Credential != nil {
			t.Errorf("%+v", r)
		}
	})
}
