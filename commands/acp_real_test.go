package commands

import (
	"path/filepath"
	"strings"
	"testing"

	"agentstateloop/internal/testkit/clitest"
)

// TestRealACPTools has the real agents use our tools over ACP, without a permission for the calls.
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
			addRealAgent(t, s, runner, "", toolCall(runner, "remember", map[string]any{"text": "never on a Friday"}), clitest.Answer{Text: "Done."})
			config := strings.NewReplacer(`runner = "`+runner+`"`, `runner = "acp"`, replace[0], replace[1]).Replace(s.read("alpha", "agent.toml"))
			writeFile(t, filepath.Join(s.dirs["alpha"], "agent.toml"), config)
			s.run("alpha", "tell", "--no-wait", "the lighthouse needs a test")
			s.run("alpha", "poll")
			if memory := readMemory(t, s); memory != "never on a Friday" {
				t.Errorf("the memory is %q", memory)
			}
			if events := s.run("alpha", "events", "-n", "0"); runner == "claude" && !strings.Contains(events, "agentstateloop/remember") {
				t.Errorf("the events do not name the tool:\n%s", events)
			}
		})
	}
}
