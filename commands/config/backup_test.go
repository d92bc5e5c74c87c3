package config

import (
	"slices"
	"strings"
	"testing"

	"agentstateloop/internal/account"
)

// backupLoader returns a loader whose user has a home directory.
func backupLoader(home string) *Loader {
	return &Loader{Account: func() (account.Account, error) { return account.Account{Home: home, Known: true}, nil }}
}

// TestWithoutValues checks that exactly the values that may be secrets are replaced, in each way to
// write a string, and that everything else stays as it is, comments too.
func TestWithoutValues(t *testing.T) {
	const text = `# it's "me"
[agent]
handle = "goulard3120"   # hunter2 is not a value here: "
operator = ["operator@example.com"]
[turn]
command = ["./run.sh", "hunter2"]
env = { PATH = "/usr/bin", "API_KEY" = "hunter2", 'hunter2' = "x\"y", MULTI = """
a "quoted" 'secret'
""", LITERAL = 'c:\secret', EMPTY = "" }
[[turn.fallback]]
runner = "exec"
command = ["x"]
env.SECOND = '''it's 'raw' '''
[tools.files.mcp]
command = ["srv"]
env = {TOKEN = "hunter2"}
[schedule]
heartbeat = "https://hc-ping.com/hunter2"
mode = "none"
`
	c, err := backupLoader("/home/me").Parse("/home/me/agent.toml", text)
	if err != nil {
		t.Fatal(err)
	}
	got, keys, err := c.WithoutValues()
	if err != nil {
		t.Fatal(err)
	}
	wantKeys := []string{"schedule.heartbeat", "tools.files.mcp.env.TOKEN", "turn.env.API_KEY", "turn.env.LITERAL", "turn.env.MULTI", "turn.env.hunter2", "turn.fallback.0.env.SECOND"}
	if !slices.Equal(keys, wantKeys) {
		t.Errorf("keys %q, want %q", keys, wantKeys)
	}
	want := text
	for _, value := range []string{`"hunter2", 'hunter2'`, `"x\"y"`, "\"\"\"\na \"quoted\" 'secret'\n\"\"\"", `'c:\secret'`, `'''it's 'raw' '''`, `"hunter2"}`, `"https://hc-ping.com/hunter2"`} {
		rest := ""
		if value == `"hunter2", 'hunter2'` {
			rest = ", 'hunter2'"
		} else if strings.HasSuffix(value, "}") {
			rest = "}"
		}
		want = strings.Replace(want, value, `"`+NotInBackup+`"`+rest, 1)
	}
	if got != want {
		t.Errorf("the text is\n%s\nwant\n%s", got, want)
	}
	again, err := backupLoader("/home/me").Parse("/home/me/agent.toml", got)
	if err != nil {
		t.Fatal(err)
	}
	if again.File.Turn.Env["PATH"] != "/usr/bin" || again.File.Turn.Command[1] != "hunter2" || again.File.Turn.Env["API_KEY"] != NotInBackup {
		t.Errorf("%+v", again.File.Turn)
	}
	if err := again.checkVariable("turn.env", "API_KEY", again.File.Turn.Env["API_KEY"]); err == nil || !strings.Contains(err.Error(), "was not in the backup") {
		t.Errorf("the words in its place are accepted: %v", err)
	}
	if _, keys, err := again.WithoutValues(); err != nil || slices.Contains(keys, "turn.env.API_KEY") {
		t.Errorf("they count as a value: %q, %v", keys, err)
	}
}

// TestMovedHome checks that values below the old home directory are changed, and others are not.
func TestMovedHome(t *testing.T) {
	const text = `# /home/old/x stays in a comment
a = "/home/old/x"
b = ["/home/old", '/home/old/y z', "/home/older/x", "see /home/old/x", "~/x"]
"/home/old/k" = "v"
`
	const want = `# /home/old/x stays in a comment
a = "/home/new/x"
b = ["/home/new", "/home/new/y z", "/home/older/x", "see /home/old/x", "~/x"]
"/home/old/k" = "v"
`
	got, n, err := MovedHome(text, "/home/old", "/home/new")
	if got != want || n != 3 || err != nil {
		t.Errorf("%d changes, %v:\n%s", n, err, got)
	}
}

