package react_test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"agentstateloop/turn/react"
)

// rooms are three empty folders beside a secret that lies outside of them.
func rooms(t *testing.T) (r react.Folders, secret string) {
	t.Helper()
	base := t.TempDir()
	r = react.Folders{Workdir: filepath.Join(base, "work"), Output: filepath.Join(base, "turn", "output"), Context: filepath.Join(base, "turn", "context")}
	for _, dir := range []string{r.Workdir, r.Output, r.Context} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	secret = filepath.Join(base, "secret")
	write(t, secret, "hunter2")
	write(t, filepath.Join(r.Context, "message.txt"), "how are you?")
	return r, secret
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// call runs the named tool with arguments that are written as JSON.
func call(t *testing.T, tools []react.Tool, name, args string) (string, error) {
	t.Helper()
	i := slices.IndexFunc(tools, func(tool react.Tool) bool { return tool.Name == name })
	if i < 0 {
		t.Fatalf("there is no tool %s", name)
	}
	return tools[i].Run(t.Context(), json.RawMessage(args))
}

func files(t *testing.T, r react.Folders) []react.Tool {
	t.Helper()
	tools, err := r.Files()
	if err != nil {
		t.Fatal(err)
	}
	return tools
}

func quote(s string) string {
	b, _ := json.Marshal(s)
	return string(b)
}

func TestFiles(t *testing.T) {
	r, _ := rooms(t)
	tools := files(t, r)
	for _, step := range []struct{ tool, args, want string }{
		{"write_file", `{"path":"notes/a.txt","text":"one\n"}`, "4 bytes written"},
		{"write_file", `{"path":"notes/a.txt","text":"two\n","append":true}`, "4 bytes written"},
		{"read_file", `{"path":"notes/a.txt"}`, "one\ntwo\n"},
		{"read_file", `{"path":"notes/a.txt","offset":4}`, "two\n"},
		{"write_file", `{"path":"notes/a.txt","text":""}`, "0 bytes written"},
		{"read_file", `{"path":"./notes/../notes/a.txt"}`, ""},
		{"read_file", `{"path":` + quote(filepath.Join(r.Context, "message.txt")) + `}`, "how are you?"},
		{"write_file", `{"path":` + quote(filepath.Join(r.Output, "plot.svg")) + `,"text":"<svg/>"}`, "6 bytes written"},
		{"list", `{}`, "notes/\n"},
		{"list", `{"path":".","depth":2}`, "notes/\nnotes/a.txt 0\n"},
		{"list", `{"path":"notes"}`, "a.txt 0\n"},
		{"list", ``, "notes/\n"},
	} {
		got, err := call(t, tools, step.tool, step.args)
		if err != nil || got != step.want {
			t.Errorf("%s %s = %q, %v; want %q", step.tool, step.args, got, err, step.want)
		}
	}
}

// TestNoWayOut: whatever path a model thinks of, nothing outside of the rooms is
// read or written.
func TestNoWayOut(t *testing.T) {
	r, secret := rooms(t)
	tools := files(t, r)
	for name, target := range map[string]string{"link": secret, "up": "..", "chain": "link", "proc": "/proc/self"} {
		if err := os.Symlink(target, filepath.Join(r.Workdir, name)); err != nil {
			t.Fatal(err)
		}
	}
	for _, path := range []string{
		secret, "../secret", "link", "chain", "up/secret", "up/../../secret", "./up/secret", "/etc/passwd", "~/.ssh/id_rsa",
		"proc/environ", "a/../../secret", r.Workdir + "/../secret", r.Workdir + "x", "", "\x00", "..",
	} {
		got, err := call(t, tools, "read_file", `{"path":`+quote(path)+`}`)
		if err == nil {
			t.Errorf("read_file %q = %q", path, got)
		}
		if got, err := call(t, tools, "write_file", `{"path":`+quote(path)+`,"text":"gone"}`); err == nil && path != "~/.ssh/id_rsa" {
			t.Errorf("write_file %q = %q", path, got)
		}
	}
	if _, err := call(t, tools, "write_file", `{"path":`+quote(filepath.Join(r.Context, "message.txt"))+`,"text":"x"}`); err == nil {
		t.Error("the context box was written to")
	}
	for _, path := range []string{"up", "..", "/"} {
		if got, err := call(t, tools, "list", `{"path":`+quote(path)+`}`); err == nil {
			t.Errorf("list %q = %q", path, got)
		}
	}
	if data, err := os.ReadFile(secret); err != nil || string(data) != "hunter2" {
		t.Errorf("the secret is %q, %v", data, err)
	}
}

func TestOddFiles(t *testing.T) {
	r, _ := rooms(t)
	tools := files(t, r)
	if err := syscall.Mkfifo(filepath.Join(r.Workdir, "fifo"), 0o600); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(r.Workdir, "binary"), "\xff\xfe\x00")
	long := strings.Repeat("é", 40<<10)
	write(t, filepath.Join(r.Workdir, "long"), "x"+long)
	for tool, args := range map[string]string{"read_file": `{"path":"fifo"}`, "write_file": `{"path":"fifo","text":"x"}`} {
		if got, err := call(t, tools, tool, args); err == nil {
			t.Errorf("%s of a fifo = %q", tool, got)
		}
	}
	for _, args := range []string{`{"path":"binary"}`, `{"path":"long","offset":-1}`, `{"path":"long","offset":99999999}`, `{"path":"."}`, `{"path":"nowhere"}`} {
		if got, err := call(t, tools, "read_file", args); err == nil {
			t.Errorf("read_file %s = %q", args, got)
		}
	}
	first, err := call(t, tools, "read_file", `{"path":"long"}`)
	if err != nil || !strings.Contains(first, "go on with offset 49151]") {
		t.Fatalf("a long file ends with %q, %v", first[max(0, len(first)-60):], err)
	}
	rest, err := call(t, tools, "read_file", `{"path":"long","offset":49151}`)
	if first, _, _ = strings.Cut(first, "\n["); err != nil || first+rest != "x"+long {
		t.Errorf("the parts of a long file do not make the whole: %v", err)
	}
}

