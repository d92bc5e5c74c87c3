package commands

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"agentstateloop/mail"
	"agentstateloop/turn"
)

// Whatever was answered, the text that is made of it reads back as it was.
func TestSetupText(t *testing.T) {
	s := setup{
		handle: "goulard3120", operators: []string{"op@example.com", `"odd \ one"@example.com`}, address: "a@example.org",
		imap: "imap.example.org:143", smtp: "smtp.example.org:465", caFile: "/home/me/ca \"1\".pem",
		passwordFile: "/home/me/.config/p\x7fw", runner: "exec", command: []string{"/bin/x y", "ü", "\t#", "</a>"},
		workdir: "/home/me/agents/goulard3120", path: "/a b:/bin", meshURL: "http://127.0.0.1:8801", meshTokenFile: "/t",
		peers: []string{"dorlange3120"}, keymaster: "dorlange3120", stateDir: "/s", mode: "fixed", crontab: "/usr/bin/crontab",
		home: "/home/me",
	}
	loader := testLoader()
	loader.Home = func() (string, error) { return s.home, nil }
	conf, err := loader.Parse("/home/me/.config/agent.toml", s.text())
	if err != nil {
		t.Fatalf("%v in\n%s", err, s.text())
	}
	a, wrong := loader.Wire(conf)
	if len(wrong) > 0 {
		t.Fatalf("%v in\n%s", wrong, s.text())
	}
	for _, same := range []struct{ what, got, want string }{
		{"operator", strings.Join(conf.File.Agent.Operator, " "), strings.Join(s.operators, " ")},
		{"imap", a.Mail.Mailbox.Addr + " " + a.Mail.Mailbox.TLS, s.imap + " " + mail.TLSStart},
		{"smtp", a.Mail.SMTP.Addr + " " + a.Mail.SMTP.TLS, s.smtp + " " + mail.TLSImplicit},
		{"ca_file", a.Mail.SMTP.CAFile, s.caFile},
		{"password_file", conf.Resolve(conf.File.Mail.IMAP.PasswordFile), s.passwordFile},
		{"verify", a.Mail.Filter.Verify, mail.VerifyDKIM},
		{"runner", a.Turn.Runner, turn.Exec},
		{"command", strings.Join(a.Turn.Command, "\n"), strings.Join(s.command, "\n")},
		{"workdir", a.Turn.Workdir, s.workdir},
		{"PATH", a.Turn.Env["PATH"], s.path},
		{"mesh", a.Mesh.Client.URL + a.Policy.Keymaster + a.Mesh.Peers[0], s.meshURL + s.keymaster + s.peers[0]},
		{"state_dir", a.Store.Dir, s.stateDir},
		{"schedule", a.Schedule.Mode + a.Schedule.Table.Command, s.mode + s.crontab},
	} {
		if same.got != same.want {
			t.Errorf("%s is %q, want %q, in\n%s", same.what, same.got, same.want, s.text())
		}
	}
	if !strings.Contains(s.text(), `workdir = "~/agents/goulard3120"`) {
		t.Errorf("home is not shortened in\n%s", s.text())
	}
}

// Of many that write one file at once, one does, and the file is whole.
func TestWriteNew(t *testing.T) {
	path := filepath.Join(t.TempDir(), "new", "agent.toml")
	var wrote atomic.Int32
	var all sync.WaitGroup
	for i := range 20 {
		all.Go(func() {
			written, err := writeNew(path, strings.Repeat(string(rune('a'+i)), 10_000))
			if err != nil {
				t.Error(err)
			}
			if written {
				wrote.Add(1)
			}
		})
	}
	all.Wait()
	text := content(t, path)
	if wrote.Load() != 1 || len(text) != 10_000 || strings.Trim(text, text[:1]) != "" {
		t.Errorf("%d wrote it, and it has %d bytes", wrote.Load(), len(text))
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	if entries, err := os.ReadDir(filepath.Dir(path)); err != nil || len(entries) != 1 {
		t.Errorf("beside it lies %v, %v", entries, err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/nowhere/at/all", path); err != nil {
		t.Fatal(err)
	}
	if written, err := writeNew(path, "x"); written || err != nil {
		t.Errorf("over a dangling link: %v, %v", written, err)
	}
}

func TestLastingPath(t *testing.T) {
	got := lastingPath("/home/me/bin:.:/usr/bin:/home/me/bin::bin:/tmp/go-build1/b001:/opt/x")
	if want := "/home/me/bin:/usr/bin:/opt/x:/usr/local/bin:/bin"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestPresetOf(t *testing.T) {
	for address, want := range map[string]string{
		"a@gmail.com": "gmail", "a@GoogleMail.com": "gmail", "a@fastmail.fm": "fastmail", "a@hotmail.com": "outlook",
		"a@example.com": "", "gmail.com@example.com": "",
	} {
		if got := presetOf(address); got != want {
			t.Errorf("presetOf(%s) = %q, want %q", address, got, want)
		}
	}
}
