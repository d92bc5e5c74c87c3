package config

import (
	"fmt"
	"testing"
)

// TestMCPDefaultByRunner checks that the runners with MCP start the server, unless mcp = false.
func TestMCPDefaultByRunner(t *testing.T) {
	for _, c := range []struct {
		turn string
		want bool
	}{
		{`runner = "claude"`, true},
		{`runner = "codex"`, true},
		{`runner = "gemini"`, true},
		{"runner = \"claude\"\nmcp = true", true},
		{"runner = \"claude\"\nmcp = false", false},
		{"runner = \"gemini\"\nmcp = false", false},
		{`command = ["./reply.sh"]`, false},
		{"command = [\"./reply.sh\"]\nmcp = false", false},
	} {
		a := mustLoad(t, fmt.Sprintf("[agent]\nhandle = \"goulard3120\"\noperator = [\"you@example.com\"]\n[turn]\n%s\n", c.turn))
		if a.Turn.MCP != c.want {
			t.Errorf("%s: MCP is %v", c.turn, a.Turn.MCP)
		}
	}
}
