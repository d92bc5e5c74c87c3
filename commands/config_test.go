package commands

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
	"agentstateloop/mail"
)

// testProgram has a home and a path of its own.
func testProgram() *program {
	return &program{
		home:       func() (string, error) { return "/home/you", nil },
		executable: func() (string, error) { return "/usr/local/bin/agentstateloop", nil },
		now:        time.Now,
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
	p := testProgram()
	p.environ = []string{"TOKEN=t0ken"}
	a, err := p.load(path)
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
		{"mailbox", a.Mail.Box.Mailbox, "INBOX"},
		{"imap user", a.Mail.Box.Username, "agent@gmail.com"},
		{"imap tls", a.Mail.Box.TLS, mail.TLSImplicit},
		{"network", a.Mail.Box.Timeout, 30 * time.Second},
		{"smtp", a.Mail.SMTP.Addr, "smtp.gmail.com:465"},
		{"smtp user", a.Mail.SMTP.Username, "agent@gmail.com"},
		{"workdir", a.Turn.Workdir, dir},
		{"turn timeout", a.Turn.Timeout, 10 * time.Minute},
		{"schedule", a.Schedule.Mode, cycle.ModeCrontab},
		{"crontab", a.Schedule.Table.Command, "crontab"},
		{"lock", a.Schedule.Table.Lock, "/home/you/.local/state/agentstateloop/crontab.lock"},
		{"mesh trust", a.Mesh.Open, false},
	} {
		if !reflect.DeepEqual(test.got, test.want) {
			t.Errorf("%v is %v, want %v", test.what, test.got, test.want)
		}
	}
	if token, err := a.Mesh.Client.Token(context.Background()); err != nil || token != "t0ken" {
		t.Errorf("token %q, %v", token, err)
	}
	// A secret that is missing is no error of the configuration (DESIGN 12).
	if _, err := a.Mail.SMTP.Secret(context.Background()); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("missing secret: %v", err)
	}
}

