package config

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"agentstateloop/cycle"
	"agentstateloop/internal/secret"
	"agentstateloop/mail"
	"agentstateloop/state"
	"agentstateloop/turn"
)

// testLoader has a home and a path of its own.
func testLoader() *Loader {
	return &Loader{
		Home:       func() (string, error) { return "/home/you", nil },
		Executable: func() (string, error) { return "/usr/local/bin/agentstateloop", nil },
		Version:    "v0",
		Now:        time.Now,
		Secrets:    new(secret.Known),
	}
}

func writeConfig(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "agent.toml")
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

const smallConfig = `[agent]
handle = "goulard3120"
operator = ["You <you@example.com>", "you@example.net"]
[turn]
command = ["./reply.sh"]
`

const smallMail = `[trust]
require = "from"
[mail]
address = "agent@gmail.com"
[mail.imap]
host = "imap.gmail.com:993"
password_file = "secret"
`

func TestDefaults(t *testing.T) {
	path := writeConfig(t, smallConfig+smallMail+"[mesh]\nurl = \"http://127.0.0.1:8801\"\ntoken_env = \"TOKEN\"\n")
	dir := filepath.Dir(path)
	l := testLoader()
	l.Environ = []string{"TOKEN=t0ken"}
	a, err := l.Load(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct{ what, got, want any }{
		{"config", a.Config, path},
		{"self", a.Self, []string{"/usr/local/bin/agentstateloop", "--config", path}},
		{"state", a.Store.Dir, "/home/you/.local/state/agentstateloop/goulard3120"},
		{"keep", a.Keep, 90 * 24 * time.Hour},
		{"idle", a.Policy.IdleInterval, 30 * time.Minute},
		{"engaged", a.Policy.EngagedInterval, time.Minute},
		{"prep", a.Policy.PrepTimeout, 5 * time.Minute},
		{"active", a.Policy.ActiveTimeout, 10 * time.Minute},
		{"cooldown", a.Policy.Cooldown, 5 * time.Minute},
		{"operator", a.Policy.Operator, "you@example.com"},
		{"attempts", a.Policy.MaxAttempts, 3},
		{"mails", []bool{a.Policy.Ack, a.Policy.QuietPrep, a.Policy.QuietActive, a.Policy.Notices, a.Policy.Working}, []bool{true, true, true, true, true}},
		{"operators", a.Mail.Filter.Operators, []string{"you@example.com", "you@example.net"}},
		{"mailbox", a.Mail.Mailbox.Name, "INBOX"},
		{"imap user", a.Mail.Mailbox.Username, "agent@gmail.com"},
		{"imap tls", a.Mail.Mailbox.TLS, mail.TLSImplicit},
		{"network", a.Mail.Mailbox.Timeout, 30 * time.Second},
		{"smtp", a.Mail.SMTP.Addr, "smtp.gmail.com:465"},
		{"smtp user", a.Mail.SMTP.Username, "agent@gmail.com"},
		{"workdir", a.Turn.Workdir, dir},
		{"turn timeout", a.Turn.Timeout, 10 * time.Minute},
		{"schedule", a.Schedule.Mode, cycle.ModeCrontab},
		{"crontab", a.Schedule.Table.Command, "crontab"},
		{"lock", a.Schedule.Table.Lock, "/home/you/.local/state/agentstateloop/crontab.lock"},
		{"mesh trust", a.Mesh.Open, false},
		{"budget", a.Policy.Budget, state.Budget{Low: state.Dollar / 2, Critical: state.Dollar / 10}},
		{"price", priceOf(a.Prices, "gpt-4o"), turn.Price{Input: 2.50, Output: 10, CacheRead: 1.25, CacheWrite: 2.50}},
	} {
		if !reflect.DeepEqual(test.got, test.want) {
			t.Errorf("%v is %v, want %v", test.what, test.got, test.want)
		}
	}
	if token, err := a.Mesh.Client.Token(context.Background()); err != nil || token != "t0ken" {
		t.Errorf("token %q, %v", token, err)
	}
	// A missing secret is not an error of the configuration.
	if _, err := a.Mail.SMTP.Secret(context.Background()); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("missing secret: %v", err)
	}
}

