package toolserver_test

import (
	"bufio"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"agentstateloop/turn/toolserver"
)

// TestCallResults checks the model's texts of the results of calls, also of a server that sends other
// messages between.
func TestCallResults(t *testing.T) {
	t.Parallel()
	_, call := start(t, local(t, "well"))
	for _, c := range []struct{ tool, args, want, fault string }{
		{"echo", `{"a": 1}`, `{"a":1}`, ""},
		{"echo", ``, `{}`, ""},
		{"echo", `[1]`, ``, "do not match"},
		{"notify", `{}`, "notified", ""},
		{"error", `{}`, "", "the disk is full: ***"},
		{"refuse", `{}`, "", "bad arguments, ***"},
		{"echo", `{"b": 2}`, `{"b":2}`, ""},
	} {
		got, err := call(c.tool, c.args)
		if c.fault == "" && (err != nil || strings.ReplaceAll(got, " ", "") != c.want) {
			t.Errorf("%s %s = %q, %v; want %q", c.tool, c.args, got, err, c.want)
		}
		if c.fault != "" && (err == nil || !strings.Contains(err.Error(), c.fault)) {
			t.Errorf("%s %s = %q, %v; want an error with %q", c.tool, c.args, got, err, c.fault)
		}
	}
	if got, err := call("huge", `{}`); err != nil || len(got) > 70<<10 || !strings.Contains(got, "truncated") {
		t.Errorf("a huge result: %d bytes, %v", len(got), err)
	}
	if _, err := call("garbage", `{}`); err == nil {
		t.Error("a result of an unknown kind succeeded")
	}
	if got, err := call("echo", `{"c": 3}`); err != nil || !strings.Contains(got, "3") {
		t.Errorf("after garbage: %q, %v", got, err)
	}
}

// TestServerExits checks that the call at which a server ends has an error with the reason, and that
// the next one fails at once without a call.
func TestServerExits(t *testing.T) {
	t.Parallel()
	for tool, why := range map[string]string{
		"die":      "has ended: it exited: exit status 3; stderr: \"serving well I cannot go on: ***",
		"flood":    "has ended: it sent more than 64 MiB",
		"requests": "has ended: it sent more than 1000 requests",
	} {
		t.Run(tool, func(t *testing.T) {
			t.Parallel()
			_, call := start(t, local(t, "well"))
			_, err := call(tool, `{}`)
			if err == nil || !strings.Contains(err.Error(), why) || !strings.Contains(err.Error(), "may have taken effect") {
				t.Errorf("the call: %v; want %q", err, why)
			}
			_, err = call("echo", `{}`)
			if err == nil || !strings.Contains(err.Error(), "has ended, and its tools are available again in the next turn") {
				t.Errorf("the next call: %v", err)
			}
		})
	}
}

// TestServerHangs checks that a call ends at its timeout, that the server may then answer other calls,
// and that it is ended after three calls in a row without an answer.
func TestServerHangs(t *testing.T) {
	t.Parallel()
	// The time that an answer takes depends on the machine.
	for timeout := 250 * time.Millisecond; !checkHangingServer(t, timeout); timeout *= 2 {
		if timeout > 20*time.Second {
			t.Fatalf("no answer within %v", timeout)
		}
	}
}

// checkHangingServer checks a server that hangs with this timeout of a call. It returns false if an
// answer took longer.
func checkHangingServer(t *testing.T, timeout time.Duration) bool {
	s := local(t, "well")
	s.Timeout = timeout
	_, call := start(t, s)
	late := "did not answer within " + timeout.String()
	const ended = "was ended after 3 unanswered calls"
	for i, c := range []struct{ tool, want string }{
		{"silent", late}, {"echo", "{}"},
		{"silent", late}, {"silent", late}, {"refuse", "bad arguments"}, // a refusal is an answer
		{"silent", late}, {"echo", "{}"},
		{"hang", late}, {"hang", late}, {"echo", ended}, {"echo", "has ended"},
	} {
		got, err := call(c.tool, `{}`)
		if err != nil {
			got = err.Error()
		}
		if strings.Contains(got, late) && c.want != late && c.want != ended {
			return false
		}
		if !strings.Contains(got, c.want) || strings.Contains(got, ended) != (c.want == ended) || (err == nil) != (c.want == "{}") {
			t.Errorf("call %d, %s: %q, %v; want %q", i+1, c.tool, got, err, c.want)
		}
	}
	return true
}

// TestDeeplyNestedAnswer checks that an answer of a million levels, which must not be parsed by
// recursion, does not count.
func TestDeeplyNestedAnswer(t *testing.T) {
	t.Parallel()
	s := local(t, "well")
	s.Timeout = 500 * time.Millisecond
	_, call := start(t, s)
	if _, err := call("deep", `{}`); err == nil || !strings.Contains(err.Error(), "did not answer within 500ms") {
		t.Errorf("%v", err)
	}
}

