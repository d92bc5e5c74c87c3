package config

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"agentstateloop/cycle"
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

// writeConfig writes text to an agent.toml in a new folder, and returns its path.
func writeConfig(t testing.TB, text string) string {
	t.Helper()
	return writeFile(t, "agent.toml", text)
}

// writeFile writes a file that only we can read in a new folder, and returns its path.
func writeFile(t testing.TB, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// mustLoad loads the agent of a configuration.
func mustLoad(t testing.TB, text string) *cycle.Agent {
	t.Helper()
	a, err := newTestLoader().Load(writeConfig(t, text))
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// wantError checks that the error of a configuration begins with the path of the file, matches a
// pattern, and has a hint. It returns the error and the hint.
func wantError(t *testing.T, text, pattern, hint string) string {
	t.Helper()
	path := writeConfig(t, text)
	_, err := newTestLoader().Load(path)
	wrong, ok := errors.AsType[*Error](err)
	if !ok {
		t.Errorf("%.300s\ngot %v, want an Error", text[max(0, len(text)-300):], err)
		return ""
	}
	if got := err.Error(); !strings.HasPrefix(got, path+":") || !regexp.MustCompile(pattern).MatchString(got) || !strings.Contains(wrong.Hint(), hint) {
		t.Errorf("%.300s\ngot  %s; hint %q\nwant %s; %q", text[max(0, len(text)-300):], got, wrong.Hint(), pattern, hint)
	}
	return err.Error() + wrong.Hint()
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

// TestHomeNoteNamesOtherHome checks that the note names a HOME that differs from passwd, and no other.
func TestHomeNoteNamesOtherHome(t *testing.T) {
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