func TestSwitchedOff(t *testing.T) {
	a, err := testLoader().Load(writeConfig(t, `
agent = { handle = "a", state_dir = "~/elsewhere" }
turn = { runner = "none" }
schedule = { mode = "fixed", crontab = "bin/crontab" }
replies = { ack = "", quiet_prep = "", quiet_active = "bye {{.Callsign}}", notices = false, working = false }
`))
	if err != nil {
		t.Fatal(err)
	}
	if a.Mail != nil || a.Mesh != nil || a.Turn != nil || a.Policy.HasMail || a.Policy.HasMesh || a.Policy.Turns {
		t.Errorf("mail %v, mesh %v, turn %v", a.Mail, a.Mesh, a.Turn)
	}
	if p := a.Policy; p.Ack || p.QuietPrep || !p.QuietActive || p.Notices || p.Working {
		t.Errorf("policy %+v", p)
	}
	if a.Store.Dir != "/home/you/elsewhere" {
		t.Errorf("state in %s", a.Store.Dir)
	}
	if want := filepath.Join(filepath.Dir(a.Config), "bin/crontab"); a.Schedule.Table.Command != want {
		t.Errorf("crontab is %s, want %s", a.Schedule.Table.Command, want)
	}
}

// TestWrongConfig: each error names the file, the line and the key.
func TestWrongConfig(t *testing.T) {
	const agent = "[agent]\nhandle = \"a\"\noperator = [\"you@example.com\"]\n"
	const turn = agent + "[turn]\nrunner = \"none\"\n"
	const bare = agent + "[turn]\nrunner = \"api\"\n"
	const loop = bare + "workdir = \"desk\"\n"
	const model = "[api]\nprovider = \"openai\"\nmodel = \"gpt-4o\"\n"
	const local = model + "base_url = \"http://127.0.0.1:11434/v1\"\n"
	mailWith := func(more string) string { return turn + smallMail + more }
	withoutPassword := func(text string) string { return strings.Replace(text, "password_file", "# password_file", 1) }
	oauthWith := func(lines string) string {
		return withoutPassword(mailWith("auth = \"oauthbearer\"\n[mail.imap.oauth2]\n" + lines))
	}
	trustWith := func(lines string) string { return turn + strings.Replace(smallMail, `require = "from"`, lines, 1) }
	for _, test := range []struct{ name, text, want, hint string }{
		{"syntax", "[agent]\nhandle = goulard\n", `:2: agent.handle: `, ""},
		{"unknown section", turn + "[tiimng]\n", `:6: tiimng: unknown section`, "did you mean timing?"},
		{"unknown key", turn + "# x\n[timing]\nprep_timout = \"5m\"\n", `:8: timing.prep_timout: unknown key`, "did you mean prep_timeout?"},
		{"unknown key below", mailWith("pasword_file = \"x\"\n"), `:13: mail.imap.pasword_file: unknown key`, "did you mean password_file?"},
		{"key in other case", "[agent]\nHandle = \"a\"\n", `:2: agent.Handle: unknown key`, "did you mean handle?"},
		{"unknown key in a line", turn + "agent.kep = 3\n", `turn.agent`, ""},
		{"bare number", turn + "[timing]\nidle_interval = 30\n", `:7: timing.idle_interval: "30" is not a duration: write "90s"`, ""},
		{"number for a string", "[agent]\nhandle = 3120\n", `:2: agent.handle: must be a string, and is a whole number$`, ""},
		{"string for an array", "[agent]\nhandle = \"a\"\noperator = \"you@example.com\"\n", `:3: agent.operator: must be an array, and is a string$`, ""},
		{"numbers in an array", "[agent]\nhandle = \"a\"\noperator = [\n 1,\n 2]\n", `:3: agent.operator: must be a string, and is a whole number$`, ""},
		{"string for a number", turn + "max_attempts = \"3\"\n", `:6: turn.max_attempts: must be a whole number, and is a string$`, ""},
		{"number in env", turn + "env = { A = \"x\", B = 3 }\n", `:6: turn.env.B: must be a string, and is a whole number$`, ""},
		{"string for a section", "mail = \"x\"\n", `:1: mail: must be a table, and is a string$`, ""},
		{"array of sections", "[[agent]]\n", `:1: agent: must be a table, and is an array of tables$`, ""},
		{"string for a boolean", turn + "[replies]\nnotices = \"no\"\n", `:7: replies.notices: must be true or false, and is a string$`, ""},
		{"no unit", turn + "timeout = \"30\"\n", `:6: turn.timeout: "30" is not a duration`, ""},
		{"nothing long", turn + "timeout = \"0s\"\n", `:6: turn.timeout: "0s" must be longer than zero`, ""},
		{"after a long string", turn + "workdir = \"\"\"\ntimeout = 3\n\"\"\"\ntimeout = 4\n", `:9: turn.timeout: `, ""},
		{"no handle", "[agent]\noperator = []\n", `: agent.handle: is missing`, ""},
		{"callsign for handle", "[agent]\nhandle = \"@goulard\"\n", `:2: agent.handle: "@goulard" is not a valid handle`, ""},
		{"long handle", "[agent]\nhandle = \"" + strings.Repeat("a", 33) + "\"\n", `:2: agent.handle: `, ""},
		{"handle that climbs", "[agent]\nhandle = \"../x\"\n", `:2: agent.handle: `, ""},
		{"interval cron cannot say", turn + "[timing]\nidle_interval = \"45m\"\n", `:7: timing.idle_interval: interval 45m0s does not fit a crontab line: use 1, 2, `, ""},
		{"no operator", strings.Replace(mailWith(""), "\"you@example.com\"", "", 1), `:3: agent.operator: is missing`, ""},
		{"operator no address", strings.Replace(mailWith(""), "you@example.com", "you", 1), `:3: agent.operator: "you" is not an email address`, ""},
		{"operator is the agent", strings.Replace(mailWith(""), "you@example.com", "Agent@gmail.com", 1), `:3: agent.operator: .* is the agent's own address`, ""},
		{"trust of no kind", strings.Replace(mailWith(""), `"from"`, `"spf"`, 1), `:7: trust.require: "spf" is not one of: dmarc, challenge, from`, ""},
		{"trust by default", turn + strings.TrimPrefix(smallMail, "[trust]\nrequire = \"from\"\n"), `toml: trust.authserv_id: is missing`, `set authserv_id = "mx.google.com"`},
		{"trust elsewhere", turn + strings.Replace(strings.TrimPrefix(smallMail, "[trust]\nrequire = \"from\"\n"), "gmail.com:993", "example.com:993", 1), `toml: trust.authserv_id: is missing`, `verify = "dkim"`},
		{"trust in a field", trustWith("authserv_id = \"mx.example.com; dmarc=pass\""), `:7: trust.authserv_id: .* is not a server's name`, ""},
		{"trust in whom", trustWith("verify = \"gpg\""), `:7: trust.verify: "gpg" is not one of: server, dkim`, ""},
		{"trust in a provider", trustWith("authserv_id = \"mx.google.com\"\nsame_provider = \"yes\""), `:8: trust.same_provider: "yes" is not known`, ""},
		{"trust in two", trustWith("verify = \"dkim\"\nauthserv_id = \"mx.google.com\""), `:8: trust.authserv_id: is for verify = "server" only`, ""},
		{"trust in two ways", trustWith("verify = \"dkim\"\nsame_provider = \"auth\""), `:8: trust.same_provider: is for verify = "server" only`, ""},
		{"resolver", trustWith("verify = \"dkim\"\nresolver = \"127.0.0.1\""), `:8: trust.resolver: "127.0.0.1" is not a server and port`, ""},
		{"resolver for nothing", trustWith("authserv_id = \"mx.google.com\"\nresolver = \"127.0.0.1:53\""), `:8: trust.resolver: is for verify = "dkim" only`, ""},
		{"mesh trust", turn + "[trust]\nmesh = \"all\"\n", `:7: trust.mesh: "all" is not one of: token, open`, ""},
		{"no port", strings.Replace(mailWith(""), ":993", "", 1), `:11: mail.imap.host: "imap.gmail.com" has no port: write it like "imap.example.com:993"`, ""},
		{"no host", strings.Replace(mailWith(""), "host =", "# host =", 1), `toml: mail.imap.host: is missing`, ""},
		{"no smtp host", strings.Replace(mailWith(""), "gmail.com:993", "example.com:993", 1), `toml: mail.smtp.host: is missing`, ""},
		{"no secret", strings.Replace(mailWith(""), "password_file", "# password_file", 1), `:10: mail.imap: 0 of password_file, `, ""},
		{"two secrets", mailWith("password_env = \"X\"\n"), `:10: mail.imap: 2 of password_file, `, ""},
		{"password and token", mailWith("auth = \"xoauth2\"\ntoken_command = [\"x\"]\n"), `:10: mail.imap: 2 of password_file, `, ""},
		{"password and oauth2", mailWith("auth = \"xoauth2\"\n[mail.imap.oauth2]\nprovider = \"google\"\n"), `:10: mail.imap: 2 of password_file, .*and \[mail.imap.oauth2\]`, ""},
		{"token for a password", withoutPassword(mailWith("token_command = [\"x\"]\n")), `:13: mail.imap.token_command: is for auth = "xoauth2"`, ""},
		{"oauth2 for a password", withoutPassword(mailWith("[mail.imap.oauth2]\nprovider = \"google\"\n")), `:13: mail.imap.oauth2: is for auth = "xoauth2"`, ""},
		{"oauth2 unknown key", oauthWith("provider = \"google\"\nclientid = \"x\"\n"), `:16: mail.imap.oauth2.clientid: unknown key`, "did you mean client_id?"},
		{"oauth2 no id", oauthWith("provider = \"google\"\n"), `toml: mail.imap.oauth2.client_id: is missing`, ""},
		{"oauth2 no token", oauthWith("provider = \"google\"\nclient_id = \"x\"\n"), `toml: mail.imap.oauth2.refresh_token_file: is missing`, ""},
		{"oauth2 no endpoint", oauthWith("client_id = \"x\"\n"), `toml: mail.imap.oauth2.token_url: is missing`, ""},
		{"oauth2 provider", oauthWith("provider = \"gmail\"\n"), `:15: mail.imap.oauth2.provider: "gmail" is not one of: google, microsoft`, ""},
		{"oauth2 in clear", oauthWith("client_id = \"x\"\ntoken_url = \"http://example.com/token\"\n"), `:16: mail.imap.oauth2.token_url: .*begins with https`, ""},
		{"oauth2 two secrets", oauthWith("provider = \"google\"\nclient_id = \"x\"\nrefresh_token_file = \"r\"\nclient_secret_env = \"X\"\nclient_secret_file = \"x\"\n"), `:14: mail.imap.oauth2: 2 of client_secret_file`, ""},
		{"smtp by password only", strings.Replace(oauthWith("provider = \"google\"\nclient_id = \"x\"\nrefresh_token_file = \"r\"\n"), "[mail.imap.oauth2]", "[mail.smtp]\nauth = \"plain\"\n[mail.imap.oauth2]", 1), `mail.smtp.oauth2: is for auth = "xoauth2"`, ""},
		{"clear text", mailWith("tls = \"none\"\n"), `:13: mail.imap.tls: "none" is for a server on this machine`, ""},
		{"tls", mailWith("tls = \"ssl\"\n"), `:13: mail.imap.tls: "ssl" is not one of: implicit, starttls, none`, ""},
		{"auth", mailWith("auth = \"login\"\n"), `:13: mail.imap.auth: `, ""},
		{"mesh url", turn + "[mesh]\nurl = \"127.0.0.1:8801\"\n", `:7: mesh.url: `, ""},
		{"mesh in clear", turn + "[mesh]\nurl = \"http://mesh.example.com\"\n", `:7: mesh.url: .*use https`, ""},
		{"peer", turn + "[mesh]\nurl = \"http://localhost:8801\"\npeers = [\"@x\"]\n", `:8: mesh.peers: "@x" is not a valid handle`, ""},
		{"two tokens", turn + "[mesh]\nurl = \"http://localhost:8801\"\ntoken_env = \"A\"\ntoken_file = \"b\"\n", `:6: mesh: 2 of token_file`, ""},
		{"no command", agent + "[turn]\ntimeout = \"3m\"\n", `toml: turn.command: is missing`, `runner = "none"`},
		{"runner", agent + "[turn]\nrunner = \"gpt\"\n", `:5: turn.runner: "gpt" is not one of: exec, claude, codex, gemini, api, none`, ""},
		{"no provider", loop, `toml: api.provider: is missing`, ""},
		{"provider", loop + "[api]\nprovider = \"google\"\n", `:8: api.provider: "google" is not one of: anthropic, openai`, ""},
		{"no model", loop + "[api]\nprovider = \"openai\"\n", `toml: api.model: is missing`, ""},
		{"no key", loop + model, `toml: api.key_file: is missing`, ""},
		{"two keys", loop + model + "key_env = \"A\"\nkey_file = \"b\"\n", `:7: api: 2 of key_file, key_env and key_command are set`, ""},
		{"key in the clear", loop + model + "key_env = \"A\"\nbase_url = \"http://models.example.com/v1\"\n", `:11: api.base_url: would send the key in clear text`, ""},
		{"address", loop + model + "base_url = \"models.example.com\"\n", `:10: api.base_url: "models.example.com" is not a URL`, ""},
		{"window", loop + model + "base_url = \"http://127.0.0.1:11434/v1\"\ncontext_window = 0\n", `:11: api.context_window: must be 4096 or more`, ""},
		{"output", loop + model + "base_url = \"http://127.0.0.1:11434/v1\"\ncontext_window = 8192\n", `toml: api.max_output: is more than half`, ""},
		{"no folder of its own", bare + local, `toml: turn.workdir: is missing`, "~/agents/goulard"},
		{"folder of the configuration", bare + "workdir = \".\"\n" + local, `:6: turn.workdir: holds .*/agent.toml`, ""},
		{"folder of a tool's program", loop + local + "[tools.deploy]\ncommand = [\"desk/deploy.sh\"]\ndescription = \"x\"\nschema = \"deploy.json\"\n", `:6: turn.workdir: holds .*/desk/deploy.sh`, ""},
		{"folder of a tool's schema", loop + local + "[tools.deploy]\ncommand = [\"deploy\"]\ndescription = \"x\"\nschema = \"desk/deploy.json\"\n", `:6: turn.workdir: holds .*/desk/deploy.json`, ""},
		{"folder of a program for the key", loop + model + "key_command = [\"desk/key.sh\"]\n", `:6: turn.workdir: holds .*/desk/key.sh`, ""},
		{"folder of the prompts", loop + "prompts = \"desk/prompts\"\n" + local, `:6: turn.workdir: holds .*/desk/prompts`, ""},
		{"tools for no cause", loop + local + "[api.tools]\ntask = [\"exec\"]\n", `api.tools.task: has no use`, "leave it out"},
		{"folder of the key", loop + model + "key_file = \"desk/key\"\n", `:6: turn.workdir: holds .*/desk/key`, ""},
		{"command of the loop", agent + "[turn]\nrunner = \"api\"\ncommand = [\"x\"]\n", `:6: turn.command: has no use`, ""},
		{"tool without a schema", loop + local + "[tools.a]\ncommand = [\"x\"]\ndescription = \"d\"\n", `:11: tools.a.schema|tools.a.schema: is missing`, ""},
		{"tool without a command", loop + local + "[tools.a]\ndescription = \"d\"\n", `tools.a.command: is missing`, ""},
		{"tool with a name of ours", loop + local + "[tools.exec]\ncommand = [\"x\"]\ndescription = \"d\"\nschema = \"schema.json\"\n", `tools.exec.*schema.json`, ""},
		{"attempts", turn + "max_attempts = 0\n", `:6: turn.max_attempts: must be 1 or more`, ""},
		{"mode", turn + "[schedule]\nmode = \"cron\"\n", `:7: schedule.mode: "cron" is not one of: crontab, fixed, none`, ""},
		{"template", turn + "[replies]\nack = \"{{.Handle\"\n", `:7: replies.ack: .*unclosed action`, "{{.Handle}}, "},
		{"credit", turn + "[budget]\ncredit_usd = -1\n", `:7: budget.credit_usd: -1 is not an amount in dollars`, ""},
		{"credit of words", turn + "[budget]\ncredit_usd = \"5\"\n", `:7: budget.credit_usd: must be a number, and is a string$`, ""},
		{"credit without end", turn + "[budget]\ncredit_usd = inf\n", `:7: budget.credit_usd: \+Inf is not an amount`, ""},
		{"absurd credit", turn + "[budget]\ncredit_usd = 1e9\n", `:7: budget.credit_usd: .*a million`, ""},
		{"a day of nothing", turn + "[budget]\nday_usd = 0\n", `:7: budget.day_usd: 0 would let nothing run`, ""},
		{"no number", turn + "[budget]\nturn_usd = nan\n", `:7: budget.turn_usd: NaN is not an amount`, ""},
		{"tiers upside down", turn + "[budget]\ncritical_usd = 1\n", `:7: budget.critical_usd: .*must not be above low_usd`, ""},
		{"tiers upside down, too", turn + "[budget]\nlow_usd = 0.01\n", `:7: budget.low_usd: .*must not be above low_usd`, ""},
		{"multiplier", turn + "[budget]\nmultiplier = 0\n", `:7: budget.multiplier: 0 is not a factor`, ""},
		{"price below nothing", turn + "[prices.\"gpt-4.1\"]\ninput = 2\noutput = -8\n", `:8: prices."gpt-4.1".output: -8 is not a price`, ""},
		{"absurd price", turn + "[prices.x]\ninput = 1e9\noutput = 1\n", `:7: prices.x.input: .*from 0 to 10000`, ""},
		{"half a price", turn + "[prices.x]\ninput = 1\n", `:6: prices.x: output is missing`, ""},
		{"price of words", turn + "[prices.x]\ninput = \"1\"\n", `:7: prices.x.input: must be a number, and is a string$`, ""},
		{"price of something else", turn + "[prices.x]\ninputs = 1\n", `:7: prices.x.inputs: unknown key`, "did you mean input?"},
		{"prices", turn + "[prices]\nx = 3\n", `:7: prices.x: must be a table, and is a whole number$`, ""},
		{"template's field", turn + "[replies]\nquiet_prep = \"{{.Name}}\"\n", `:7: replies.quiet_prep: .*can't evaluate field Name`, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			path := writeConfig(t, test.text)
			_, err := testLoader().Load(path)
			wrong, ok := errors.AsType[*Error](err)
			if !ok {
				t.Fatalf("got %v, want an Error", err)
			}
			if text := err.Error(); !strings.HasPrefix(text, path+":") || !regexp.MustCompile(test.want).MatchString(text) {
				t.Errorf("got  %s\nwant %s", text, test.want)
			}
			if !strings.Contains(wrong.Hint(), test.hint) {
				t.Errorf("hint %q, want %q", wrong.Hint(), test.hint)
			}
		})
	}
}

