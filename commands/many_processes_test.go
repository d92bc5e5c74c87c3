package commands

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"agentstateloop/state"
	"agentstateloop/state/store"
)

// TestManyProcessesAtOnce starts 24 processes of one agent at the same moment, or
// 200 in a long test. A process that finds a lock taken waits, or leaves the work
// to the process that holds it. What a command reported as done is done once.
func TestManyProcessesAtOnce(t *testing.T) {
	t.Parallel()
	processes := 24
	if soakFor(t) > 0 {
		processes = 200
	}
	p := installedAgent{dir: tempDir(t)}
	p.program = buildProgram(t, p.dir)
	config := "[agent]\nhandle = \"goulard3120\"\noperator = [\"operator@example.com\"]\nstate_dir = \"state\"\n[turn]\ncommand = [\"echo\", \"done\"]\n[schedule]\nmode = \"none\"\n"
	if err := os.WriteFile(filepath.Join(p.dir, "agent.toml"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
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
	st := &store.Store{Dir: filepath.Join(p.dir, "state"), Agent: "goulard3120"}
	for s := (state.State{}); ; {
		if out, code, _ := p.run(t.Context(), "poll", "--quiet"); code != 0 {
			t.Fatalf("poll: exit %d: %s", code, out)
		}
		var err error
		if s, err = st.Read(); err != nil {
			t.Fatal(err)
		}
		if len(s.Inbox) == 0 && s.Turn.Status == state.HeadIdle {
			break
		}
	}
	taskLines, taken := countTaskLines(t, st), map[string]int{}
	for l, err := range st.History() {
		if err != nil {
			t.Fatal(err)
		}
		if l.Kind == state.LineNudge {
			taken[l.Reason]++
		}
	}
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
