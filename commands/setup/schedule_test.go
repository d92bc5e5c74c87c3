package setup

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"agentstateloop/commands/config"
	"agentstateloop/internal/account"
	"agentstateloop/internal/secret"
)

// TestReschedule checks that one line of a configuration changes, wherever [schedule] is, and that a
// text which cannot be changed so is refused.
func TestReschedule(t *testing.T) {
	const begin = "[agent]\nhandle = \"goulard3120\"\noperator = [\"o@example.com\"]\n[turn]\nrunner = \"none\"\n"
	for _, c := range []struct{ old, want string }{
		{"", "\n[schedule]\nmode = \"systemd\"\n"},
		{"[schedule]\n", "[schedule]\nmode = \"systemd\"\n"},
		{"[schedule]", "[schedule]\nmode = \"systemd\"\n"},
		{"[ schedule ] # x\ncrontab = \"c\"\n[replies]\n", "[ schedule ] # x\nmode = \"systemd\"\ncrontab = \"c\"\n[replies]\n"},
		{"[schedule]\n  mode='fixed' # mine\ncrontab = \"c\"\n", "[schedule]\nmode = \"systemd\" # mine\ncrontab = \"c\"\n"},
		{"[schedule]\n# mode = \"x\"\nlinger = \"50s\"\n", "[schedule]\nmode = \"systemd\"\n# mode = \"x\"\nlinger = \"50s\"\n"},
		{"[replies]\nack = \"\"\n[schedule]\n[budget]\n", "[replies]\nack = \"\"\n[schedule]\nmode = \"systemd\"\n[budget]\n"},
		{"[schedule]\n\"mode\" = \"fixed\"\n", ""},
		{"[\"schedule\"]\nmode = \"fixed\"\n", ""},
		{"[replies]\nack = \"\"\"\n[schedule]\n\"\"\"\n", ""},
	} {
		path := filepath.Join(t.TempDir(), "agent.toml")
		if err := os.WriteFile(path, []byte(begin+c.old), 0o600); err != nil {
			t.Fatal(err)
		}
		s := Setup{Loader: &config.Loader{
			Account:    func() (account.Account, error) { return account.Account{Home: "/home/you", Known: true}, nil },
			Executable: func() (string, error) { return "/usr/bin/agentstateloop", nil },
			Secrets:    new(secret.Known),
		}}
		a, text, err := s.Reschedule(path, "systemd")
		switch {
		case c.want == "":
			if err == nil {
				t.Errorf("%q was changed to %q", c.old, text)
			}
		case err != nil:
			t.Errorf("%q: %v", c.old, err)
		case strings.TrimPrefix(text, strings.TrimSuffix(begin, "\n")) != "\n"+c.want || a.Schedule.Mode != "systemd" || a.Schedule.Home != "/home/you":
			t.Errorf("%q became %q, schedule %+v", c.old, text, a.Schedule)
		}
	}
}
