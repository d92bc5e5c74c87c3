package turn

import (
	"context"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestAskVersion checks that the program is found and run as in an attempt: with the agent's own
// PATH, and in its workdir.
func TestAskVersion(t *testing.T) {
	bin, work := t.TempDir(), t.TempDir()
	writeScript(t, bin, "claude", "[ \"$1 $2\" = '--extra --version' ] || exit 9\npwd -P\necho 2.1.0\n")
	c := Config{Runner: Claude, Command: []string{"claude", "--extra"}, Workdir: work, Self: "/usr/bin/x"}
	if _, err := c.Find(); err == nil || !strings.Contains(err.Error(), "not in PATH") {
		t.Errorf("without its folder in PATH: %v", err)
	}
	c.Env = map[string]string{"PATH": bin + ":/usr/bin:/bin"}
	where, err := filepath.EvalSymlinks(work)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := c.AskVersion(t.Context()); err != nil || got != where {
		t.Errorf("got %q, %v; want the first line it prints, %q", got, err, where)
	}
	c.Command = []string{"claude"}
	if _, err := c.AskVersion(t.Context()); err == nil || !strings.Contains(err.Error(), "exit status 9") {
		t.Errorf("of a program that fails: %v", err)
	}
	c.Command, c.Workdir = nil, filepath.Join(work, "none")
	if _, err := c.Find(); err == nil || !strings.Contains(err.Error(), "is not a folder") {
		t.Errorf("without a workdir: %v", err)
	}
}

// codexOf returns the configuration of a codex that is this script.
func codexOf(t *testing.T, script string) Config {
	bin := t.TempDir()
	writeScript(t, bin, "codex", script)
	return Config{Runner: Codex, Workdir: bin, Self: "/usr/bin/x", Env: map[string]string{"PATH": bin + ":/usr/bin:/bin"}}
}

func TestAskVersionTimesOut(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err := codexOf(t, "sleep 1000 & wait").AskVersion(ctx); err == nil {
		t.Error("it has a version")
	}
}

// TestAskVersionEndlessOutput checks that a program that prints without end is stopped.
func TestAskVersionEndlessOutput(t *testing.T) {
	for _, script := range []string{"yes 2.1.0", "yes 2.1.0 >&2", "trap '' PIPE; while :; do echo; done 2>/dev/null"} {
		if _, err := codexOf(t, script).AskVersion(t.Context()); err == nil || !strings.Contains(err.Error(), "exceeds 65536 bytes") {
			t.Errorf("%s: %v", script, err)
		}
	}
}
