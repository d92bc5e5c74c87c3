package react_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"agentstateloop/turn/react"
)

// folders returns three empty folders, and the path of a secret outside them.
func folders(t *testing.T) (r react.Folders, secret string) {
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

// call runs the named tool with arguments in JSON.
func call(t *testing.T, tools []react.Tool, name, args string) (string, error) {
	t.Helper()
	i := slices.IndexFunc(tools, func(tool react.Tool) bool { return tool.Name == name })
	if i < 0 {
		t.Fatalf("unknown tool %s", name)
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
	r, _ := folders(t)
	tools := files(t, r)
	for _, step := range []struct{ tool, args, want string }{
		{"write_file", `{"path":"notes/a.txt","text":"one\n"}`, "wrote 4 bytes"},
		{"write_file", `{"path":"notes/a.txt","text":"two\n","append":true}`, "wrote 4 bytes"},
		{"read_file", `{"path":"notes/a.txt"}`, "one\ntwo\n"},
		{"read_file", `{"path":"notes/a.txt","offset":4}`, "two\n"},
		{"write_file", `{"path":"notes/a.txt","text":""}`, "wrote 0 bytes"},
		{"read_file", `{"path":"./notes/../notes/a.txt"}`, ""},
		{"read_file", `{"path":` + quote(filepath.Join(r.Context, "message.txt")) + `}`, "how are you?"},
		{"write_file", `{"path":` + quote(filepath.Join(r.Output, "plot.svg")) + `,"text":"<svg/>"}`, "wrote 6 bytes"},
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

// Whatever path a model uses, nothing outside of its folders is read or written.
func TestPathsStayInFolders(t *testing.T) {
	r, secret := folders(t)
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
		t.Error("the context folder was written to")
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

func TestIrregularFiles(t *testing.T) {
	r, _ := folders(t)
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
	if err != nil || !strings.Contains(first, "continue with offset 49151]") {
		t.Fatalf("a long file ends with %q, %v", first[max(0, len(first)-60):], err)
	}
	rest, err := call(t, tools, "read_file", `{"path":"long","offset":49151}`)
	if first, _, _ = strings.Cut(first, "\n["); err != nil || first+rest != "x"+long {
		t.Errorf("the parts of a long file do not make the whole: %v", err)
	}
}
