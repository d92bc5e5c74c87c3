package config

import (
	"fmt"
	"testing"
)

// The runners that can start the server do, unless mcp = false.
func TestOffersTools(t *testing.T) {
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
		file := writeConfig(t, fmt.Sprintf("[agent]\nhandle = \"goulard3120\"\noperator = [\"you@example.com\"]\n[turn]\n%s\n", c.turn))
		a, err := newTestLoader().Load(file)
		if err != nil {
			t.Fatal(err)
		}
		if a.Turn.MCP != c.want {
			t.Errorf("%s: MCP is %v", c.turn, a.Turn.MCP)
		}
	}
}
