package config

import (
	"strings"
	"testing"
	"time"
)

// toolServers is the first eight lines of a configuration of the built-in loop.
const toolServers = "[agent]\nhandle = \"a\"\noperator = [\"you@example.com\"]\n[turn]\nrunner = \"api\"\nworkdir = \"desk\"\n" +
	"[api]\nprovider = \"openai\"\n"

const localModel = "model = \"gpt-4o\"\nbase_url = \"http://127.0.0.1:11434/v1\"\n"

// TestToolServerErrors checks that each error names the line and the key, and has a hint.
func TestToolServerErrors(t *testing.T) {
	const files = "[tools.files]\nmcp = { command = [\"x\"] }\n"
	for _, test := range []struct{ text, want, hint string }{
		{"[tools.files]\nmcp = {}\n", `:11: tools.files.mcp.command: is missing$|: tools.files.mcp.command: is missing$`, "url = "},
		{"[tools.files]\nmcp = { command = [] }\n", `:12: tools.files.mcp.command: is missing$`, "url = "},
		{"[tools.files]\nmcp = { command = \"x\" }\n", `:12: tools.files.mcp.command: must be an array, not a string$`, ""},
		{"[tools.files]\nmcp = \"x\"\n", `:12: tools.files.mcp: must be a table, not a string$`, ""},
		{"[tools.files]\nmcp = { comand = [\"x\"] }\n", `:12: tools.files.mcp.comand: unknown key$`, "did you mean command?"},
		{"[tools.files]\nmcp = { command = [\"x\"], url = \"https://a\" }\n", `:12: tools.files.mcp.url: .*cannot both be set$`, "two servers"},
		{"[tools.files]\nmcp = { command = [\"x\"], token_file = \"t\" }\n", `:12: tools.files.mcp.token_file: can only be used with url$`, "remove it"},
		{"[tools.files]\nmcp = { url = \"https://a\", network = true }\n", `:12: tools.files.mcp.network: can only be used with command$`, "remove it"},
		{"[tools.files]\nmcp = { url = \"https://a\", read = [] }\n", `:12: tools.files.mcp.read: can only be used with command$`, "remove it"},
		{"[tools.files]\nmcp = { url = \"ftp://a\" }\n", `:12: tools.files.mcp.url: .*is not an http or https URL$`, "https://"},
		{"[tools.files]\nmcp = { url = \"https://a:0/\" }\n", `:12: tools.files.mcp.url: .*has an invalid port, 0$`, "65535"},
		{"[tools.files]\nmcp = { url = \"https://u:p@a/\" }\n", `:12: tools.files.mcp.url: must not contain a password$`, "token_file"},
		{"[tools.files]\nmcp = { url = \"http://a/\" }\n", `:12: tools.files.mcp.url: requests to "http://a/" would be unencrypted$`, "use https"},
		{"[tools.files]\nmcp = { url = \"http://a/\", insecure = true, token_env = \"T\" }\n", `:12: tools.files.mcp.url: requests to "http://a/" would be unencrypted$`, "without a token"},
		{"[tools.files]\nmcp = { url = \"https://a/\", token_file = \"t\", token_env = \"T\" }\n", `:12: tools.files.mcp: 2 of token_file, token_env and token_command are set$`, "keep one"},
		{files + "command = [\"x\"]\n", `:13: tools.files.command: can only be used without mcp: .*`, "remove mcp"},
		{files + "schema = \"x.json\"\n", `:13: tools.files.schema: can only be used without mcp: .*`, ""},
		{files + "description = \"x\"\n", `:13: tools.files.description: can only be used without mcp: .*`, ""},
		{files + "after_execution = \"suspend\"\n", `:13: tools.files.after_execution: can only be used without mcp: .*`, ""},
		{files + "timeout = \"500ms\"\n", `:13: tools.files.timeout: must be between 1s and 1h0m0s$`, ""},
		{"[tools.Files]\nmcp = { command = [\"x\"] }\n", `:11: tools.Files: "Files" is not a valid name for a tool server$`, "a-z"},
		{"[tools.a__b]\nmcp = { command = [\"x\"] }\n", `:11: tools.a__b: .*is not a valid name`, "single _"},
		{"[tools.a_]\nmcp = { command = [\"x\"] }\n", `:11: tools.a_: .*is not a valid name`, ""},
		{"[tools.exec]\nmcp = { command = [\"x\"] }\n", `:11: tools.exec: "exec" is a built-in tool: choose another name$`, ""},
		{"[tools.files]\nmcp = { command = [\"x\"], read = [\"/\"] }\n", `:12: tools.files.mcp.read: `, "name the folder"},
		{"[tools.files]\nmcp = { command = [\"x\"], read = [\".\"] }\n", `:12: tools.files.mcp.read: .*would expose .*`, ""},
		{"[tools.files]\nmcp = { command = [\"x\"], write = [\"/etc\"] }\n", `:12: tools.files.mcp.write: `, ""},
		{"[tools.files]\nmcp = { command = [\"/srv/s/x\"], write = [\"/srv/s\"] }\n", `:12: tools.files.mcp.write: /srv/s contains the program /srv/s/x$`, "works on"},
		{"[tools.files]\nmcp = { command = [\"desk/x\"] }\n", `:6: turn.workdir: contains .*desk/x, which the agent could read and change$`, ""},
		{"[tools.files]\nmcp = { url = \"https://a\", token_file = \"desk/t\" }\n", `:6: turn.workdir: contains .*desk/t, which`, ""},
		{"[tools.files]\nmcp = { command = [\"x\"], env_files = { K = \"desk/k\" } }\n", `:6: turn.workdir: contains .*desk/k, which`, ""},
		{"[tools.files]\nmcp = { command = [\"x\"], env = { \"A=B\" = \"x\" } }\n", `:12: tools.files.mcp.env: "A=B" is not a valid environment variable name$`, ""},
		{"[tools.files]\nmcp = { command = [\"x\"], env = { A = \"b\\u0000\" } }\n", `:12: tools.files.mcp.env: the value of A contains a NUL byte$`, ""},
		{"[tools.files]\nmcp = { command = [\"x\"], env = { K = \"x\" }, env_files = { K = \"k\" } }\n", `:12: tools.files.mcp.env_files: K is set both in env and in env_files$`, "keep one"},
		{"[tools.files]\nmcp = { command = [\"x\"], env_files = { K = \"\" } }\n", `:12: tools.files.mcp.env_files: K names no file$`, ""},
		{files + "[api.tools]\noperator = [\"files\"]\n", `:14: api.tools.operator: "files" is a tool server$`, "files/*"},
		{files + "[api.tools]\npeer = [\"files/\"]\n", `:14: api.tools.peer: "files/" names no tool$`, "files/*"},
		{files + "[api.tools]\nevent = [\"flies/read\"]\n", `:14: api.tools.event: "flies/read": unknown tool server flies$`, "[tools.NAME]"},
		{files + "[tools.files__x]\ncommand = [\"x\"]\ndescription = \"x\"\nschema = \"x.json\"\n", `:13: tools.files__x: could also be the name of a tool of the server files$`, "rename"},
	} {
		wantError(t, toolServers+localModel+test.text, test.want, test.hint)
	}
}

