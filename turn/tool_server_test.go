package turn

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// serverArgs returns the arguments that name the server for a runner's program.
func serverArgs(t *testing.T, runner string) []string {
	t.Helper()
	c := Config{Self: `/opt/our "own"/agentstateloop`, Env: map[string]string{"API_TOKEN": "hunter2hunter2", "XDG_CONFIG_HOME": "/x"}}
	a := Attempt{Dir: t.TempDir(), TurnID: "t1", Epoch: 7, Env: map[string]string{"AGENTSTATELOOP_CONFIG": "/etc/a.toml"}}
	env := c.environ(a)
	args, err := c.toolServer(env).configure(runner, &a, env)
	if err != nil {
		t.Fatal(err)
	}
	return args
}

// TestServerArguments checks that the arguments, which anybody on the machine can read, have no value
// of the environment.
func TestServerArguments(t *testing.T) {
	claude := serverArgs(t, Claude)
	want := []string{`--mcp-config={"mcpServers":{"agentstateloop":{"alwaysLoad":true,"args":["mcp"],"command":"/opt/our \"own\"/agentstateloop","type":"stdio"}}}`, "--allowedTools=mcp__agentstateloop"}
	if !slices.Equal(claude, want) {
		t.Errorf("claude gets %q, want %q", claude, want)
	}
	codex := serverArgs(t, Codex)
	want = []string{
		"-c", `mcp_servers.agentstateloop.command="/opt/our \"own\"/agentstateloop"`,
		"-c", `mcp_servers.agentstateloop.args=["mcp"]`,
		"-c", `mcp_servers.agentstateloop.env_vars=["AGENTSTATELOOP_CONFIG","AGENTSTATELOOP_CONTEXT","AGENTSTATELOOP_EPOCH","AGENTSTATELOOP_OUTPUT","AGENTSTATELOOP_TURN","XDG_CONFIG_HOME"]`,
		"-c", `mcp_servers.agentstateloop.default_tools_approval_mode="approve"`,
		"-c", "mcp_servers.agentstateloop.tool_timeout_sec=150",
	}
	if !slices.Equal(codex, want) {
		t.Errorf("codex gets %q, want %q", codex, want)
	}
	if args := serverArgs(t, Exec); args != nil {
		t.Errorf("exec gets %q", args)
	}
}

// TestServerArgumentOrder checks that the user's arguments come after ours and before those of a
// session.
func TestServerArgumentOrder(t *testing.T) {
	a := Attempt{Session: "s1", Extra: []string{"--extra"}, toolArgs: []string{"--ours"}}
	for runner, want := range map[string]string{
		Claude: "x -p --output-format stream-json --verbose --ours --resume s1 --extra",
		Codex:  "x exec --json --skip-git-repo-check --ours --extra resume s1 -",
		Gemini: "x --output-format stream-json --skip-trust --resume s1 --extra",
	} {
		kind, _, err := agentFor(runner)
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(kind.argv([]string{"x"}, a), " "); got != want {
			t.Errorf("%s is called by %q, want %q", runner, got, want)
		}
	}
}

func TestToolNames(t *testing.T) {
	for name, want := range map[string]string{
		"Bash": "Bash", "mcp__github__create_issue": "github/create_issue", "mcp__agentstateloop__ask": "agentstateloop/ask",
		"mcp_agentstateloop_submit_result": "agentstateloop/submit_result", "mcp_github_x": "mcp_github_x", "mcp__": "mcp__", "mcp__x": "mcp__x",
	} {
		if got := toolName(name); got != want {
			t.Errorf("%s is shown as %s, want %s", name, got, want)
		}
	}
	events := codexParser()([]byte(`{"type":"item.started","item":{"id":"i1","type":"mcp_tool_call","server":"agentstateloop","tool":"ask"}}`))
	if len(events) != 1 || events[0].Kind != ToolUse || events[0].Tool != "agentstateloop/ask" {
		t.Errorf("codex: %+v", events)
	}
	events = claudeParser()([]byte(`{"type":"system","subtype":"init","session_id":"s","mcp_servers":[{"name":"mine","status":"failed"},{"name":"agentstateloop","status":"failed"}]}`))
	if len(events) != 2 || events[1].Kind != Error || !strings.Contains(events[1].Text, "did not start") {
		t.Errorf("claude: %+v", events)
	}
}

