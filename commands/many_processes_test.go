package commands

import (
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"agentstateloop/state"
)

// TestManyProcessesAtOnce starts 24 processes of one agent at the same moment, or
// 200 in a long test. A process that finds a lock taken waits, or leaves the work
// to the process that holds it. Each command that succeeded had its effect once.
func TestManyProcessesAtOnce(t *testing.T) {
	t.Parallel()
	processes := 24
	if soakFor(t) > 0 {
		processes = 200
	}
	p := installedAgent{dir: tempDir(t)}
	p.program = buildProgram(t, p.dir)
	writeFile(t, filepath.Join(p.dir, "agent.toml"), agentSection+"[turn]\ncommand = [\"echo\", \"done\"]\n"+noSchedule)
	var mu sync.Mutex
	var tellKeys, nudged []string
	busy := 0
	var wg sync.WaitGroup
	for n := range processes {
		wg.Go(func() {
			reason := fmt.Sprintf("n%d", n)
			args := [][]string{
				{"nudge", "--reason", reason}, {"tell", "--no-wait", "do it"}, {"poll", "--quiet"}, {"poll"}, {"status"},
			}[n%5]
			out, code, _ := p.run(t.Context(), args...)
			mu.Lock()
			defer mu.Unlock()
			switch {
			case code == exitBusy && n%5 == 3:
				busy++
			case code != 0:
				t.Errorf("%v: exit %d: %s", args, code, out)
			case n%5 == 0:
				nudged = append(nudged, reason)
			case n%5 == 1:
				tellKeys = append(tellKeys, strings.TrimSpace(out))
			}
		})
	}
	wg.Wait()
	p.waitForProcesses()
	st := p.store()
	for {
		p.poll(t)
		s, err := st.Read()
		if err != nil {
			t.Fatal(err)
		}
		if len(s.Inbox) == 0 && s.Turn.Status == state.HeadIdle {
			break
		}
	}
	taskLines, taken := countTaskLines(t, st), countNudges(t, st)
	for _, key := range tellKeys {
		if taskLines[key] != 1 {
			t.Errorf("%s has %d task lines, want 1", key, taskLines[key])
		}
	}
	for _, reason := range nudged {
		if taken[reason] != 1 {
			t.Errorf("nudge %s was taken %d times, want 1", reason, taken[reason])
		}
	}
	t.Logf("%d processes: %d messages, %d nudges, %d polls found another one running", processes, len(tellKeys), len(nudged), busy)
}