// TestToolServersWired checks the settings, the patterns and the secrets of tool servers.
func TestToolServersWired(t *testing.T) {
	path := writeConfig(t, toolServers+localModel+`
[tools.near]
timeout = "5s"
mcp = { command = ["x", "-v"], network = true, read = ["/opt"], env = { MODE = "b", API_KEY = "written-in-toml" } }
[tools.tame]
mcp = { command = ["x"] }
[tools.far]
mcp = { url = "https://mcp.example.com/mcp", token_file = "token" }
[tools.here]
[tools.here.mcp]
url = "http://127.0.0.1:3001/mcp"
[api.tools]
operator = ["near/*", "far/one", "read_file"]
`)
	l := newTestLoader()
	c, err := l.Read(path)
	if err != nil {
		t.Fatal(err)
	}
	api, err := l.API(c)
	if err != nil || len(api.Programs) != 0 || len(api.Servers) != 4 {
		t.Fatalf("%+v, %v", api, err)
	}
	far, here, near := api.Servers[0], api.Servers[1], api.Servers[2]
	if tame := api.Servers[3]; tame.Box.Network || len(tame.Box.Read) > 0 || len(tame.Box.Write) > 0 || tame.Timeout != time.Minute {
		t.Errorf("by default: %+v", tame)
	}
	if far.Name != "far" || far.URL == "" || far.Token == nil || here.Token != nil || near.Name != "near" || near.URL != "" || near.Timeout != 5*time.Second || !near.Box.Network {
		t.Errorf("%+v", api.Servers)
	}
	if got := strings.Join(near.Env, " "); got != "API_KEY=written-in-toml LANG=C.UTF-8 MODE=b PATH=/usr/local/bin:/usr/bin:/bin" {
		t.Errorf("its environment: %s", got)
	}
	if got := l.Secrets.Redact("written-in-toml"); got != "***" {
		t.Errorf("a key in env is not known: %s", got)
	}
	p := ServerTools(c.File.API.Tools.Operator)
	if len(p) != 2 || !p.Any("near") || p.Any("here") || !p.Allow("near", "anything") || !p.Allow("far", "one") || p.Allow("far", "two") || p.Allow("fa", "one") {
		t.Errorf("the patterns %q", p)
	}
	if got := p.Missing("far", []string{"two"}); len(got) != 1 || got[0] != "one" {
		t.Errorf("missing: %q", got)
	}
	if got := AllTools(api.Servers); !got.Allow("here", "x") {
		t.Errorf("all: %q", got)
	}
}

// TestTokenVariableIsSecret checks that the environment of the loop has the variable with a token, and
// that the loop hides it from its tools.
func TestTokenVariableIsSecret(t *testing.T) {
	path := writeConfig(t, toolServers+"key_env = \"MODEL_KEY\"\n"+localModel+"[tools.far]\nmcp = { url = \"https://a/\", token_env = \"FAR_TOKEN\" }\n")
	l := newTestLoader()
	l.Environ = append(l.Environ, "FAR_TOKEN=hunter2-hunter2", "OTHER=x")
	a, err := l.Load(path)
	if err != nil {
		t.Fatal(err)
	}
	if got := a.Turn.Env; got["FAR_TOKEN"] != "hunter2-hunter2" || got["OTHER"] != "" {
		t.Errorf("the environment of the loop: %v", got)
	}
	c, err := l.Read(path)
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(c.SecretVariables(), " "); got != "MODEL_KEY FAR_TOKEN" {
		t.Errorf("not for tools: %s", got)
	}
}