// newGeminiFixture prepares an attempt of a gemini that copies its settings, and returns the home of
// its user.
func newGeminiFixture(t *testing.T, settings string) (b *fixture, home string) {
	t.Helper()
	b, home = newFixture(t, `
cp "$GEMINI_CLI_HOME/.gemini/settings.json" settings 2>/dev/null
echo refreshed >"$GEMINI_CLI_HOME/.gemini/oauth_creds.json"
echo session >"$GEMINI_CLI_HOME/.gemini/tmp/session"
echo "$HOME" >home
echo '{"type":"message","role":"assistant","content":"yes"}'
echo '{"type":"result","status":"success"}'
`), t.TempDir()
	b.Runner, b.MCP = Gemini, true
	b.Config.Env = map[string]string{"HOME": home}
	if settings != "" {
		if err := os.MkdirAll(filepath.Join(home, ".gemini"), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(home, ".gemini", "settings.json"), []byte(settings), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return b, home
}

// TestGeminiHome checks that gemini reads a copy of the user's settings with one more server. The
// user's settings do not change, and all other files that it writes reach the user's folder.
func TestGeminiHome(t *testing.T) {
	const settings = `{
	// mine: "//"
	"ui": {"theme": "a // b", "path": "c:\\", "note": "/* no */"}, /* more
	*/ "mcpServers": {"mine": {"command": "x"}, "agentstateloop": {"command": "older"}}
}`
	b, home := newGeminiFixture(t, settings)
	b.run().check(t, Success, ExitClean, "yes", "")
	var got struct {
		UI         map[string]string
		MCPServers map[string]struct {
			Command string
			Args    []string
			Env     map[string]string
			Trust   bool
		}
	}
	if err := json.Unmarshal([]byte(readFile(t, b.Workdir, "settings")), &got); err != nil {
		t.Fatal(err)
	}
	ours := got.MCPServers["agentstateloop"]
	if ours.Command != b.Self || !slices.Equal(ours.Args, []string{"mcp"}) || !ours.Trust || ours.Env["AGENTSTATELOOP_TURN"] != "${AGENTSTATELOOP_TURN}" {
		t.Errorf("our server is %+v", ours)
	}
	if got.MCPServers["mine"].Command != "x" || got.UI["theme"] != "a // b" || got.UI["path"] != `c:\` || got.UI["note"] != "/* no */" {
		t.Errorf("of the user's settings there is %+v", got)
	}
	for file, want := range map[string]string{"settings.json": settings, "oauth_creds.json": "refreshed\n", "tmp/session": "session\n"} {
		if text := readFile(t, filepath.Join(home, ".gemini"), file); text != want {
			t.Errorf("the user's %s is %q, want %q", file, text, want)
		}
	}
	if text := readFile(t, b.Workdir, "home"); text != home+"\n" {
		t.Errorf("HOME is %q", text)
	}
	if _, err := os.Lstat(filepath.Join(b.Dir, geminiHomeName)); err == nil {
		t.Error("the copy of the settings is still there")
	}
}

// TestGeminiWithoutServer checks that an agent with unusable settings runs without the server, with a
// note in its result.
func TestGeminiWithoutServer(t *testing.T) {
	for _, settings := range []string{"{", "[]", "null", `{"mcpServers":7}`} {
		b, _ := newGeminiFixture(t, settings)
		res := b.run()
		res.check(t, Success, ExitClean, "yes", "")
		if !strings.Contains(strings.Join(res.Notes, "\n"), "the agent has the agentstateloop commands but not the MCP tools") {
			t.Errorf("%s: the notes are %q", settings, res.Notes)
		}
		if _, err := os.Stat(filepath.Join(b.Workdir, "settings")); err == nil {
			t.Errorf("%s: there is a home of its own", settings)
		}
	}
	b, home := newGeminiFixture(t, "") // without settings
	b.run().check(t, Success, ExitClean, "yes", "")
	if text := readFile(t, b.Workdir, "settings"); !strings.Contains(text, `"agentstateloop"`) {
		t.Errorf("the settings are %q", text)
	}
	if _, err := os.Stat(filepath.Join(home, ".gemini", "settings.json")); err == nil {
		t.Error("the user has settings now")
	}
	b, _ = newGeminiFixture(t, "{}")
	b.MCP = false
	b.run().check(t, Success, ExitClean, "yes", "")
	if _, err := os.Stat(filepath.Join(b.Workdir, "settings")); err == nil {
		t.Error("it has a home of its own with mcp = false")
	}
}
