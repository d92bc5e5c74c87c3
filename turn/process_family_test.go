package turn

import (
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// TestToolInOwnProcessGroup checks that the groups that an agent starts for its tools end with it,
// with and without its runner.
func TestToolInOwnProcessGroup(t *testing.T) {
	needSetsid(t)
	script := `setsid --wait sh -c 'echo $$ > tool; exec sleep 1000' 100>&- & while [ ! -s tool ]; do sleep 0.01; done; echo up; wait`
	ended := func(b *fixture) {
		t.Helper()
		pid, _ := strconv.Atoi(strings.TrimSpace(readFile(t, b.Workdir, "tool")))
		if _, err := lookUp(pid); err == nil {
			killPIDFile(t, filepath.Join(b.Workdir, "tool"))
			t.Error("the tool outlived the agent")
		}
	}
	b := newFixture(t, script)
	b.stopAt("up").check(t, Canceled, ExitStopped, "up", "stopped")
	ended(b)

	b = startOrphan(t, script)
	wantEnd(t, b.Dir, 0, false)
	ended(b)
}
