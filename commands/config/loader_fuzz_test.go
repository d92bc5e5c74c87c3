package config

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"agentstateloop/commands/terminal"
	"agentstateloop/cron"
	"agentstateloop/state"
)

// FuzzLoad checks that each text yields a complete agent or an *Error. The error
// and its hint are one line.
func FuzzLoad(f *testing.F) {
	example, err := os.ReadFile(filepath.Join("..", "..", "agent.toml.example"))
	if err != nil {
		f.Fatal(err)
	}
	for _, text := range []string{
		string(example), smallConfig, smallConfig + smallMail, "", "[agent]\nhandle = 1\n", "[agent\n", "agent.handle = \"x\"\n[agent]",
		"[agent]\n\"han\\ndle\" = '''\n\n'''", "agent.\"han\\ndle\" =", "[turn.env]\n\"\" = \"\"\n[[turn]]\n", smallConfig + "timeout = \"1e9h\"\n",
		smallConfig + "[timing]\nidle_interval = \"45m\"\n", "\ufeff[agent]\r\nhandle = \"a\"\r\n", "[mail]\naddress = \"\\u202e\"",
		smallConfig + "[replies]\nack = \"{{range .}}{{end\"\n", "operator = [[[[[[[[[[[[", smallConfig + "[mesh]\nurl = \"file:///\"\n",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		text = text[:min(len(text), 4<<10)]
		path := filepath.Join(t.TempDir(), "agent.toml")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		a, err := newTestLoader().Load(path)
		if err != nil {
			var wrong *Error
			if !errors.As(err, &wrong) {
				t.Fatalf("%v is not an *Error", err)
			}
			if wrong.Line < 0 || wrong.Line > strings.Count(text, "\n")+1 || wrong.Path != path || wrong.Text == "" {
				t.Errorf("%+v", wrong)
			}
			if text := terminal.Printable(err.Error() + wrong.Hint()); strings.Contains(text, "\n") {
				t.Errorf("%q is not one line", text)
			}
			return
		}
		if !state.ValidHandle(a.Handle) || !filepath.IsAbs(a.Store.Dir) || a.Mail != nil && a.Policy.Operator == "" {
			t.Errorf("agent %q in %q of %q", a.Handle, a.Store.Dir, a.Policy.Operator)
		}
		p := a.Policy
		for key, d := range map[string]int64{
			"prep_timeout": int64(p.PrepTimeout), "active_timeout": int64(p.ActiveTimeout), "cooldown": int64(p.Cooldown),
			"timeout": int64(p.TurnTimeout), "keep": int64(a.Keep), "max_attempts": int64(p.MaxAttempts),
		} {
			if d <= 0 {
				t.Errorf("%s is %d", key, d)
			}
		}
		if _, err := cron.Expr(p.IdleInterval); err != nil {
			t.Error(err)
		}
		if _, err := cron.Expr(p.EngagedInterval); err != nil {
			t.Error(err)
		}
	})
}