func TestSwitchedOff(t *testing.T) {
	a, err := testProgram().load(writeConfig(t, `
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
	mailWith := func(more string) string { return turn + smallMail + more }
	trustWith := func(lines string) string { return turn + strings.Replace(smallMail, `require = "from"`, lines, 1) }
	for _, test := range []struct{ name, text, want, hint string }{
		{"syntax", "[agent]\nhandle = goulard\n", `:2: agent.handle: `, ""},
		{"unknown section", turn + "[tiimng]\n", `:6: tiimng: unknown section`, "did you mean timing?"},
		{"unknown key", turn + "# x\n[timing]\nprep_timout = \"5m\"\n", `:8: timing.prep_timout: unknown key`, "did you mean prep_timeout?"},
		{"unknown key below", mailWith("pasword_file = \"x\"\n"), `:13: mail.imap.pasword_file: unknown key`, "did you mean password_file?"},
		{"key in other case", "[agent]\nHandle = \"a\"\n", `:2: agent.Handle: unknown key`, "did you mean handle?"},
		{"unknown key in a line", turn + "agent.kep = 3\n", `turn.agent`, ""},
		{"bare number", turn + "[timing]\nidle_interval = 30\n", `:7: timing.idle_interval: a length of time such as "30m" is wanted here, and this is an integer`, ""},
		{"number for a string", "[agent]\nhandle = 3120\n", `:2: agent.handle: a string is wanted here, and this is an integer`, ""},
		{"string for an array", "[agent]\nhandle = \"a\"\noperator = \"you@example.com\"\n", `:3: agent.operator: an array of strings is wanted here, and this is a string`, ""},
		{"numbers in an array", "[agent]\nhandle = \"a\"\noperator = [\n 1,\n 2]\n", `:3: agent.operator: an array of strings is wanted here`, ""},
		{"string for a number", turn + "max_attempts = \"3\"\n", `:6: turn.max_attempts: a whole number is wanted here, and this is a string`, ""},
		{"number in env", turn + "env = { A = \"x\", B = 3 }\n", `:6: turn.env.B: a string is wanted here`, ""},
		{"string for a section", "mail = \"x\"\n", `:1: mail: a table is wanted here`, ""},
		{"array of sections", "[[agent]]\n", `:1: agent: a table is wanted here, and this is an array`, ""},
		{"string for a boolean", turn + "[replies]\nnotices = \"no\"\n", `:7: replies.notices: true or false is wanted here, and this is a string`, ""},
		{"no unit", turn + "timeout = \"30\"\n", `:6: turn.timeout: "30" is no length of time`, ""},
		{"nothing long", turn + "timeout = \"0s\"\n", `:6: turn.timeout: "0s" must be longer than nothing`, ""},
		{"after a long string", turn + "workdir = \"\"\"\ntimeout = 3\n\"\"\"\ntimeout = 4\n", `:9: turn.timeout: `, ""},
		{"no handle", "[agent]\noperator = []\n", `: agent.handle: is missing`, ""},
		{"callsign for handle", "[agent]\nhandle = \"@goulard\"\n", `:2: agent.handle: "@goulard" is no handle`, ""},
		{"long handle", "[agent]\nhandle = \"" + strings.Repeat("a", 33) + "\"\n", `:2: agent.handle: `, ""},
		{"handle that climbs", "[agent]\nhandle = \"../x\"\n", `:2: agent.handle: `, ""},
		{"interval cron cannot say", turn + "[timing]\nidle_interval = \"45m\"\n", `:7: timing.idle_interval: interval 45m0s cannot be a crontab line: use 1, 2, `, ""},
		{"no operator", strings.Replace(mailWith(""), "\"you@example.com\"", "", 1), `:3: agent.operator: is missing`, ""},
		{"operator no address", strings.Replace(mailWith(""), "you@example.com", "you", 1), `:3: agent.operator: "you" is no mail address`, ""},
		{"operator is the agent", strings.Replace(mailWith(""), "you@example.com", "Agent@gmail.com", 1), `:3: agent.operator: .* is the agent's own address`, ""},
		{"trust not built", strings.Replace(mailWith(""), `"from"`, `"challenge"`, 1), `:7: trust.require: "challenge" is not built yet`, `use "dmarc"`},
		{"trust of no kind", strings.Replace(mailWith(""), `"from"`, `"spf"`, 1), `:7: trust.require: "spf" is not one of: dmarc, from`, ""},
		{"trust by default", turn + strings.TrimPrefix(smallMail, "[trust]\nrequire = \"from\"\n"), `toml: trust.authserv_id: is missing`, `set authserv_id = "mx.google.com"`},
		{"trust elsewhere", turn + strings.Replace(strings.TrimPrefix(smallMail, "[trust]\nrequire = \"from\"\n"), "gmail.com:993", "example.com:993", 1), `toml: trust.authserv_id: is missing`, `verify = "dkim"`},
		{"trust in a field", trustWith("authserv_id = \"mx.example.com; dmarc=pass\""), `:7: trust.authserv_id: .* is no name`, ""},
		{"trust in whom", trustWith("verify = \"gpg\""), `:7: trust.verify: "gpg" is not one of: server, dkim`, ""},
		{"trust in a provider", trustWith("authserv_id = \"mx.google.com\"\nsame_provider = \"yes\""), `:8: trust.same_provider: "yes" is not known`, ""},
		{"trust in two", trustWith("verify = \"dkim\"\nauthserv_id = \"mx.google.com\""), `:8: trust.authserv_id: is for verify = "server" only`, ""},
		{"trust in two ways", trustWith("verify = \"dkim\"\nsame_provider = \"auth\""), `:8: trust.same_provider: is for verify = "server" only`, ""},
		{"resolver", trustWith("verify = \"dkim\"\nresolver = \"127.0.0.1\""), `:8: trust.resolver: "127.0.0.1" is no server and port`, ""},
		{"resolver for nothing", trustWith("authserv_id = \"mx.google.com\"\nresolver = \"127.0.0.1:53\""), `:8: trust.resolver: is for verify = "dkim" only`, ""},
		{"mesh trust", turn + "[trust]\nmesh = \"all\"\n", `:7: trust.mesh: "all" is not one of: token, open`, ""},
		{"no port", strings.Replace(mailWith(""), ":993", "", 1), `:11: mail.imap.host: "imap.gmail.com" has no port: write it like "imap.example.com:993"`, ""},
		{"no host", strings.Replace(mailWith(""), "host =", "# host =", 1), `toml: mail.imap.host: is missing`, ""},
		{"no smtp host", strings.Replace(mailWith(""), "gmail.com:993", "example.com:993", 1), `toml: mail.smtp.host: is missing`, ""},
		{"no secret", strings.Replace(mailWith(""), "password_file", "# password_file", 1), `:10: mail.imap: 0 of password_file, `, ""},
		{"two secrets", mailWith("password_env = \"X\"\n"), `:10: mail.imap: 2 of password_file, `, ""},
		{"clear text", mailWith("tls = \"none\"\n"), `:13: mail.imap.tls: "none" is for a server on this machine`, ""},
		{"tls", mailWith("tls = \"ssl\"\n"), `:13: mail.imap.tls: "ssl" is not one of: implicit, starttls, none`, ""},
		{"auth", mailWith("auth = \"login\"\n"), `:13: mail.imap.auth: `, ""},
		{"mesh url", turn + "[mesh]\nurl = \"127.0.0.1:8801\"\n", `:7: mesh.url: `, ""},
		{"mesh in clear", turn + "[mesh]\nurl = \"http://mesh.example.com\"\n", `:7: mesh.url: .*use https`, ""},
		{"peer", turn + "[mesh]\nurl = \"http://localhost:8801\"\npeers = [\"@x\"]\n", `:8: mesh.peers: "@x" is no handle`, ""},
		{"two tokens", turn + "[mesh]\nurl = \"http://localhost:8801\"\ntoken_env = \"A\"\ntoken_file = \"b\"\n", `:6: mesh: 2 of token_file`, ""},
		{"no command", agent + "[turn]\ntimeout = \"3m\"\n", `toml: turn.command: is missing`, `runner = "none"`},
		{"runner", agent + "[turn]\nrunner = \"api\"\n", `:5: turn.runner: "api" is not built`, ""},
		{"attempts", turn + "max_attempts = 0\n", `:6: turn.max_attempts: must be 1 or more`, ""},
		{"mode", turn + "[schedule]\nmode = \"cron\"\n", `:7: schedule.mode: "cron" is not one of: crontab, fixed, none`, ""},
		{"template", turn + "[replies]\nack = \"{{.Handle\"\n", `:7: replies.ack: .*unclosed action`, "{{.Handle}}, "},
		{"template's field", turn + "[replies]\nquiet_prep = \"{{.Name}}\"\n", `:7: replies.quiet_prep: .*can't evaluate field Name`, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			path := writeConfig(t, test.text)
			_, err := testProgram().load(path)
			wrong, ok := errors.AsType[*configError](err)
			if !ok {
				t.Fatalf("got %v, want a configError", err)
			}
			if text := err.Error(); !strings.HasPrefix(text, path+":") || !regexp.MustCompile(test.want).MatchString(text) {
				t.Errorf("got  %s\nwant %s", text, test.want)
			}
			if !strings.Contains(wrong.hint, test.hint) {
				t.Errorf("hint %q, want %q", wrong.hint, test.hint)
			}
			if exitCode(err) != exitUsage {
				t.Errorf("exit code %d", exitCode(err))
			}
		})
	}
}

