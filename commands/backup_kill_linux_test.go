package commands

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"agentstateloop/commands/config"
	"agentstateloop/internal/testkit/crontest"
	"agentstateloop/internal/testkit/mailtest"
)

// killedAt runs the program and kills it at the nth call of a system call in one of its threads. It
// reports whether the program was killed.
func killedAt(t *testing.T, call string, n int, program string, args ...string) bool {
	t.Helper()
	traced := append([]string{"-f", "-qq", "-o", os.DevNull, "-e", "trace=" + call, "-e", fmt.Sprintf("inject=%s:signal=SIGKILL:when=%d", call, n), "--", program}, args...)
	return exec.Command("strace", traced...).Run() != nil
}

// needStrace skips a test where strace does not work.
func needStrace(t *testing.T) {
	t.Helper()
	if out, err := exec.Command("strace", "-f", "-qq", "-o", os.DevNull, "true").CombinedOutput(); err != nil {
		if os.Getenv(requireReal) != "" {
			t.Fatalf("strace does not work: %v: %s", err, out)
		}
		t.Skipf("strace does not work here: %v: %s", err, out)
	}
}

// movableAgent is an agent with a crontab line, a prompt and a conversation.
func movableAgent(t *testing.T, servers *mailtest.Servers) installedAgent {
	t.Helper()
	a := newInstalledAgent(t, servers, "[turn]\ncommand = [\"./slow.sh\"]\n[schedule]\ncrontab = \"./crontab\"\n[[prompt]]\nname = \"morning\"\nat = \"0 8 * * *\"\nfile = \"morning.md\"\n")
	if _, _, err := crontest.Write(a.dir); err != nil {
		t.Fatal(err)
	}
	writeScript(t, filepath.Join(a.dir, "slow.sh"), slowScript)
	writeFile(t, filepath.Join(a.dir, "morning.md"), "good morning\n")
	a.poll(t)
	deliverMail(t, servers, "m1")
	a.poll(t)
	a.waitForProcesses()
	return a
}

// TestRestoreKilledAtEachWrite kills restore at its system calls that change files. Without
// agent.toml, which comes last, nothing polls, and the same restore must succeed. With it, everything
// is in place.
func TestRestoreKilledAtEachWrite(t *testing.T) {
	t.Parallel()
	needStrace(t)
	servers := mailtest.StartMemory(t, mailtest.Options{Username: "goulard@example.org"})
	a := movableAgent(t, servers)
	archive := filepath.Join(a.dir, "b.tar.gz")
	if out, code, _ := a.run(t.Context(), "backup", archive); code != exitDone {
		t.Fatalf("backup: %d\n%s", code, out)
	}
	killed, complete := 0, 0
	for call, times := range map[string]int{"mkdirat": 8, "flock": 4, "fsync": 40, "renameat": 6, "linkat": 8, "unlinkat": 12} {
		for n := 1; n <= times; n += part(1, 3) {
			dir := tempDir(t)
			at := fmt.Sprintf("KILL at %s %d", call, n)
			args := restoreArguments(archive, dir)
			if killedAt(t, call, n, a.program, args...) {
				killed++
			}
			if _, err := os.Stat(filepath.Join(dir, "agent.toml")); errors.Is(err, fs.ErrNotExist) {
				if out, err := exec.Command(a.program, args...).CombinedOutput(); err != nil {
					t.Errorf("%s: the next restore: %v\n%s", at, err, out)
					continue
				}
				if left, _ := filepath.Glob(filepath.Join(dir, config.DraftPattern)); len(left) > 0 {
					t.Errorf("%s: left over: %q", at, left)
				}
			} else {
				complete++
			}
			for _, file := range []string{"slow.sh", "morning.md", "agent.toml"} {
				if readFile(t, filepath.Join(dir, file)) == "" {
					t.Errorf("%s: %s is empty", at, file)
				}
			}
			st := installedAgent{dir: dir}.store()
			wantWholeState(t, st, filepath.Join(dir, "agent.toml"))
			if s, err := st.Read(); err != nil || s.Cursor.Restored == nil {
				t.Errorf("%s: the state is not marked as restored: %v", at, err)
			}
		}
	}
	if killed < 10 || complete == 0 {
		t.Errorf("killed %d times, complete %d times: the test proves nothing", killed, complete)
	}
}