// TestWithStateDir sets state_dir where it is set already, and where it is not.
func TestWithStateDir(t *testing.T) {
	for text, want := range map[string]string{
		"[agent] # me\nhandle = \"x\"": "[agent] # me\nstate_dir = \"/new dir\"\nhandle = \"x\"",
		"[agent]":                      "[agent]\nstate_dir = \"/new dir\"\n",
		"[agent]\nstate_dir = 'old'\n[turn]\nworkdir = 'old'\n": "[agent]\nstate_dir = \"/new dir\"\n[turn]\nworkdir = 'old'\n",
		"agent.state_dir = \"old\"\n":                           "agent.state_dir = \"/new dir\"\n",
		"agent = { handle = \"x\", state_dir = \"old\" }\n":     "agent = { handle = \"x\", state_dir = \"/new dir\" }\n",
	} {
		if got, err := WithStateDir(text, "/new dir"); got != want || err != nil {
			t.Errorf("%q: %q, %v; want %q", text, got, err, want)
		}
	}
	const odd = "/a\a\x01\x7f\v'\"\\ü"
	if got, err := WithStateDir("[agent]\n", odd); err != nil {
		t.Errorf("%q: %v, %q", odd, err, got)
	}
	if got, err := WithStateDir("agent = { handle = \"x\" }\n", "/new"); err == nil {
		t.Errorf("without a line [agent]: %q", got)
	}
}

// TestNamedFiles checks which files a configuration names, and which of them are secrets.
func TestNamedFiles(t *testing.T) {
	const text = `[mail.imap]
password_file = "~/pw"
ca_file = "ca.pem"
[mail.imap.oauth2]
client_secret_file = "/etc/client"
refresh_token_file = "rt"
[mesh]
token_file = "mt"
key_file = "mk"
[turn]
command = ["./run.sh"]
summary = ["llm"]
workdir = "~/work"
prompts = "prompts"
[api]
key_file = "ak"
[[prompt]]
file = "p.md"
if = ["./if.sh"]
[[hook]]
command = ["./hook.sh"]
token_file = "ht"
secret_file = "hs"
[tools.deploy]
command = ["./deploy.sh"]
schema = "d.json"
[tools.files.mcp]
command = ["./srv"]
token_file = "tt"
env_files = { A = "ef" }
[schedule]
heartbeat_file = "hb"
`
	c, err := backupLoader("/home/me").Parse("/home/me/conf/agent.toml", text)
	if err != nil {
		t.Fatal(err)
	}
	paths := func(list []Named) (all []string) {
		for _, n := range list {
			mark := ""
			if n.Relative {
				mark = " (relative)"
			}
			all = append(all, strings.TrimPrefix(n.Path, "/home/me/")+mark)
		}
		slices.Sort(all)
		return all
	}
	if got, want := paths(c.NamedFiles()), []string{
		"conf/ca.pem (relative)", "conf/d.json (relative)", "conf/deploy.sh (relative)", "conf/hook.sh (relative)", "conf/if.sh (relative)", "conf/p.md (relative)",
		"conf/prompts (relative)", "conf/srv (relative)", "work/run.sh",
	}; !slices.Equal(got, want) {
		t.Errorf("files\n%q, want\n%q", got, want)
	}
	if got, want := paths(c.SecretFiles()), []string{
		"/etc/client", "conf/ak (relative)", "conf/ef (relative)", "conf/hb (relative)", "conf/hs (relative)", "conf/ht (relative)", "conf/mk (relative)",
		"conf/mt (relative)", "conf/rt (relative)", "conf/tt (relative)", "pw",
	}; !slices.Equal(got, want) {
		t.Errorf("secrets\n%q, want\n%q", got, want)
	}
}

// TestMissingPaths checks which paths of a configuration are named because they do not exist.
func TestMissingPaths(t *testing.T) {
	dir := t.TempDir()
	text := `a = "` + dir + `"
b = ["/no/such/x", "/no/such/x", "no/such", "/no/such/x --flag"]
[turn]
env = { PATH = "/no/such/bin:/usr/bin" }
[mesh.paths]
message = "/message"
`
	if got := MissingPaths(text); !slices.Equal(got, []string{"/no/such/x"}) {
		t.Errorf("%q", got)
	}
}
