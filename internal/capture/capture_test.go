package capture_test

import (
	"context"
	"errors"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"agentstateloop/internal/capture"
)

// TestOutputIsCapped checks the output of programs, and that a program that prints without end is
// killed, also if it ignores SIGPIPE and SIGTERM, or if its child prints.
func TestOutputIsCapped(t *testing.T) {
	limits := capture.Limits{Stdout: 100, Stderr: 50}
	for name, c := range map[string]struct {
		script         string
		stdout, stderr string
		err            string // part of it; "": none
	}{
		"both":                 {"echo out; echo err >&2", "out\n", "err\n", ""},
		"no output":            {"", "", "", ""},
		"the limit":            {"printf %100s x; printf %50s x >&2", strings.Repeat(" ", 99) + "x", strings.Repeat(" ", 49) + "x", ""},
		"a byte more":          {"printf %101s x", strings.Repeat(" ", 100), "", "output exceeds the limit"},
		"a byte more, stderr":  {"printf %51s x >&2", "", strings.Repeat(" ", 50), "output exceeds the limit"},
		"fails":                {"echo out; exit 3", "out\n", "", "exit status 3"},
		"endless":              {"yes ''", strings.Repeat("\n", 100), "", "output exceeds the limit"},
		"endless, stderr":      {"yes '' >&2", "", strings.Repeat("\n", 50), "output exceeds the limit"},
		"an endless line":      {"exec tr '\\0' ' ' </dev/zero", strings.Repeat(" ", 100), "", "output exceeds the limit"},
		"ignores signals":      {"trap '' PIPE TERM INT HUP; while :; do echo; done 2>/dev/null", strings.Repeat("\n", 100), "", "output exceeds the limit"},
		"an endless child":     {"yes '' & wait", strings.Repeat("\n", 100), "", "output exceeds the limit"},
		"an orphan that waits": {"echo out; sleep 1000 & exit 0", "out\n", "", "WaitDelay"},
	} {
		t.Run(name, func(t *testing.T) {
			cmd := exec.CommandContext(t.Context(), "sh", "-c", c.script)
			got, err := capture.Run(t.Context(), cmd, limits)
			t.Cleanup(func() { _ = capture.KillGroup(cmd) }) // the orphan
			if string(got.Stdout) != c.stdout || string(got.Stderr) != c.stderr {
				t.Errorf("printed %q and %q, want %q and %q", got.Stdout, got.Stderr, c.stdout, c.stderr)
			}
			if (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
				t.Errorf("error %v, want %q", err, c.err)
			}
		})
	}
}

// TestContextEnds checks that the end of the context ends the program, also in its own session.
func TestContextEnds(t *testing.T) {
	for _, attr := range []*syscall.SysProcAttr{nil, {Setsid: true}} {
		ctx, cancel := context.WithCancel(t.Context())
		cmd := exec.CommandContext(ctx, "sh", "-c", "sleep 1000 & wait")
		cmd.SysProcAttr = attr
		cancel()
		if _, err := capture.Run(t.Context(), cmd, capture.Limits{}); !errors.Is(err, context.Canceled) {
			t.Errorf("%+v: %v", attr, err)
		}
	}
}
