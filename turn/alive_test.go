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

// startOrphan starts a runner in a process of its own and kills the runner once the
// agent has printed, so that the agent is left alone.
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
		t.Fatalf("runner said %q, %v", line, err) // else a test would signal process 0, which is its own group
	}
	t.Cleanup(func() {
		b.killGroup()
	})
	return b
}

// killGroup kills the group of the attempt's agent, whatever the agent did to its
// record: a fixture that an orphan belongs to knows it from live.json as well.
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
		t.Skip("only in the process of orphan")
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
	pid, err := strconv.Atoi(strings.TrimSpace(read(t, file)))
	if err != nil {
		t.Error(err)
		return
	}
	unix.Kill(pid, unix.SIGKILL)
}

// A runner that is killed leaves the lock with its agent, and no second agent
// starts next to it.
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
	if abandoned, err := End(t.Context(), b.Dir, 0); abandoned || err != nil {
		t.Errorf("abandoned %v, %v", abandoned, err)
	}
	if held, _, _ := Probe(b.Dir); held {
		t.Error("held after its end")
	}
	if err := Prepare(b.Dir, nil, ""); err == nil {
		t.Error("the folder of an attempt that ran was used again")
	}
}

func TestEndKillsAfterIgnoredTerm(t *testing.T) {
	t.Parallel()
	b := startOrphan(t, `trap '' TERM; echo up; while :; do sleep 0.05; done`)
	if abandoned, err := End(t.Context(), b.Dir, time.Second); abandoned || err != nil {
		t.Errorf("abandoned %v, %v", abandoned, err)
	}
	if held, _, _ := Probe(b.Dir); held {
		t.Error("held after KILL")
	}
}

// The leader is gone and its child keeps the lock: the group is still ours.
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
	abandoned, err := End(t.Context(), b.Dir, 5*time.Second)
	if err != nil || abandoned {
		t.Errorf("abandoned %v, %v", abandoned, err)
	}
}

// A process that left the group is abandoned: End neither waits for it forever nor
// kills it.
func TestEndAbandonsDaemon(t *testing.T) {
	t.Parallel()
	if _, err := os.Stat("/usr/bin/setsid"); err != nil {
		t.Skip("no setsid(1)")
	}
	b := startOrphan(t, `(setsid sh -c 'echo $$ > daemon; exec sleep 1000' &); while [ ! -s daemon ]; do sleep 0.01; done; echo up; exec sleep 1000`)
	t.Cleanup(func() { killPIDFile(t, filepath.Join(b.Workdir, "daemon")) })
	abandoned, err := End(t.Context(), b.Dir, 100*time.Millisecond)
	if !abandoned || err != nil {
		t.Errorf("abandoned %v, %v", abandoned, err)
	}
}

// A pid that another process has now is not signalled.
func TestEndSparesReusedPID(t *testing.T) {
	t.Parallel()
	bystander := exec.Command("sleep", "1000")
	bystander.SysProcAttr = &unix.SysProcAttr{Setpgid: true}
	if err := bystander.Start(); err != nil {
		t.Fatal(err)
	}
	defer bystander.Wait()
	defer bystander.Process.Kill()
	boot, err := bootID()
	if err != nil {
		t.Fatal(err)
	}
	victim, err := lookUp(bystander.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	start := victim.start
	for _, p := range []Process{
		{PID: bystander.Process.Pid, Start: start + "0", Boot: boot},
		{PID: bystander.Process.Pid, Start: start, Boot: "another boot"},
		{PID: 0}, {PID: 1}, {PID: -1},
	} {
		dir := t.TempDir()
		alive, err := lockAlive(dir) // held by a process that is not in its group
		if err != nil {
			t.Fatal(err)
		}
		writeRecord(t, dir, p)
		if abandoned, err := End(t.Context(), dir, 50*time.Millisecond); !abandoned || err != nil {
			t.Errorf("%+v: abandoned %v, %v", p, abandoned, err)
		}
		alive.Close()
	}
	if !victim.lives() {
		t.Error("the bystander was hit")
	}
}

func TestProbeMissingAttempt(t *testing.T) {
	if held, p, err := Probe(filepath.Join(t.TempDir(), "none")); held || p != (Process{}) || err != nil {
		t.Errorf("%v %+v %v", held, p, err)
	}
	if abandoned, err := End(t.Context(), t.TempDir(), 0); abandoned || err != nil {
		t.Errorf("%v %v", abandoned, err)
	}
	dir := t.TempDir()
	os.WriteFile(filepath.Join(dir, recordName), []byte("\x00 scribble {"), 0o600)
	if held, p, err := Probe(dir); held || p != (Process{}) || err != nil {
		t.Errorf("%v %+v %v", held, p, err)
	}
}
