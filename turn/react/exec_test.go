package react_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"agentstateloop/turn/react"
)

// A program that the model runs reads and writes in the folders of the model and
// nowhere else.
func TestExecIsConfined(t *testing.T) {
	r, secret := folders(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	tool, err := react.Shell{Folders: r, Self: self, Env: []string{"PATH=/usr/bin:/bin"}, Path: "/usr/bin:/bin:" + filepath.Dir(self), Timeout: time.Minute}.Tool()
	if err != nil {
		t.Fatal(err)
	}
	tools := []react.Tool{tool}
	exec := func(args string) (string, error) { return call(t, tools, "exec", args) }

	got, err := exec(`{"argv":["sh","-c","echo made > here && cat here; cat"]}`)
	if err != nil && strings.Contains(err.Error(), "Landlock") {
		if os.Getenv("AGENTSTATELOOP_REQUIRE_REAL") != "" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	if err != nil || got != "made" {
		t.Fatalf("exec = %q, %v", got, err)
	}
	for _, c := range []struct{ args, fault string }{
		{`{"argv":["cat",` + quote(secret) + `]}`, "Permission denied"},
		{`{"argv":["sh","-c","cat ../secret"]}`, "Permission denied"},
		{`{"argv":["sh","-c","echo gone > ../secret"]}`, "cannot create"},
		{`{"argv":["rm","-f",` + quote(secret) + `]}`, "Permission denied"},
		{`{"argv":["truncate","-s","0",` + quote(secret) + `]}`, "Permission denied"},
		{`{"argv":["nosuchprogram"]}`, "not found"},
		{`{"argv":[]}`, "argv is empty"},
		{`{"argv":["pwd"],"dir":".."}`, "outside"},
		{`{"argv":["pwd"],"dir":"nowhere"}`, "not a folder"},
		{`{"argv":["sh","-c","exit 7"]}`, "exit status 7"},
	} {
		if got, err := exec(c.args); err == nil || !strings.Contains(err.Error(), c.fault) {
			t.Errorf("exec %s = %q, %v; want an error with %q", c.args, got, err, c.fault)
		}
	}
	if data, err := os.ReadFile(secret); err != nil || string(data) != "hunter2" {
		t.Errorf("the secret is %q, %v", data, err)
	}
	if got, err := exec(`{"argv":["cat",` + quote(filepath.Join(r.Context, "message.txt")) + `]}`); err != nil || got != "how are you?" {
		t.Errorf("the context: %q, %v", got, err)
	}
}
