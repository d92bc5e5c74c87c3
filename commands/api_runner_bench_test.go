package commands

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"agentstateloop/internal/testkit/mailtest"
	"agentstateloop/internal/testkit/scripted"
)

// apiRunnerConfig is the rest of agent.toml, after the mail, for the built-in loop.
const apiRunnerConfig = `[turn]
runner = "api"
workdir = "work"
[schedule]
mode = "none"
[api]
provider = "anthropic"
base_url = %q
model = "claude-sonnet-4-5"
key_file = "api-key"
[tools.shell]
command = ["sh", "-c", "echo here"]
description = "Says where it is."
schema = "shell.json"
`

// claudeRunnerConfig is the rest of agent.toml, after the mail, for the claude CLI.
const claudeRunnerConfig = `[turn]
runner = "claude"
command = [%q, "--allowedTools", "Bash"]
env = { ANTHROPIC_BASE_URL = %q, ANTHROPIC_API_KEY = %q, HOME = %q, PATH = %q, CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC = "1" }
[schedule]
mode = "none"
`

// BenchmarkTenTools measures a turn of ten tool calls, one after the other, from the
// start of the poll that finds the mail to its end. It runs the built-in loop, and
// the claude CLI if AGENTSTATELOOP_CLIS has it. Both have the same model, which answers
// at once. The benchmark reports the CPU time of all processes, the largest resident
// set of any of them, and the number of requests.
func BenchmarkTenTools(b *testing.B) {
	program := buildProgram(b, b.TempDir())
	b.Run("api", func(b *testing.B) {
		benchTenTools(b, program, "shell", func(dir, url string) string { return fmt.Sprintf(apiRunnerConfig, url) })
	})
	b.Run("claude", func(b *testing.B) {
		claude := filepath.Join(os.Getenv("AGENTSTATELOOP_CLIS"), "claude")
		if _, err := os.Stat(claude); err != nil {
			b.Skip("no claude: set AGENTSTATELOOP_CLIS to the node_modules/.bin that has it")
		}
		benchTenTools(b, program, "Bash", func(dir, url string) string {
			return fmt.Sprintf(claudeRunnerConfig, claude, url, scripted.Key, dir, os.Getenv("PATH"))
		})
	})
}

// benchTenTools measures the polls of an agent. turn returns the end of its agent.toml.
func benchTenTools(b *testing.B, program, tool string, turn func(dir, url string) string) {
	model := &scripted.Server{Lenient: true, Script: func(q scripted.Request) scripted.Reply {
		results := 0
		for _, m := range q.Messages {
			if strings.Contains(m.Text, "Do ten things.") {
				results = 0 // the CLI resumes its session, with the earlier results
			}
			results += len(m.Results)
		}
		if len(q.Tools) == 0 || results >= 10 { // a request without tools is a side question of the CLI
			return scripted.Reply{Text: "All ten are done."}
		}
		return scripted.Reply{Calls: []scripted.Call{{
			ID: fmt.Sprintf("toolu_%d", q.Number), Name: tool,
			Args: fmt.Sprintf(`{"command":"echo here %d","description":"step %[1]d"}`, results),
		}}}
	}}
	url, stop, err := model.Start()
	if err != nil {
		b.Fatal(err)
	}
	defer stop()
	dir := b.TempDir()
	servers, err := mailtest.Start(dir, mailtest.Options{Username: "goulard@example.org"})
	if err != nil {
		b.Fatal(err)
	}
	defer servers.Close()
	a := installedAgent{dir, program}
	writeAgent(b, dir, servers, turn(dir, url))
	writeFiles(b, dir, map[string]string{"api-key": scripted.Key, "shell.json": `{"type":"object"}`, "work/empty": ""})
	a.poll(b) // the baseline
	var cpu time.Duration
	var most int64
	n := 0
	for b.Loop() {
		n++
		raw := fmt.Sprintf("From: operator@example.com\r\nSubject: @goulard3120 work\r\nMessage-ID: <m%d@example.com>\r\n\r\nDo ten things.\r\n", n)
		if _, err := servers.Append([]byte(raw), time.Now()); err != nil {
			b.Fatal(err)
		}
		cmd := a.command(b.Context(), "poll", "--quiet")
		if out, err := cmd.CombinedOutput(); err != nil {
			b.Fatalf("poll: %v\n%s", err, out)
		}
		state := cmd.ProcessState
		cpu += state.UserTime() + state.SystemTime()
		if usage, ok := state.SysUsage().(*syscall.Rusage); ok {
			most = max(most, usage.Maxrss)
		}
	}
	if !wasSent(servers, "All ten are done.") {
		b.Fatalf("no answer; refused: %q; sent %s", model.Refused(), servers.Sent()[len(servers.Sent())-1].Raw)
	}
	b.ReportMetric(float64(cpu.Milliseconds())/float64(n), "cpu-ms/op")
	b.ReportMetric(float64(most)/1024, "MB") // Linux counts in KiB
	b.ReportMetric(float64(len(model.Asked()))/float64(n), "requests/op")
}