// TestMoveKilledAtEachWrite kills move at its system calls that change files, then repeats it. The
// archive is whole and final, and the crontab line is gone.
func TestMoveKilledAtEachWrite(t *testing.T) {
	t.Parallel()
	needStrace(t)
	servers := mailtest.StartMemory(t, mailtest.Options{Username: "goulard@example.org"})
	a := movableAgent(t, servers)
	killed := 0
	for call, times := range map[string]int{"flock": 8, "fsync": 6, "renameat": 3, "linkat": 12, "unlinkat": 12, "execve": 3} {
		for n := 1; n <= times; n += part(1, 3) {
			at := fmt.Sprintf("KILL at %s %d", call, n)
			archive := filepath.Join(a.dir, "moved.tar.gz")
			args := []string{"--config", filepath.Join(a.dir, "agent.toml"), "move", archive}
			if killedAt(t, call, n, a.program, args...) {
				killed++
			}
			if out, err := exec.Command(a.program, args...).CombinedOutput(); err != nil {
				t.Fatalf("%s: the next move: %v\n%s", at, err, out)
			}
			if out, code, _ := a.run(t.Context(), "poll", "--quiet"); code != exitUsage {
				t.Errorf("%s: a poll of the moved agent: %d\n%s", at, code, out)
			}
			if _, err := os.Stat(filepath.Join(a.dir, "crontab.table")); err == nil {
				t.Errorf("%s: the crontab line stays", at)
			}
			if left, _ := filepath.Glob(filepath.Join(a.dir, ".agentstateloop-backup-*")); len(left) > 0 {
				t.Errorf("%s: left over: %q", at, left)
			}
			dir := tempDir(t)
			if out, err := exec.Command(a.program, restoreArguments(archive, dir)...).CombinedOutput(); err != nil {
				t.Fatalf("%s: restore: %v\n%s", at, err, out)
			}
			st := installedAgent{dir: dir}.store()
			wantWholeState(t, st, filepath.Join(dir, "agent.toml"))
			if s, err := st.Read(); err != nil || s.Moved != nil || s.Cursor.Restored != nil {
				t.Errorf("%s: the restored agent does not go on where it stopped: %+v, %v", at, s.Moved, err)
			}
			if out, code, _ := a.run(t.Context(), "move", "--cancel"); code != exitDone {
				t.Fatalf("%s: move --cancel: %d\n%s", at, code, out)
			}
			a.poll(t) // it ends the restore
			if err := os.Remove(archive); err != nil {
				t.Fatal(err)
			}
		}
	}
	if killed < 8 {
		t.Errorf("killed %d times: the test proves nothing", killed)
	}
}

// TestBackupKilledAtEachWrite kills backup. The file is missing or whole, the agent polls on, and the
// next backup leaves nothing of the killed one.
func TestBackupKilledAtEachWrite(t *testing.T) {
	t.Parallel()
	needStrace(t)
	servers := mailtest.StartMemory(t, mailtest.Options{Username: "goulard@example.org"})
	a := movableAgent(t, servers)
	killed := 0
	for call, times := range map[string]int{"flock": 3, "write": 12, "linkat": 10, "unlinkat": 12, "fsync": 2} {
		for n := 1; n <= times; n += part(1, 3) {
			at := fmt.Sprintf("KILL at %s %d", call, n)
			archive := filepath.Join(a.dir, "b.tar.gz")
			if killedAt(t, call, n, a.program, "--config", filepath.Join(a.dir, "agent.toml"), "backup", archive) {
				killed++
			}
			if _, err := os.Stat(archive); err == nil {
				restoredSerial(t, a, archive)
				if err := os.Remove(archive); err != nil {
					t.Fatal(err)
				}
			}
			a.poll(t)
			if out, code, _ := a.run(t.Context(), "backup", archive); code != exitDone {
				t.Fatalf("%s: the next backup: %d\n%s", at, code, out)
			}
			restoredSerial(t, a, archive)
			left, _ := filepath.Glob(filepath.Join(a.dir, ".agentstateloop-backup-*"))
			if _, err := os.Stat(filepath.Join(a.dir, "state", "snapshot.tmp")); len(left) > 0 || err == nil {
				t.Errorf("%s: left over: %q, %v", at, left, err)
			}
			if err := os.Remove(archive); err != nil {
				t.Fatal(err)
			}
		}
	}
	if killed < 8 {
		t.Errorf("killed %d times: the test proves nothing", killed)
	}
}
