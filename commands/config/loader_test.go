package config

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"agentstateloop/internal/account"
	"agentstateloop/internal/secret"
)

// newTestLoader returns a Loader with a home folder and a program of its own.
func newTestLoader() *Loader {
	return &Loader{
		Account:    func() (account.Account, error) { return account.Account{Home: "/home/you", Known: true}, nil },
		Executable: func() (string, error) { return "/usr/local/bin/agentstateloop", nil },
		Version:    "v0",
		Now:        time.Now,
		Secrets:    new(secret.Known),
	}
}

func writeConfig(t testing.TB, text string) string {
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

// TestHomeNote checks that a HOME which passwd does not know is named, and no other.
func TestHomeNote(t *testing.T) {
	for home, want := range map[string]string{
		"/elsewhere": "HOME is /elsewhere, but passwd says /home/you: ~ means /home/you, as in cron jobs", "/home/you": "", "/home/you/": "", "": "",
	} {
		l := newTestLoader()
		l.Environ = []string{"HOME=" + home}
		if got := l.HomeNote(); got != want {
			t.Errorf("HOME=%s: %q", home, got)
		}
	}
}
