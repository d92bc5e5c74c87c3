package react_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"agentstateloop/turn/box"
	"agentstateloop/turn/react"
)

// shell returns a function that runs a program with the tool exec and the folders of r.
func shell(t *testing.T, r react.Folders) func(argv ...string) (string, error) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	way, err := box.Find(t.Context(), self)
	if err != nil {
		if os.Getenv("AGENTSTATELOOP_REQUIRE_REAL") != "" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	tool, err := react.Shell{
		Folders: r, Box: box.Box{Self: self}, Way: way, Env: []string{"PATH=/usr/bin:/bin"}, Timeout: time.Minute,
	}.Tool()
	if err != nil {
		t.Fatal(err)
	}
	return func(argv ...string) (string, error) {
		args, err := json.Marshal(map[string][]string{"argv": argv})
		if err != nil {
			t.Fatal(err)
		}
		return call(t, []react.Tool{tool}, react.Exec, string(args))
	}
}

// A program of the model can read and write only in the folders of the model.
func TestExecIsConfined(t *testing.T) {
	r, secret := folders(t)
	exec := shell(t, r)
	if got, err := exec("sh", "-c", "echo made > here && cat here; cat; echo err >&2"); err != nil || got != "made\nerr" {
		t.Fatalf("exec = %q, %v", got, err)
	}
	if got, err := os.ReadFile(filepath.Join(r.Workdir, "here")); err != nil || string(got) != "made\n" {
		t.Errorf("what it wrote: %q, %v", got, err)
	}
	// The folder above is the sandbox's own, in memory.
	if got, err := exec("sh", "-c", "echo gone > ../secret"); err != nil {
		t.Errorf("a file above the working folder: %q, %v", got, err)
	}
	message := filepath.Join(r.Context, "message.txt")
	for _, c := range []struct {
		fault string
		argv  []string
	}{
		{"No such file", []string{"cat", secret}},
		{"No such file", []string{"cat", "../secret"}},
		{"No such file", []string{"rm", secret}},
		{"cannot create", []string{"sh", "-c", "echo changed > " + message}},
		{"not found in $PATH; the sandbox contains", []string{"nosuchprogram"}},
		{"argv is empty", nil},
		{"exit status 7", []string{"sh", "-c", "exit 7"}},
	} {
		if got, err := exec(c.argv...); err == nil || !strings.Contains(err.Error(), c.fault) {
			t.Errorf("exec %q = %q, %v; want an error with %q", c.argv, got, err, c.fault)
		}
	}
	if data, err := os.ReadFile(secret); err != nil || string(data) != "hunter2" {
		t.Errorf("the secret is %q, %v", data, err)
	}
	if got, err := exec("cat", message); err != nil || got != "how are you?" {
		t.Errorf("the context: %q, %v", got, err)
	}
}

// A program starts in a folder below the working folder, even if links lead elsewhere.
func TestExecStartsInWorkdir(t *testing.T) {
	r, _ := folders(t)
	tool, err := react.Shell{Folders: r, Timeout: time.Minute}.Tool()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/", filepath.Join(r.Workdir, "root")); err != nil {
		t.Fatal(err)
	}
	for dir, fault := range map[string]string{"..": "outside", "nowhere": "not a folder", "root/etc": "not a folder"} {
		if got, err := call(t, []react.Tool{tool}, react.Exec, `{"argv":["pwd"],"dir":`+quote(dir)+`}`); err == nil || !strings.Contains(err.Error(), fault) {
			t.Errorf("in %s: %q, %v; want an error with %q", dir, got, err, fault)
		}
	}
}
