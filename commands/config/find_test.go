package config

import (
	"os"
	"path/filepath"
	"testing"

	"agentstateloop/internal/account"
)

// TestFindOrder checks that the flag comes before the variable, the working folder, and the user's
// configuration folder.
func TestFindOrder(t *testing.T) {
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
	l := newTestLoader()
	l.Account = func() (account.Account, error) { return account.Account{Home: at("home"), Known: true}, nil }
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
	l.Environ = []string{"XDG_CONFIG_HOME=" + at("empty")}
	if path, err := l.Find(""); err == nil {
		t.Errorf("found %s, which is not in the folder of the variable", path)
	}
}

// TestSameFile compares the paths of a file, of links to it, and of files that do not exist.
func TestSameFile(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, err := range []error{
		os.WriteFile("file", nil, 0o600), os.WriteFile("other", nil, 0o600), os.Symlink("file", "link"), os.Link("file", "hard"), os.Symlink("none", "dangling"),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, test := range []struct {
		a, b string
		want bool
	}{
		{"file", "file", true}, {"file", "link", true}, {"hard", "link", true}, {"none", "none", true},
		{"file", "other", false}, {"file", "none", false}, {"none", "file", false}, {"none", "dangling", false}, {"file", "", false},
	} {
		if got := SameFile(test.a, test.b); got != test.want {
			t.Errorf("%q, %q: %v", test.a, test.b, got)
		}
	}
}
