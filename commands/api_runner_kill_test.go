package commands

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"agentstateloop/commands/config"
	"agentstateloop/internal/testkit/mailtest"
	"agentstateloop/internal/testkit/scripted"
)

// notches are the arguments of the calls that TestKilledAPIRunner has the model make.
var notches = []string{`{"at":"left"}`, `{"at":"middle"}`, `{"at":"right"}`}

// notchTool is a tool that adds a line to work/notches, and the [api] section.
const notchTool = `
[tools.notch]
command = ["sh", "-c", "read args; echo \"$args\" >>notches; echo cut"]
description = "Cuts a notch."
schema = "notch.json"
[api]
provider = %q
base_url = %q
model = "gpt-4o"
key_file = "api-key"
`

// TestKilledAPIRunner kills the built-in loop and its poll after each line of steps.jsonl, or
// after every third unless all that is real is required. The next poll goes on and no tool runs
// twice. If a tool that may have run did not, the model was told that its result is unknown.
func TestKilledAPIRunner(t *testing.T) {
	if testing.Short() {
		t.Skip("kills many processes")
	}
	t.Parallel()
	program := buildProgram(t, t.TempDir())
	for line := 1; line <= 11; line += part(1, 3) {
		t.Run(fmt.Sprintf("line %d", line), func(t *testing.T) { testKillAfterLine(t, program, line) })
	}
}

// testKillAfterLine kills the loop as soon as steps.jsonl has this many lines.
func testKillAfterLine(t *testing.T, program string, line int) {
	dir := tempDir(t)
	servers := mailtest.StartMemory(t, mailtest.Options{Username: "goulard@example.org"})
	model := &scripted.Server{Script: scripted.EachOnce("notch", notches, "Three are cut.")}
	url, stop, err := model.Start()
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	provider := config.Anthropic
	if line%2 == 0 {
		provider, url = config.OpenAI, url+"/v1"
	}
	writeAgent(t, dir, servers, "[turn]\nrunner = \"api\"\nworkdir = \"work\"\n[schedule]\nmode = \"none\"\n"+fmt.Sprintf(notchTool, provider, url))
	for file, text := range map[string]string{
		"api-key":    scripted.Key,
		"notch.json": `{"type":"object","properties":{"at":{"type":"string"}},"required":["at"]}`,
	} {
		if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(dir, "work"), 0o700); err != nil {
		t.Fatal(err)
	}
	poll := func() *exec.Cmd {
		return exec.Command(program, "--config", filepath.Join(dir, "agent.toml"), "poll", "--quiet")
	}
	if out, err := poll().CombinedOutput(); err != nil { // the baseline
		t.Fatalf("first poll: %v\n%s", err, out)
	}
	raw := "From: operator@example.com\r\nSubject: @goulard3120 work\r\nMessage-ID: <m@example.com>\r\n\r\nCut three notches.\r\n"
	if _, err := servers.Append([]byte(raw), time.Now()); err != nil {
		t.Fatal(err)
	}

	cmd := poll()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() { cmd.Wait(); close(done) }()
	tick := time.NewTicker(200 * time.Microsecond)
	defer tick.Stop()
	for countStepLines(t, dir) < line {
		select {
		case <-done:
			t.Fatalf("the poll ended after %d steps", countStepLines(t, dir))
		case <-tick.C:
		}
	}
	cmd.Process.Kill()
	killAgents(t, dir)
	<-done

	for n := 0; n == 0 || !wasSent(servers, "Three are cut."); n++ {
		if n == 10 {
			t.Fatalf("no answer: %q", servers.Sent())
		}
		if out, err := poll().CombinedOutput(); err != nil {
			t.Fatalf("poll: %v\n%s", err, out)
		}
	}
	asked := model.Asked()
	unknown := bytes.Count(asked[len(asked)-1].Body, []byte("Unknown: the work was interrupted"))
	cut, _ := os.ReadFile(filepath.Join(dir, "work", "notches"))
	for _, args := range notches {
		n := bytes.Count(cut, []byte(args))
		if n == 0 && unknown > 0 {
			unknown--
			continue
		}
		if n != 1 {
			t.Errorf("%s was cut %d times, want 1", args, n)
		}
	}
	if refused := model.Refused(); len(refused) > 0 {
		t.Errorf("requests that an API would refuse: %q", refused)
	}
}

// countStepLines returns the number of lines in the steps.jsonl of the first attempt.
func countStepLines(t *testing.T, dir string) int {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "state", "turns", "*", "1", "steps.jsonl"))
	if err != nil || len(files) == 0 {
		return 0
	}
	data, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	return bytes.Count(data, []byte("\n"))
}

// wasSent reports whether a mail that contains text was sent.
func wasSent(servers *mailtest.Servers, text string) bool {
	return slices.ContainsFunc(servers.Sent(), func(m mailtest.Sent) bool { return bytes.Contains(m.Raw, []byte(text)) })
}
