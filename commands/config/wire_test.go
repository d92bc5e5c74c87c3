package config

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"testing"
	"time"

	"agentstateloop/cycle"
	"agentstateloop/mail"
	"agentstateloop/mesh"
	"agentstateloop/state"
	"agentstateloop/turn"
)

// TestDefaults checks the agent of a small configuration.
func TestDefaults(t *testing.T) {
	path := writeConfig(t, smallConfig+smallMail+"[mesh]\nurl = \"http://127.0.0.1:8801\"\ntoken_env = \"TOKEN\"\n")
	dir := filepath.Dir(path)
	l := newTestLoader()
	l.Environ = []string{"TOKEN=t0ken"}
	a, err := l.Load(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct{ name, got, want any }{
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
		{"self turns", a.Policy.SelfTurns, 10},
		{"mails and events an hour", []int{a.Policy.Rate, a.Policy.EventRate}, []int{60, 60}},
		{"prompt slack", a.Policy.PromptSlack, time.Duration(0)},
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
			t.Errorf("%v is %v, want %v", test.name, test.got, test.want)
		}
	}
	if token, err := a.Mesh.Carrier.(*mesh.Client).Token(context.Background()); err != nil || token != "t0ken" {
		t.Errorf("token %q, %v", token, err)
	}
	// A missing secret is not an error of the configuration.
	if _, err := a.Mail.SMTP.Secret(context.Background()); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("missing secret: %v", err)
	}
}

// TestOptionalPartsOff checks an agent without mail, mesh, runner and notices.
func TestOptionalPartsOff(t *testing.T) {
	a := mustLoad(t, `
agent = { handle = "a", state_dir = "~/elsewhere" }
turn = { runner = "none" }
schedule = { mode = "fixed", crontab = "bin/crontab" }
replies = { ack = "", quiet_prep = "", quiet_active = "bye {{.Callsign}}", notices = false, working = false }
`)
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

// TestSettingPrecedence checks which of two settings for one value counts.
func TestSettingPrecedence(t *testing.T) {
	parsed := func(text string) (*Config, API) {
		t.Helper()
		l := newTestLoader()
		c, err := l.Read(writeConfigWithSchema(t, text))
		if err != nil {
			t.Fatal(err)
		}
		api, err := l.API(c)
		if err != nil {
			t.Fatal(err)
		}
		return c, api
	}
	const both = smallConfig + smallMail + "username = \"imap\"\n[mail.smtp]\n"
	own := mustLoad(t, both+"host = \"smtp.example.com:587\"\nusername = \"smtp\"\ntls = \"starttls\"\npassword_file = \"own\"\n")
	other := mustLoad(t, both)
	const rights = smallConfig + "[turn.permissions]\noperator = [\"o\"]\npeer = [\"p\"]\n"
	slow := aTool + "after_execution = \"suspend\"\n"
	_, usual := parsed(apiConfig + slow)
	blind, set := parsed(apiConfig + "vision = []\n" + slow + "timeout = \"7s\"\ndeadline = \"9m\"\n")
	seeing, _ := parsed(apiConfig)
	const server = "[turn.env]\nPATH = \"/turn\"\n[tools.files]\nmcp = { command = [\"x\"]%s }\n"
	_, ours := parsed(apiConfig + fmt.Sprintf(server, ""))
	_, theirs := parsed(apiConfig + fmt.Sprintf(server, `, env = { PATH = "/server" }`))
	const url = "[[hook]]\non = [\"*\"]\nurl = \"https://a.example\"\n"
	hooks := mustLoad(t, smallConfig+"env = { A = \"b\", LANG = \"de\" }\n"+aHook+url+url+"name = \"text\"\nbody = \"{{.Event}}\"\n"+url+"name = \"own\"\ncontent_type = \"text/x\"\n").Hooks
	for _, test := range []struct{ name, got, want any }{
		{"its own smtp host", own.Mail.SMTP.Addr, "smtp.example.com:587"},
		{"its own smtp user", own.Mail.SMTP.Username, "smtp"},
		{"its own smtp tls", own.Mail.SMTP.TLS, mail.TLSStart},
		{"the smtp host of Gmail", other.Mail.SMTP.Addr, "smtp.gmail.com:465"},
		{"the smtp user of imap", other.Mail.SMTP.Username, "imap"},
		{"the imap user before the address", other.Mail.Mailbox.Username, "imap"},
		{"the workdir", filepath.Base(mustLoad(t, smallConfig+"workdir = \"desk\"\n").Turn.Workdir), "desk"},
		{"the slack of prompts without a schedule", mustLoad(t, smallConfig+"[schedule]\nmode = \"none\"\n").Policy.PromptSlack, 35 * time.Minute},
		{"event as peer", mustLoad(t, rights).Rights.Event, []string{"p"}},
		{"self as operator", mustLoad(t, rights).Rights.Self, []string{"o"}},
		{"its own event and self", fmt.Sprint(mustLoad(t, rights+"event = [\"e\"]\nself = []\n").Rights), fmt.Sprint(cycle.Rights{Operator: []string{"o"}, Peer: []string{"p"}, Task: []string{"o"}, Self: []string{}, Event: []string{"e"}, Summary: []string{}})},
		{"the vision of a known model", seeing.Sees("gpt-4o"), []string{"image"}},
		{"the setting vision", len(blind.Sees("gpt-4o")), 0},
		{"the usual times of a tool", []time.Duration{usual.Programs[0].Timeout, usual.Programs[0].Deadline}, []time.Duration{time.Minute, time.Hour}},
		{"its own times", []time.Duration{set.Programs[0].Timeout, set.Programs[0].Deadline}, []time.Duration{7 * time.Second, 9 * time.Minute}},
		{"PATH of the turn for a server", ours.Servers[0].Env, []string{"LANG=C.UTF-8", "PATH=/turn"}},
		{"PATH of a server", theirs.Servers[0].Env, []string{"LANG=C.UTF-8", "PATH=/server"}},
		{"the environment of a hook", []bool{slices.Contains(hooks[0].Program.Env, "A=b"), slices.Contains(hooks[0].Program.Env, "LANG=de")}, []bool{true, true}},
		{"content types", []string{hooks[1].Address.ContentType, hooks[2].Address.ContentType, hooks[3].Address.ContentType}, []string{"application/json", "text/plain; charset=utf-8", "text/x"}},
	} {
		if !reflect.DeepEqual(test.got, test.want) {
			t.Errorf("%v: %v, want %v", test.name, test.got, test.want)
		}
	}
}
