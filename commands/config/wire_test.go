package config

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"testing"
	"time"

	"agentstateloop/cycle"
	"agentstateloop/mail"
	"agentstateloop/mesh"
	"agentstateloop/state"
	"agentstateloop/turn"
)

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
	if token, err := a.Mesh.Carrier.(*mesh.Client).Token(context.Background()); err != nil || token != "t0ken" {
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
