package commands

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"agentstateloop/internal/testkit/clitest"
)

// TestRealACPTools has the real agents use our tools over ACP. The calls need no
// permission.
func TestRealACPTools(t *testing.T) {
	t.Parallel()
	program := buildProgram(t, t.TempDir())
	for runner, replace := range map[string][2]string{
		"gemini": {`"gemini-2.5-pro"]`, `"gemini-2.5-pro", "--acp", "--skip-trust"]`},
		"claude": {`/claude"]`, `/claude-agent-acp"]`},
	} {
		t.Run(runner, func(t *testing.T) {
			t.Parallel()
			s := newMeshAgents(t, program)
			realTurn(t, s, runner, "", calls(runner, "remember", map[string]any{"text": "never on a Friday"}), clitest.Answer{Text: "Done."})
			file := filepath.Join(s.dirs["alpha"], "agent.toml")
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			config := strings.NewReplacer(`runner = "`+runner+`"`, `runner = "acp"`, replace[0], replace[1]).Replace(string(text))
			if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
				t.Fatal(err)
			}
			s.run("alpha", "tell", "--no-wait", "the lighthouse needs a test")
			s.run("alpha", "poll")
			if memory, err := os.ReadFile(filepath.Join(s.dirs["alpha"], "state", "memory.md")); err != nil || strings.TrimSpace(string(memory)) != "never on a Friday" {
				t.Errorf("the memory is %q, %v", memory, err)
			}
			if events := s.run("alpha", "events", "-n", "0"); runner == "claude" && !strings.Contains(events, "agentstateloop/remember") {
				t.Errorf("the events do not name the tool:\n%s", events)
			}
		})
	}
}
