package turn

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestLiveView checks that another process sees the state of the agent.
func TestLiveView(t *testing.T) {
	t.Parallel()
	lines := strings.SplitAfter(claudeGood, "\n")
	b := fakeCLI(t, Claude, strings.Join(lines[:5], ""), "while [ ! -e go ]; do sleep 0.02; done\ncat rest")
	os.WriteFile(filepath.Join(b.Workdir, "rest"), []byte(strings.Join(lines[6:], "")), 0o600)
	if _, err := ReadLive(b.Dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("before the start: %v", err)
	}
	ended := make(chan Result)
	go func() { ended <- b.run() }()
	await(t, "the tool shows", func() bool {
		l, err := ReadLive(b.Dir)
		return err == nil && l.State == StateRunningTool && l.WaitingTools == 1 && l.Tool == "Bash" &&
			l.Lifecycle == LifecycleWorking && l.PID > 0 && l.Session == "s-1" && l.TurnID == "t1" && l.Epoch == 1 &&
			l.KillAt.After(l.LastOutput) && !l.Started.IsZero()
	})
	writeConfig(t, filepath.Join(b.Workdir, "go"), "")
	(<-ended).check(t, Success, ExitClean, "One file.", "")
	l, err := ReadLive(b.Dir)
	if err != nil || l.Lifecycle != LifecycleKilled || l.Reason != "clean exit" || l.CostUSD != 0.25 || l.WaitingTools != 0 || !l.KillAt.IsZero() {
		t.Errorf("after the end: %+v, %v", l, err)
	}
}
