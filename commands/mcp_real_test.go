package commands

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"agentstateloop/turn/clitest"
)

// realTurn is an agent whose program is one of the real ones, and whose model is scripted.
func realTurn(t *testing.T, s *meshAgents, runner, handle, extra string, answers ...clitest.Answer) *clitest.Provider {
	t.Helper()
	clis := os.Getenv("AGENTSTATELOOP_CLIS")
	cli := filepath.Join(clis, runner)
	if _, err := os.Stat(cli); clis == "" || err != nil {
		if os.Getenv("AGENTSTATELOOP_REQUIRE_REAL") != "" {
			t.Fatalf("no %s in AGENTSTATELOOP_CLIS=%q", runner, clis)
		}
		t.Skipf("no %s: set AGENTSTATELOOP_CLIS to the node_modules/.bin that has it", runner)
	}
	model := clitest.New(t, answers...)
	home := t.TempDir()
	args, env, err := clitest.Home(runner, home, model.URL)
	if err != nil {
		t.Fatal(err)
	}
	s.add(handle, "exit 1", "beta")
	var variables []string
	for k, v := range env {
		variables = append(variables, fmt.Sprintf("%s = %q", k, v))
	}
	command := strings.ReplaceAll(fmt.Sprintf("%q", append([]string{cli}, args...)), `" "`, `", "`)
	file := filepath.Join(s.dirs[handle], "agent.toml")
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	config := strings.Replace(string(text), "command = [\"./agent.sh\"]\ntimeout = \"1m\"\n",
		fmt.Sprintf("runner = %q\ncommand = %s\nenv = { %s }\n%s", runner, command, strings.Join(variables, ", "), extra), 1)
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	return model
}

// toolNames are how the programs name a tool of ours for their models.
var toolNames = map[string]func(tool string) clitest.Answer{
	"claude": func(tool string) clitest.Answer { return clitest.Answer{Tool: "mcp__agentstateloop__" + tool} },
	"codex":  func(tool string) clitest.Answer { return clitest.Answer{Namespace: "mcp__agentstateloop", Tool: tool} },
	"gemini": func(tool string) clitest.Answer { return clitest.Answer{Tool: "mcp_agentstateloop_" + tool} },
}

// calls returns a model's call of one of our tools.
func calls(runner, tool string, args map[string]any) clitest.Answer {
	a := toolNames[runner](tool)
	a.Args = args
	return a
}

// TestRealTools has the real agents use our tools, with permissions that let them run no
// command at all.
func TestRealTools(t *testing.T) {
	program := buildProgram(t, t.TempDir())
	for runner, denied := range map[string]string{
		"claude": "[turn.permissions]\noperator = [\"--disallowedTools\", \"Bash\"]\n",
		"codex":  "[turn.permissions]\noperator = [\"--sandbox\", \"read-only\", \"--disable\", \"shell_tool\"]\n",
		"gemini": "", // without --yolo it runs no command
	} {
		t.Run(runner, func(t *testing.T) {
			t.Parallel()
			testRealTools(t, newMeshAgents(t, program), runner, denied)
		})
	}
}

func testRealTools(t *testing.T, s *meshAgents, runner, denied string) {
	s.add("beta", "echo 'it is green'", "alpha")
	model := realTurn(t, s, runner, "alpha", denied,
		calls(runner, "remember", map[string]any{"text": "never on a Friday"}),
		calls(runner, "search_history", map[string]any{"query": "lighthouse"}),
		calls(runner, "send", map[string]any{"to": "beta", "text": "a greeting"}),
		calls(runner, "sleep", map[string]any{"minutes": 600, "reason": "look at the build"}),
		calls(runner, "ask", map[string]any{"to": "@beta", "text": "is it green?", "fields": []any{map[string]any{"name": "green", "type": "boolean"}}}),
		clitest.Answer{Text: "I wait."},
		calls(runner, "submit_result", map[string]any{"text": "all green", "fields": map[string]any{"tests": 412}}),
		clitest.Answer{Text: "Done."})
	key := strings.TrimSpace(s.run("alpha", "tell", "--no-wait", "the lighthouse needs a test"))
	s.run("alpha", "poll")
	for range 10 {
		s.run("beta", "poll")
		s.run("alpha", "poll")
		if len(s.tasks("alpha")) > 0 {
			break
		}
	}
	shown := s.run("alpha", "inbox", "show", key, "--json")
	for _, want := range []string{`"text": "all green"`, `"tests": 412`, `"status": "success"`} {
		if !strings.Contains(shown, want) {
			t.Errorf("the answer has no %s:\n%s", want, shown)
		}
	}
	if memory, err := os.ReadFile(filepath.Join(s.dirs["alpha"], "state", "memory.md")); err != nil || strings.TrimSpace(string(memory)) != "never on a Friday" {
		t.Errorf("the memory is %q, %v", memory, err)
	}
	if wakeups := s.run("alpha", "remind", "--list"); !strings.Contains(wakeups, "look at the build") {
		t.Errorf("it wakes for %q", wakeups)
	}
	all := strings.Join(model.Asked(), "\n")
	for _, want := range []string{"tools of the MCP server agentstateloop", "remembered", "the lighthouse needs a test", "it is green"} {
		if !strings.Contains(all, want) {
			t.Errorf("the model was not told %q", want)
		}
	}
	if received := s.run("beta", "history", "-n", "0", "--all"); !strings.Contains(received, "message    from alpha (mesh:alpha:send.") {
		t.Errorf("beta received no message:\n%s", received)
	}
	if events := s.run("alpha", "events", "-n", "0"); !strings.Contains(events, "agentstateloop/remember") {
		t.Errorf("the events do not name the tool:\n%s", events)
	}
}
