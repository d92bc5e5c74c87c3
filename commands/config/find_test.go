package config

import (
	"os"
	"path/filepath"
	"testing"
)

// TestFindPrefers checks which of several configurations is used: that of the flag, of
// the variable, of the working folder, of the user's configuration folder.
func TestFindPrefers(t *testing.T) {
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	at := func(elem ...string) string { return filepath.Join(append([]string{root}, elem...)...) }
	work, xdg, home := at("work", "agent.toml"), at("xdg", "agentstateloop", "agent.toml"), at("home", ".config", "agentstateloop", "agent.toml")
	for _, path := range []string{work, xdg, home} {
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(at("work"))
	l := testLoader()
	l.Home = func() (string, error) { return at("home"), nil }
	find := func(flag, want string, environ ...string) {
		t.Helper()
		l.Environ = environ
		if got, err := l.Find(flag); err != nil || got != want {
			t.Errorf("flag %q, environment %q: %s, %v; want %s", flag, environ, got, err, want)
		}
	}
	byVariable, folder := "AGENTSTATELOOP_CONFIG="+at("b.toml"), "XDG_CONFIG_HOME="+at("xdg")
	find(at("a.toml"), at("a.toml"), byVariable, folder)
	find("", at("b.toml"), byVariable, folder)
	find("", at("c.toml"), byVariable, "AGENTSTATELOOP_CONFIG="+at("c.toml")) // the last of a name counts
	find("", work, folder)
	if err := os.Remove(work); err != nil {
		t.Fatal(err)
	}
	find("", xdg, folder)
	find("", home)
	find("", home, "XDG_CONFIG_HOME=xdg")
}