// TestExample: the example is a working configuration, shows every key there
// is, and says the truth about the defaults.
func TestExample(t *testing.T) {
	data, err := os.ReadFile("../agent.toml.example")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := testProgram().load(writeConfig(t, string(data))); err != nil {
		t.Error(err)
	}

	// Lines like "# key = value" and "# [section]" are meant to be uncommented.
	setting := regexp.MustCompile(`(?m)^# (\[[a-z.]+\]|[a-z_]+ *= )`)
	all := setting.ReplaceAllString(string(data), "$1")
	c, err := readConfig(writeConfig(t, all), "/home/you")
	if err != nil {
		t.Fatal(err)
	}
	for key := range knownKeys() {
		of := strings.TrimPrefix(key, "mail.smtp.")
		if !c.has(key) && !(of != key && c.has("mail.imap."+of)) && key != "mesh.token_env" && key != "mesh.token_command" {
			t.Errorf("%s is not in the example", key)
		}
	}
	want := defaults()
	for _, test := range []struct{ section, got, want any }{
		{"timing", c.file.Timing, want.Timing},
		{"replies", c.file.Replies, want.Replies},
		{"schedule.mode", c.file.Schedule.Mode, want.Schedule.Mode},
		{"schedule.crontab", c.file.Schedule.Crontab, want.Schedule.Crontab},
		{"keep", c.file.Agent.Keep, want.Agent.Keep},
		{"mailbox", c.file.Mail.Mailbox, want.Mail.Mailbox},
		{"tls", c.file.Mail.IMAP.TLS, want.Mail.IMAP.TLS},
		{"auth", c.file.Mail.IMAP.Auth, want.Mail.IMAP.Auth},
		{"turn.timeout", c.file.Turn.Timeout, want.Turn.Timeout},
		{"max_attempts", c.file.Turn.MaxAttempts, want.Turn.MaxAttempts},
		{"trust.mesh", c.file.Trust.Mesh, want.Trust.Mesh},
		{"trust.require", c.file.Trust.Require, want.Trust.Require},
		{"trust.verify", c.file.Trust.Verify, want.Trust.Verify},
	} {
		if !reflect.DeepEqual(test.got, test.want) {
			t.Errorf("the example's default of %v is %+v, ours is %+v", test.section, test.got, test.want)
		}
	}
}
