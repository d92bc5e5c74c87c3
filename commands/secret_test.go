package commands

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

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
		{"empty", write("empty", "\n", 0o600), "", "holds none"},
		{"two lines", write("lines", "s3cret\nmore\n", 0o600), "", "more than one line"},
		{"long", write("long", strings.Repeat("s3cret", 20000), 0o600), "", "over 65536 bytes"},
		{"folder", dir, "", "no regular file"},
		{"fifo", fifo, "", "no regular file"},
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

func TestSecretEnv(t *testing.T) {
	p := &program{environ: []string{"A=s3cret", "EMPTY="}}
	got, err := p.readSecretEnv("A")
	checkSecret(t, "set", got, err, "s3cret", "")
	for _, key := range []string{"EMPTY", "B"} {
		got, err := p.readSecretEnv(key)
		checkSecret(t, key, got, err, "", key+" is not set")
	}
}

func TestSecretCommand(t *testing.T) {
	p := &program{environ: os.Environ()}
	dir := t.TempDir()
	c := &config{path: filepath.Join(dir, "agent.toml"), home: dir}
	script := filepath.Join(dir, "ask.sh")
	if err := os.WriteFile(script, []byte("#!/bin/sh\necho s3cret; echo the rest\n"), 0o700); err != nil {
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
		{"nothing", []string{"true"}, "", "holds none"},
		{"missing", []string{"no-such-program"}, "", "not found"},
		{"endless", []string{"sh", "-c", "head -c 1000000 /dev/zero | tr '\\0' x"}, "", "over 65536 bytes"},
	} {
		got, err := p.readSecretCommand(t.Context(), c, test.argv)
		checkSecret(t, test.name, got, err, test.want, test.problem)
	}
}

// TestWhatLibrariesLog: net/http prints what a server said out of turn, and a
// handler's panic; not with a secret.
func TestWhatLibrariesLog(t *testing.T) {
	defer log.SetOutput(log.Writer())
	path := writeConfig(t, strings.Replace(smallConfig, "[turn]", "state_dir = \"state\"\n[turn]", 1)+"[mesh]\nurl = \"http://127.0.0.1:1\"\ntoken_env = \"TOKEN\"\n")
	var out, errs bytes.Buffer
	args := []string{name, "--config", path, "status"}
	if code := Run(t.Context(), args, nil, &out, &errs, []string{"TOKEN=mesh-canary-4711"}); code != exitDone {
		t.Fatalf("exit code %d\n%s", code, &errs)
	}
	log.Print("the server said mesh-canary-4711")
	if told := errs.String(); !strings.HasSuffix(told, " the server said ***\n") {
		t.Errorf("told: %s", told)
	}
}

// TestToolsSayNoSecret: neither in a result nor in an error, since both go to
// the model's provider.
func TestToolsSayNoSecret(t *testing.T) {
	w := &wake{p: testProgram()}
	w.p.secrets.Learn("api", "sk-canary-4711")
	run := w.redacted(func(context.Context, json.RawMessage) (string, error) {
		return "the key is sk-canary-4711", errors.New("no file sk-canary-4711")
	})
	if text, err := run(t.Context(), nil); text != "the key is ***" || err == nil || err.Error() != "no file ***" {
		t.Errorf("%q, %v", text, err)
	}
}

// TestCrash: a crash that repeats a secret is told without it, with its stack,
// and is an error like any other.
func TestCrash(t *testing.T) {
	var out, errs bytes.Buffer
	p := testProgram()
	p.out.Stdout, p.out.Stderr = &out, &errs
	p.secrets.Learn("imap", "imap-canary-4711")
	p.home = func() (string, error) { panic(errors.New("the server said imap-canary-4711")) }
	code := p.run(t.Context(), []string{name, "--config", "agent.toml", "status"})
	told := errs.String()
	if code != exitError || !strings.HasPrefix(told, "agentstateloop: error: internal: the server said ***\n") ||
		!strings.Contains(told, "TestCrash") || strings.Contains(out.String()+told, "canary") {
		t.Errorf("exit code %d\n%s%s", code, &out, told)
	}
}
