package commands

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"agentstateloop/internal/testkit/mailtest"
	"agentstateloop/state"
	"agentstateloop/state/store"
)

// TestBackupsOfABusyAgent writes backups, one after the other, while processes poll and run turns, and
// restores each. A restored state is whole: it has each file that it names, its history has no break
// and no line is newer than the state. All messages are answered in the meantime.
func TestBackupsOfABusyAgent(t *testing.T) {
	t.Parallel()
	servers := mailtest.StartMemory(t, mailtest.Options{Username: "goulard@example.org"})
	a := newInstalledAgent(t, servers, "[turn]\ncommand = [\"./slow.sh\"]\n"+noSchedule)
	writeScript(t, filepath.Join(a.dir, "slow.sh"), "echo draft >\"$AGENTSTATELOOP_OUTPUT/draft\"\n"+slowScript)
	a.poll(t)
	messages := part(30, 8)
	done := make(chan struct{})
	var polls sync.WaitGroup
	polls.Go(func() {
		defer close(done)
		for n := range messages {
			deliverMail(t, servers, fmt.Sprint("m", n))
			if out, code, _ := a.run(t.Context(), "poll", "--quiet"); code != exitDone && code != exitBusy {
				t.Errorf("poll: %d\n%s", code, out)
			}
			if out, code, _ := a.run(t.Context(), "nudge", "--no-poll", "--reason", fmt.Sprint("n", n)); code != exitDone {
				t.Errorf("nudge: %d\n%s", code, out)
			}
		}
	})
	serials := map[uint64]bool{}
	for n, busy := 0, true; busy; n++ {
		select {
		case <-done:
			busy = false // and one more
		default:
		}
		archive := filepath.Join(a.dir, fmt.Sprintf("b%d.tar.gz", n))
		if out, code, _ := a.run(t.Context(), "backup", archive); code != exitDone {
			t.Fatalf("backup: %d\n%s", code, out)
		}
		serials[restoredSerial(t, a, archive)] = true
		if err := os.Remove(archive); err != nil {
			t.Fatal(err)
		}
	}
	polls.Wait()
	if len(serials) < 3 {
		t.Errorf("only %d different states were backed up: the test proves nothing", len(serials))
	}
	a.waitForProcesses()
	a.poll(t)
	if n := len(sentReplies(t, servers)); n != messages {
		t.Errorf("%d messages were answered, want %d", n, messages)
	}
}

// restoredSerial restores an archive, checks the state, and returns its serial.
func restoredSerial(t *testing.T, a installedAgent, archive string) uint64 {
	t.Helper()
	dir := tempDir(t)
	out, err := exec.CommandContext(t.Context(), a.program, restoreArguments(archive, dir)...).CombinedOutput()
	if err != nil {
		t.Fatalf("restore: %v\n%s", err, out)
	}
	st := &store.Store{Dir: filepath.Join(dir, "state"), Agent: "goulard3120"}
	return wantWholeState(t, st, filepath.Join(dir, "agent.toml"))
}

// restoreArguments are the arguments of a restore to a folder.
func restoreArguments(archive, dir string) []string {
	return []string{"restore", archive, "--config", filepath.Join(dir, "agent.toml"), "--state-dir", filepath.Join(dir, "state"), "--no-start"}
}

// wantWholeState checks that a state directory has all that its state names, and returns the serial.
func wantWholeState(t *testing.T, st *store.Store, config string) uint64 {
	t.Helper()
	s, err := st.Read()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(st.Dir, "state.json")); err != nil {
		t.Error(err)
	}
	audit, err := st.Audit()
	if err != nil || len(audit.Breaks) > 0 {
		t.Errorf("the history is broken: %v, %v", audit.Breaks, err)
	}
	last := state.Line{}
	for l, err := range st.History() {
		if err != nil {
			t.Fatal(err)
		}
		last = l
	}
	if last.Serial > s.Serial {
		t.Errorf("the history has serial %d, and the state %d", last.Serial, s.Serial)
	}
	a, err := testLoader().Load(config)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	if _, damaged, err := a.CheckFiles(); err != nil || len(damaged) > 0 {
		t.Errorf("files are missing: %v, %v", damaged, err)
	}
	return s.Serial
}
