package turn

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// startOrphan starts a runner as a separate process and kills it once the agent has printed, so that
// the agent is left alone.
func startOrphan(t *testing.T, script string) *fixture {
	t.Helper()
	return orphanFrom(t, newFixture(t, script))
}

// orphanFrom is startOrphan for a fixture.
func orphanFrom(t *testing.T, b *fixture) *fixture {
	t.Helper()
	job, err := json.Marshal(struct {
		C Config
		A Attempt
	}{b.Config, b.Attempt})
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(b.Self, "-test.run=^TestHelperRunner$")
	cmd.Env = append(os.Environ(), "TURN_TEST_JOB="+string(job))
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	cmd.Process.Kill()
	cmd.Wait()
	if err != nil || line != "heard\n" {
		t.Fatalf("runner printed %q, %v", line, err) // otherwise a test would signal process 0, which is its own group
	}
	t.Cleanup(b.killGroup)
	return b
}

// killGroup kills the group of the attempt's agent. It reads the pid from live.json, because the
// agent may have changed its record.
func (b *fixture) killGroup() {
	if l, err := ReadLive(b.Dir); err == nil && l.PID > 1 {
		unix.Kill(-l.PID, unix.SIGKILL)
	}
}

// writeRecord puts a record where the runner puts it.
func writeRecord(t *testing.T, dir string, p Process) {
	t.Helper()
	b, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, recordName), b, 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestHelperRunner is the process that startOrphan kills.
func TestHelperRunner(t *testing.T) {
	job := os.Getenv("TURN_TEST_JOB")
	if job == "" {
		t.Skip("only in the process of startOrphan")
	}
	var j struct {
		C Config
		A Attempt
	}
	if err := json.Unmarshal([]byte(job), &j); err != nil {
		t.Fatal(err)
	}
	j.C.Run(t.Context(), j.A, func(Progress) { fmt.Println("heard") })
}

func killPIDFile(t *testing.T, file string) {
	pid, err := strconv.Atoi(strings.TrimSpace(readFile(t, file)))
	if err != nil {
		t.Error(err)
		return
	}
	unix.Kill(pid, unix.SIGKILL)
}

// TestOrphanHoldsLock checks that a killed runner leaves the lock with its agent, and that no second
// agent starts next to it.
func TestOrphanHoldsLock(t *testing.T) {
	t.Parallel()
	b := startOrphan(t, `echo up; exec sleep 1000`)
	held, p, err := Probe(b.Dir)
	if !held || p.PID == 0 || err != nil {
		t.Fatalf("held %v, %+v, %v", held, p, err)
	}
	if _, err := b.Config.Run(t.Context(), b.Attempt, nil); !errors.Is(err, ErrHeld) {
		t.Errorf("a second run next to an orphan: %v", err)
	}
	if err := Prepare(b.Dir, nil, ""); !errors.Is(err, ErrHeld) {
		t.Errorf("prepared next to an orphan: %v", err)
	}
	wantEnd(t, b.Dir, 0, false)
	wantFree(t, b.Dir)
	if err := Prepare(b.Dir, nil, ""); err == nil {
		t.Error("the folder of an attempt that ran was used again")
	}
}

func TestEndKillsAfterIgnoredTerm(t *testing.T) {
	t.Parallel()
	b := startOrphan(t, `trap '' TERM; echo up; while :; do sleep 0.05; done`)
	wantEnd(t, b.Dir, time.Second, false)
	wantFree(t, b.Dir)
}

// TestEndFindsGroupWithoutLeader checks that End ends a child that keeps the lock after the leader of
// the group has ended.
func TestEndFindsGroupWithoutLeader(t *testing.T) {
	b := startOrphan(t, `sleep 1000 & echo up; exec sleep 1001`)
	_, p, _ := Probe(b.Dir)
	if err := unix.Kill(p.PID, unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	await(t, "the leader ends", func() bool { _, err := lookUp(p.PID); return err != nil })
	if held, _, _ := Probe(b.Dir); !held {
		t.Fatal("the child does not hold the lock")
	}
	wantEnd(t, b.Dir, 5*time.Second, false)
}

// TestEndAbandonsDaemon checks that End neither waits forever for a process that left the group nor
// kills it.
func TestEndAbandonsDaemon(t *testing.T) {
	t.Parallel()
	b := orphanFrom(t, newDaemonFixture(t, `echo up; exec sleep 1000`))
	wantEnd(t, b.Dir, 100*time.Millisecond, true)
}

// TestEndSparesReusedPID checks that End does not signal another process with the recorded pid.
func TestEndSparesReusedPID(t *testing.T) {
	t.Parallel()
	v := newBystander(t, &unix.SysProcAttr{Setpgid: true})
	for _, p := range []Process{
		{PID: v.PID, Start: v.Start + "0", Boot: v.Boot},
		{PID: v.PID, Start: v.Start, Boot: "another boot"},
		{PID: 0}, {PID: 1}, {PID: -1},
	} {
		dir := t.TempDir()
		alive, err := lockAlive(dir) // held by a process that is not in its group
		if err != nil {
			t.Fatal(err)
		}
		writeRecord(t, dir, p)
		wantEnd(t, dir, 50*time.Millisecond, true)
		alive.Close()
	}
	v.wantAlive(t)
}

func TestProbeMissingAttempt(t *testing.T) {
	if held, p, err := Probe(filepath.Join(t.TempDir(), "none")); held || p != (Process{}) || err != nil {
		t.Errorf("%v %+v %v", held, p, err)
	}
	wantEnd(t, t.TempDir(), 0, false)
	dir := t.TempDir()
	os.WriteFile(filepath.Join(dir, recordName), []byte("\x00 scribble {"), 0o600)
	if held, p, err := Probe(dir); held || p != (Process{}) || err != nil {
		t.Errorf("%v %+v %v", held, p, err)
	}
}
