package config

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"agentstateloop/internal/testkit"
)

// TestSecretFile checks which files a secret may be in, and that no error shows it.
func TestSecretFile(t *testing.T) {
	dir := t.TempDir()
	write := func(file, text string, mode os.FileMode) string {
		path := filepath.Join(dir, file)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	fifo := filepath.Join(dir, "fifo")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(dir, "link")
	if err := os.Symlink(write("target", "s3cret\n", 0o600), link); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct{ name, path, want, problem string }{
		{"newline", write("newline", "s3cret\n", 0o600), "s3cret", ""},
		{"none", write("none", "s3cret", 0o400), "s3cret", ""},
		{"crlf", write("crlf", "s3cret\r\n", 0o600), "s3cret", ""},
		{"spaces", write("spaces", " s3cret \"ü\\ \n", 0o600), " s3cret \"ü\\ ", ""},
		{"link", link, "s3cret", ""},
		{"group", write("group", "s3cret\n", 0o640), "", "chmod 600"},
		{"others", write("others", "s3cret\n", 0o604), "", "chmod 600"},
		{"empty", write("empty", "\n", 0o600), "", "is empty"},
		{"two lines", write("lines", "s3cret\nmore\n", 0o600), "", "more than one line"},
		{"long", write("long", strings.Repeat("s3cret", 20000), 0o600), "", "exceeds 65536 bytes"},
		{"folder", dir, "", "not a regular file"},
		{"fifo", fifo, "", "not a regular file"},
		{"missing", filepath.Join(dir, "missing"), "", "no such file"},
	} {
		got, err := readSecretFile(test.path)
		checkSecret(t, test.name, got, err, test.want, test.problem)
	}
}

func checkSecret(t *testing.T, name, got string, err error, want, problem string) {
	t.Helper()
	if problem == "" {
		if err != nil || got != want {
			t.Errorf("%s: %q, %v; want %q", name, got, err, want)
		}
		return
	}
	if err == nil || !strings.Contains(err.Error(), problem) || strings.Contains(err.Error(), "s3cret") || got != "" {
		t.Errorf("%s: %q, %v; want an error with %q and without the secret", name, got, err, problem)
	}
}

// TestSecretEnv checks that an empty variable counts as missing.
func TestSecretEnv(t *testing.T) {
	l := &Loader{Environ: []string{"A=s3cret", "EMPTY="}}
	got, err := l.readSecretEnv("A")
	checkSecret(t, "set", got, err, "s3cret", "")
	for _, key := range []string{"EMPTY", "B"} {
		got, err := l.readSecretEnv(key)
		checkSecret(t, key, got, err, "", key+" is not set")
	}
}

// TestSecretCommand checks that the secret is the first line of the output, and that the output has a
// limit.
func TestSecretCommand(t *testing.T) {
	l := &Loader{Environ: os.Environ()}
	dir := t.TempDir()
	c := &Config{Path: filepath.Join(dir, "agent.toml"), home: dir}
	script := filepath.Join(dir, "ask.sh")
	if err := testkit.WriteProgram(script, "#!/bin/sh\necho s3cret; echo the rest\n"); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name          string
		argv          []string
		want, problem string
	}{
		{"first line", []string{"printf", `s3cret\nuser: me\n`}, "s3cret", ""},
		{"no shell", []string{"echo", "$HOME; s3cret"}, "$HOME; s3cret", ""},
		{"relative to the file", []string{"./ask.sh"}, "s3cret", ""},
		{"home", []string{"~/ask.sh"}, "s3cret", ""},
		{"fails", []string{"sh", "-c", "echo s3cret; echo s3cret >&2; exit 3"}, "", "exit status 3"},
		{"nothing", []string{"true"}, "", "is empty"},
		{"missing", []string{"no-such-program"}, "", "not found"},
		{"endless", []string{"sh", "-c", "head -c 1000000 /dev/zero | tr '\\0' x"}, "", "exceeds 65536 bytes"},
		{"without end", []string{"yes", "s3cret"}, "", "exceeds 65536 bytes"},
		{"deaf and without end", []string{"sh", "-c", "trap '' PIPE TERM; while :; do echo s3cret; done 2>/dev/null"}, "", "exceeds 65536 bytes"},
		{"without end on stderr", []string{"sh", "-c", "echo s3cret; exec yes s3cret >&2"}, "", "exceeds 65536 bytes"},
		{"a child without end", []string{"sh", "-c", "yes s3cret & exit 0"}, "", "exceeds 65536 bytes"},
		{"as long as it may be", []string{"sh", "-c", "echo s3cret; head -c 65529 /dev/zero"}, "s3cret", ""},
	} {
		got, err := l.readSecretCommand(t.Context(), c, test.argv)
		checkSecret(t, test.name, got, err, test.want, test.problem)
	}
}
