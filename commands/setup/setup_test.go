package setup

import (
	"strings"
	"testing"

	"agentstateloop/commands/config"
	"agentstateloop/internal/account"
	"agentstateloop/internal/secret"
	"agentstateloop/mail"
	"agentstateloop/mail/trust"
	"agentstateloop/turn"
)

// TestAnswersReadBack checks that the configuration of init has the values of the answers.
func TestAnswersReadBack(t *testing.T) {
	const home = "/home/me"
	p := parts{
		agent: agentPart{handle: "goulard3120", operators: []string{"op@example.com", `"odd \ one"@example.com`}, stateDir: "/s"},
		mail: &mailPart{
			address: "a@example.org", imap: "imap.example.org:143", smtp: "smtp.example.org:465", caFile: "/home/me/ca \"1\".pem",
			login: login{passwordFile: "/home/me/.config/p\x7fw"},
		},
		turn:     turnPart{runner: turn.Exec, command: []string{"/bin/x y", "ü", "\t#", "</a>"}, workdir: "/home/me/agents/goulard3120", path: "/a b:/bin"},
		mesh:     meshPart{url: "http://127.0.0.1:8801", tokenFile: "/t", peers: []string{"dorlange3120"}, keymaster: "dorlange3120"},
		schedule: schedulePart{mode: "fixed", crontab: "/usr/bin/crontab"},
	}
	text := p.text(home)
	loader := &config.Loader{
		Account:    func() (account.Account, error) { return account.Account{Home: home, Known: true}, nil },
		Executable: func() (string, error) { return "/bin/agentstateloop", nil },
		Secrets:    new(secret.Known),
	}
	conf, err := loader.Parse("/home/me/.config/agent.toml", text)
	if err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	a, wrong := loader.Wire(conf)
	if len(wrong) > 0 {
		t.Fatalf("%v in\n%s", wrong, text)
	}
	for _, same := range []struct{ name, got, want string }{
		{"operator", strings.Join(conf.File.Agent.Operator, " "), strings.Join(p.agent.operators, " ")},
		{"imap", a.Mail.Mailbox.Addr + " " + a.Mail.Mailbox.TLS, p.mail.imap + " " + mail.TLSStart},
		{"smtp", a.Mail.SMTP.Addr + " " + a.Mail.SMTP.TLS, p.mail.smtp + " " + mail.TLSImplicit},
		{"ca_file", a.Mail.SMTP.CAFile, p.mail.caFile},
		{"password_file", conf.Resolve(conf.File.Mail.IMAP.PasswordFile), p.mail.login.passwordFile},
		{"verify", a.Mail.Filter.Verify, trust.VerifyDKIM},
		{"runner", a.Turn.Runner, turn.Exec},
		{"command", strings.Join(a.Turn.Command, "\n"), strings.Join(p.turn.command, "\n")},
		{"workdir", a.Turn.Workdir, p.turn.workdir},
		{"PATH", a.Turn.Env["PATH"], p.turn.path},
		{"mesh", a.Mesh.Carrier.Address() + a.Policy.Keymaster + a.Mesh.Peers[0], p.mesh.url + p.mesh.keymaster + p.mesh.peers[0]},
		{"state_dir", a.Store.Dir, p.agent.stateDir},
		{"schedule", a.Schedule.Mode + a.Schedule.Table.Command, p.schedule.mode + p.schedule.crontab},
	} {
		if same.got != same.want {
			t.Errorf("%s is %q, want %q, in\n%s", same.name, same.got, same.want, text)
		}
	}
	if !strings.Contains(text, `workdir = "~/agents/goulard3120"`) {
		t.Errorf("home is not shortened in\n%s", text)
	}
}