// TestExample: the example is a working configuration, shows every key there
// is, and says the truth about the defaults.
func TestExample(t *testing.T) {
	data, err := os.ReadFile("../../agent.toml.example")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := testLoader().Load(writeConfig(t, string(data))); err != nil {
		t.Error(err)
	}

	// Lines like "# key = value" and "# [section]" are meant to be uncommented.
	setting := regexp.MustCompile(`(?m)^# (\[[a-z0-9.\-"]+\]|[a-z_]+ *= )`)
	all := setting.ReplaceAllString(string(data), "$1")
	c, err := testLoader().Read(writeConfig(t, all))
	if err != nil {
		t.Fatal(err)
	}
	shown := map[string]bool{}
	for _, key := range c.meta.Keys() {
		for i := range key {
			shown[strings.Join(key[:i+1], ".")] = true
		}
	}
	for _, key := range allKeys(nil) {
		of := strings.TrimPrefix(key, "mail.smtp.")
		if !shown[key] && !(of != key && shown["mail.imap."+of]) && key != "mesh.token_env" && key != "mesh.token_command" {
			t.Errorf("%s is not in the example", key)
		}
	}
	want := defaults()
	for _, test := range []struct{ section, got, want any }{
		{"timing", c.File.Timing, want.Timing},
		{"replies", c.File.Replies, want.Replies},
		{"schedule.mode", c.File.Schedule.Mode, want.Schedule.Mode},
		{"schedule.crontab", c.File.Schedule.Crontab, want.Schedule.Crontab},
		{"keep", c.File.Agent.Keep, want.Agent.Keep},
		{"mailbox", c.File.Mail.Mailbox, want.Mail.Mailbox},
		{"tls", c.File.Mail.IMAP.TLS, want.Mail.IMAP.TLS},
		{"auth", c.File.Mail.IMAP.Auth, want.Mail.IMAP.Auth},
		{"turn.timeout", c.File.Turn.Timeout, want.Turn.Timeout},
		{"turn.linger", c.File.Turn.Linger, want.Turn.Linger},
		{"recall", c.File.Turn.Recall, want.Turn.Recall},
		{"api.context_window", c.File.API.ContextWindow, want.API.ContextWindow},
		{"max_output", c.File.API.MaxOutput, want.API.MaxOutput},
		{"max_calls", c.File.API.MaxCalls, want.API.MaxCalls},
		{"max_tools", c.File.API.MaxTools, want.API.MaxTools},
		{"max_attempts", c.File.Turn.MaxAttempts, want.Turn.MaxAttempts},
		{"trust.mesh", c.File.Trust.Mesh, want.Trust.Mesh},
		{"low_usd", c.File.Budget.LowUSD, want.Budget.LowUSD},
		{"critical_usd", c.File.Budget.CriticalUSD, want.Budget.CriticalUSD},
		{"multiplier", c.File.Budget.Multiplier, want.Budget.Multiplier},
		{"trust.require", c.File.Trust.Require, want.Trust.Require},
		{"trust.verify", c.File.Trust.Verify, want.Trust.Verify},
	} {
		if !reflect.DeepEqual(test.got, test.want) {
			t.Errorf("the example's default of %v is %+v, ours is %+v", test.section, test.got, test.want)
		}
	}
}

