package turn

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// Agents start the commands of their tools in groups of their own. Those groups
// end with the agent, whether or not its runner lives.
func TestToolInOwnProcessGroup(t *testing.T) {
	if _, err := os.Stat("/usr/bin/setsid"); err != nil {
		t.Skip("no setsid(1)")
	}
	script := `setsid --wait sh -c 'echo $$ > tool; exec sleep 1000' 100>&- & while [ ! -s tool ]; do sleep 0.01; done; echo up; wait`
	ended := func(b *fixture) {
		t.Helper()
		pid, _ := strconv.Atoi(strings.TrimSpace(read(t, b.Workdir, "tool")))
		if _, err := lookUp(pid); err == nil {
			killPIDFile(t, filepath.Join(b.Workdir, "tool"))
			t.Error("the tool outlived the agent")
		}
	}
	b := newFixture(t, script)
	res, err := b.runUntil("up", ErrStopped)
	if err != nil {
		t.Fatal(err)
	}
	res.check(t, Canceled, ExitStopped, "up", "stopped")
	ended(b)

	b = startOrphan(t, script)
	if abandoned, err := End(t.Context(), b.Dir, 0); abandoned || err != nil {
		t.Errorf("abandoned %v, %v", abandoned, err)
	}
	ended(b)
}