// TestArguments: what does not fit the schema never comes to an effect, and the
// model is told why.
func TestArguments(t *testing.T) {
	done := 0
	tools, err := react.Effects{Send: func(context.Context, string, string) error { done++; return nil }}.Tools()
	if err != nil {
		t.Fatal(err)
	}
	for _, args := range []string{``, `{`, `[]`, `null`, `"x"`, `{"to":"a"}`, `{"to":1,"text":"x"}`, `{"to":"a","text":"x","bcc":"b"}`, `{"to":"a","text":"x"} {}`} {
		if got, err := call(t, tools, "send", args); err == nil {
			t.Errorf("send %s = %q", args, got)
		}
	}
	if done != 0 {
		t.Fatalf("%d messages were sent", done)
	}
	if got, err := call(t, tools, "send", `{"to":"dorlange3120","text":"hi"}`); err != nil || got != "sent" || done != 1 {
		t.Errorf("send = %q, %v, %d sent", got, err, done)
	}
}

func TestEffects(t *testing.T) {
	var slept, waits time.Duration
	var found int
	tools, err := react.Effects{
		Ask: func(_ context.Context, to, text string, d time.Duration) (string, error) {
			if to == "goulard3120" {
				return "", errors.New("that is you")
			}
			waits = d
			return "ask.1", nil
		},
		Sleep: func(_ context.Context, d time.Duration) error { slept = d; return nil },
		Search: func(_ context.Context, _ string, n int) (string, error) {
			found = n
			return strings.Repeat("x", 70<<10), nil
		},
	}.Tools()
	if err != nil {
		t.Fatal(err)
	}
	if len(tools) != 3 {
		t.Fatalf("%d tools", len(tools))
	}
	if got, err := call(t, tools, "ask", `{"to":"dorlange3120","text":"?"}`); err != nil || waits != 10*time.Minute || !strings.Contains(got, "ask.1") {
		t.Errorf("ask = %q, %v after %v", got, err, waits)
	}
	if _, err := call(t, tools, "ask", `{"to":"goulard3120","text":"?"}`); err == nil || err.Error() != "that is you" {
		t.Errorf("the reason did not come through: %v", err)
	}
	for _, args := range []string{`{"minutes":0}`, `{"minutes":-5}`, `{"minutes":153722867280912931}`, `{"minutes":1.5}`, `{}`} {
		if got, err := call(t, tools, "sleep", args); err == nil {
			t.Errorf("sleep %s = %q", args, got)
		}
	}
	if _, err := call(t, tools, "sleep", `{"minutes":90}`); err != nil || slept != 90*time.Minute {
		t.Errorf("slept %v, %v", slept, err)
	}
	if got, err := call(t, tools, "search_history", `{"query":"x","most":99}`); err != nil || found != 20 || len(got) > 65<<10 {
		t.Errorf("search_history: %d of %d bytes, %v", found, len(got), err)
	}
}

// TestAllow: permissions name tools that exist.
func TestAllow(t *testing.T) {
	r, _ := rooms(t)
	all := files(t, r)
	got, err := react.Allow(all, []string{"list", "read_file"})
	if err != nil || len(got) != 2 || got[0].Name != "read_file" {
		t.Errorf("Allow = %v, %v", got, err)
	}
	if _, err := react.Allow(all, []string{"reed_file"}); err == nil {
		t.Error("a misspelt tool was allowed")
	}
	peer := react.DefaultTools(false, all)
	for _, name := range []string{"write_file", "exec", "remember", "search_history"} {
		if slices.Contains(peer, name) {
			t.Errorf("a peer may %s", name)
		}
	}
	if slices.Contains(react.DefaultTools(true, all), "exec") {
		t.Error("exec is on by default")
	}
}
