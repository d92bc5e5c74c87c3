package config

import (
	"os"
	"path/filepath"
	"testing"
)

// TestFind takes the places of a configuration away one after the other. Each time the
// next one counts.
func TestFind(t *testing.T) {
	here, home := t.TempDir(), t.TempDir()
	t.Chdir(here)
	users := filepath.Join(home, ".config", "agentstateloop", fileName)
	if err := os.MkdirAll(filepath.Dir(users), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{users, fileName} {
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	l := &Loader{Home: func() (string, error) { return home, nil }, Environ: []string{"AGENTSTATELOOP_CONFIG=/environ.toml"}}
	want := func(flag, path string) {
		t.Helper()
		if got, err := l.Find(flag); got != path || err != nil {
			t.Errorf("Find(%q) = %q, %v, want %q", flag, got, err, path)
		}
	}
	want("/flag.toml", "/flag.toml")
	want("", "/environ.toml")
	l.Environ = nil
	folder, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	want("", filepath.Join(folder, fileName))
	if err := os.Remove(fileName); err != nil {
		t.Fatal(err)
	}
	want("", users)
	l.Environ = []string{"XDG_CONFIG_HOME=/nowhere"}
	if path, err := l.Find(""); err == nil {
		t.Errorf("found %s, but no configuration exists", path)
	}
}