// TestBudget: what is set is set, and prices of ours stand beside the built-in.
func TestBudget(t *testing.T) {
	a, err := testLoader().Load(writeConfig(t, smallConfig+`
[budget]
credit_usd = 0
day_usd = 1
turn_usd = 0.25
low_usd = 0.3
critical_usd = 0.2
multiplier = 2
[prices."gpt-4o"]
input = 4
output = 8
cache_read = 0
[prices."local/llama"]
input = 0
output = 0
`))
	if err != nil {
		t.Fatal(err)
	}
	want := state.Budget{HasCredit: true, Day: state.Dollar, Turn: state.Dollar / 4, Low: 300_000, Critical: 200_000}
	if a.Policy.Budget != want {
		t.Errorf("budget %+v, want %+v", a.Policy.Budget, want)
	}
	for model, want := range map[string]turn.Price{
		"gpt-4o":      {Input: 8, Output: 16, CacheWrite: 8},
		"local/llama": {},
		"o3-mini":     {Input: 1.10 * 2, Output: 4.40 * 2, CacheRead: 0.55 * 2, CacheWrite: 1.10 * 2},
	} {
		if got := priceOf(a.Prices, model); got != want {
			t.Errorf("%s costs %+v, want %+v", model, got, want)
		}
	}
}

func priceOf(prices turn.Prices, model string) turn.Price {
	price, _ := prices.Of(model)
	return price
}
