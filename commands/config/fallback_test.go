package config

import (
	"slices"
	"strings"
	"testing"

	"agentstateloop/turn"
)

const fallbackAgent = `[agent]
handle = "goulard3120"
[schedule]
mode = "none"
`

// TestFallbackSettings checks which settings of a fallback come from its own section, and which ones
// from [turn].
func TestFallbackSettings(t *testing.T) {
	agent := mustLoad(t, fallbackAgent+`
[turn]
runner = "claude"
low_args = ["--model", "haiku"]
on_limit = "low"
timeout = "3m"
workdir = "/srv/work"
env = { PATH = "/bin", A = "1" }
[turn.permissions]
operator = ["--allowedTools", "Bash"]
[[turn.fallback]]
runner = "claude"
env = { A = "2" }
[[turn.fallback]]
runner = "codex"
command = ["codex", "-m", "gpt-5"]
permissions = { operator = [] }
[[turn.fallback]]
runner = "api"
provider = "openai"
base_url = "http://127.0.0.1:11434/v1"
model = "qwen3"
context_window = 8192
`)
	want := []string{"agent:claude", "agent:claude:low", "agent:claude:1", "agent:codex:2", "agent:api:3"}
	if !slices.Equal(agent.Policy.Backends, want) || agent.Policy.Login != want[0] {
		t.Errorf("backends %q, login %q", agent.Policy.Backends, agent.Policy.Login)
	}
	second, codex, api := agent.Backends[1], agent.Backends[2], agent.Backends[3]
	if e := second.Turn.Env; e["A"] != "2" || e["PATH"] != "/bin" || second.Turn.Timeout != agent.Turn.Timeout || !slices.Equal(second.Rights.Operator, agent.Rights.Operator) {
		t.Errorf("the second account: %+v, %v", second.Turn, second.Rights)
	}
	if !slices.Equal(codex.Turn.Command, []string{"codex", "-m", "gpt-5"}) || codex.Turn.Env["A"] != "1" || len(codex.Rights.Operator) > 0 || len(codex.Turn.Low.Args) > 0 {
		t.Errorf("codex: %+v, %v", codex.Turn, codex.Rights)
	}
	if c := api.Turn.Command; !slices.Equal(c[len(c)-2:], []string{"--fallback", "3"}) || api.Turn.Runner != turn.API || api.Turn.LoginName != want[4] {
		t.Errorf("api: %+v", api.Turn)
	}
	if !agent.Backends[0].Low || agent.Backends[0].Turn.Login() != want[0] {
		t.Errorf("low: %+v", agent.Backends[0])
	}
}

// TestFallbackErrors checks that each error of a fallback names the key.
func TestFallbackErrors(t *testing.T) {
	const usual = "\n[turn]\nrunner = \"claude\"\n[turn.permissions]\npeer = [\"--allowedTools\", \"Read\"]\n"
	for name, c := range map[string]struct{ text, want string }{
		"no runner":             {usual + "[[turn.fallback]]\nmodel = \"x\"\n", "turn.fallback.runner: is missing"},
		"none":                  {usual + "[[turn.fallback]]\nrunner = \"none\"\n", `turn.fallback.runner: "none" is not one of`},
		"more rights":           {usual + "[[turn.fallback]]\nrunner = \"codex\"\n", "turn.fallback.permissions.peer: is missing"},
		"no command":            {usual + "[[turn.fallback]]\nrunner = \"exec\"\npermissions = { peer = [] }\n", "turn.fallback.command: is missing"},
		"no model":              {usual + "[[turn.fallback]]\nrunner = \"api\"\nprovider = \"openai\"\nbase_url = \"http://127.0.0.1:1/v1\"\n", "turn.fallback.model: is missing"},
		"no key":                {usual + "[[turn.fallback]]\nrunner = \"api\"\nprovider = \"openai\"\nmodel = \"x\"\n", "turn.fallback.key_file: is missing"},
		"five":                  {usual + strings.Repeat("[[turn.fallback]]\nrunner = \"claude\"\n", 5), "turn.fallback: 5 fallbacks are set"},
		"without a runner":      {"\n[turn]\nrunner = \"none\"\n[[turn.fallback]]\nrunner = \"claude\"\n", "turn.fallback: has no effect"},
		"low without a model":   {"\n[turn]\nrunner = \"claude\"\non_limit = \"low\"\n", `turn.on_limit: "low" requires a cheaper model`},
		"another word":          {"\n[turn]\nrunner = \"claude\"\non_limit = \"stop\"\n", `turn.on_limit: "stop" is not one of`},
		"the second one's line": {usual + "[[turn.fallback]]\nrunner = \"claude\"\n[[turn.fallback]]\nrunner = \"x\"\n", "agent.toml:12: turn.fallback.runner"},
	} {
		t.Run(name, func(t *testing.T) { wantError(t, fallbackAgent+c.text, c.want, "") })
	}
}