// TestServerDoesNotStart checks that a start fails within its timeout, with the reason.
func TestServerDoesNotStart(t *testing.T) {
	t.Parallel()
	for mode, why := range map[string]string{
		"hang-at-start":  "stderr: \"serving hang-at-start",
		"die-at-start":   "the tool server bad did not start: it exited: exit status 3; stderr: \"serving die-at-start I cannot go on: ***",
		"flood-at-start": "a message of more than",
		"errs-at-start":  "again and again",
		"hang-at-list":   "did not list its tools",
		"die-at-list":    "did not list its tools: it exited: exit status 3",
	} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			patience := time.Minute
			if !strings.HasPrefix(mode, "die") && !strings.HasPrefix(mode, "flood") {
				patience = 500 * time.Millisecond // these never end
			}
			var err error
			// The time that a server takes to print depends on the machine.
			for ; patience <= time.Minute && (err == nil || !strings.Contains(err.Error(), why)); patience *= 2 {
				ctx, cancel := context.WithTimeout(t.Context(), patience)
				defer cancel()
				var session *toolserver.Session
				if session, err = toolserver.Start(ctx, local(t, mode)); err == nil {
					session.Close()
				}
			}
			if err == nil || !strings.Contains(err.Error(), why) {
				t.Errorf("%v; want %q", err, why)
			}
		})
	}
	missing := local(t, "well")
	missing.Command = []string{"no-such-server"}
	if _, err := toolserver.Start(t.Context(), missing); err == nil || !strings.Contains(err.Error(), "no-such-server") {
		t.Errorf("a program that is missing: %v", err)
	}
}

// TestOutputBeforeProtocol checks that a server works that first prints other lines.
func TestOutputBeforeProtocol(t *testing.T) {
	t.Parallel()
	_, call := start(t, local(t, "banner"))
	if got, err := call("echo", `{}`); err != nil || got != "{}" {
		t.Errorf("%q, %v", got, err)
	}
}

// TestServerIsConfined checks that a server can read only the granted folders, and the variables of
// its environment.
func TestServerIsConfined(t *testing.T) {
	t.Parallel()
	s := local(t, "well")
	granted, hidden := t.TempDir(), t.TempDir()
	for _, dir := range []string{granted, hidden} {
		if err := os.WriteFile(filepath.Join(dir, "file"), []byte("the content"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s.Box.Read = append(s.Box.Read, granted)
	s.Env = append(s.Env, "MODE=test")
	s.EnvFiles = map[string]toolserver.Secret{"API_KEY": func(context.Context) (string, error) { return "hunter2-hunter2", nil }}
	_, call := start(t, s)
	if got, err := call("see", `{"path": "`+granted+`/file"}`); err != nil || !strings.Contains(got, "the content") {
		t.Errorf("the granted folder: %q, %v", got, err)
	}
	if got, err := call("see", `{"path": "`+hidden+`/file"}`); err != nil || strings.Contains(got, "the content") {
		t.Errorf("another folder: %q, %v", got, err)
	}
	got, err := call("env", `{}`)
	if err != nil || !strings.Contains(got, "MODE") || strings.Contains(got, "OURS_ALONE") || !strings.HasSuffix(got, "***") {
		t.Errorf("its environment: %q, %v", got, err)
	}
}

// TestCloseEndsAllProcesses checks that the end of a session ends its server and the processes that
// the server has started, also if the server ignores the end of its input.
func TestCloseEndsAllProcesses(t *testing.T) {
	t.Parallel()
	s := local(t, "lingers")
	mark := "left-" + filepath.Base(t.TempDir()) + "-" + t.Name()
	s.Command = append(s.Command, mark)
	session, call := start(t, s)
	if _, err := call("child", `{}`); err != nil {
		t.Fatal(err)
	}
	if countRunning(mark) == 0 {
		t.Fatal("the server does not run")
	}
	session.Close()
	if n := countRunning(mark); n > 0 {
		t.Errorf("%d processes are left", n)
	}
	if _, err := call("echo", `{}`); err == nil {
		t.Error("a call after the end succeeded")
	}
}

// TestServerDiesWithUs checks that a server ends when the process is killed that has
// started it.
func TestServerDiesWithUs(t *testing.T) {
	t.Parallel()
	local(t, "well") // or skip
	mark := "outlives-" + strings.ReplaceAll(t.TempDir(), "/", "-")
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self, "start-and-wait", mark)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "started\n" {
		t.Fatalf("%q, %v", line, err)
	}
	if countRunning(mark) < 2 {
		t.Fatal("the server does not run")
	}
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	for deadline := time.Now().Add(time.Minute); countRunning(mark) > 0; time.Sleep(10 * time.Millisecond) { // they are not our children: we cannot wait for their end
		if time.Now().After(deadline) {
			t.Fatalf("%d processes are left", countRunning(mark))
		}
	}
}

// countRunning returns the number of processes with a mark in their command line.
func countRunning(mark string) (n int) {
	files, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, name := range files {
		line, _ := os.ReadFile(name)
		if strings.Contains(string(line), mark) {
			n++
		}
	}
	return n
}

// BenchmarkServer measures the start and a call of a local server.
func BenchmarkServer(b *testing.B) {
	b.Run("start", func(b *testing.B) {
		for b.Loop() {
			session, err := toolserver.Start(b.Context(), local(b, "well"))
			if err != nil {
				b.Fatal(err)
			}
			session.Close()
		}
	})
	b.Run("call", func(b *testing.B) {
		_, call := start(b, local(b, "well"))
		for b.Loop() {
			if _, err := call("echo", `{"a": 1}`); err != nil {
				b.Fatal(err)
			}
		}
	})
}
