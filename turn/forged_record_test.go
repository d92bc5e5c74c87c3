package turn

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// fate is the result of End for an orphan that forges.
type fate int

const (
	ended      fate = iota
	abandoned       // it ended, but the lock of the bystander counts as its lock
	unfindable      // it overwrote its only record
)

// bystander is a process of ours that no attempt started.
type bystander struct {
	Process
	file string // a file that it has locked
}

// wantAlive checks that the bystander still runs.
func (v bystander) wantAlive(t *testing.T) {
	t.Helper()
	if now, err := lookUp(v.PID); err != nil || now.start != v.Start {
		t.Errorf("the bystander was killed: %v", err)
	}
}

// newBystander starts a bystander in its own group or session.
func newBystander(t *testing.T, attr *unix.SysProcAttr) bystander {
	t.Helper()
	file := filepath.Join(t.TempDir(), aliveName)
	f, err := os.Create(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := flock(f, unix.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("sleep", "1000")
	cmd.SysProcAttr, cmd.ExtraFiles = attr, []*os.File{f}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	return bystander{trueRecord(t, cmd.Process.Pid), file}
}

// trueRecord returns the true record of a process.
func trueRecord(t *testing.T, pid int) Process {
	t.Helper()
	p, err := lookUp(pid)
	if err != nil {
		t.Fatal(err)
	}
	boot, err := bootID()
	if err != nil {
		t.Fatal(err)
	}
	return Process{PID: pid, Start: p.start, Boot: boot}
}

// forgeries are scripts by which an agent tries to make the watchdog use the record $forged. $dir is
// the attempt's folder, and $file the file of the bystander.
var forgeries = map[string]struct {
	script string
	fate   fate
}{
	"every descriptor of ours":    {`for fd in /proc/$$/fd/*; do case $(readlink "$fd") in "$dir"/*) chmod 600 "$fd"; printf %s "$forged" >"$fd";; esac; done; printf %s "$forged" >&100`, ended},
	"alive by its path":           {`chmod 600 "$dir/alive"; printf %s "$forged" >"$dir/alive"`, ended},
	"alive written again":         {`rm -f "$dir/alive"; printf %s "$forged" >"$dir/alive"`, ended},
	"alive deleted":               {`rm -f "$dir/alive"`, ended},
	"alive a link":                {`ln -sf "$file" "$dir/alive"`, ended},
	"alive a link to the file":    {`printf %s "$forged" >"$file"; ln -f "$file" "$dir/alive"`, abandoned},
	"alive a fifo":                {`rm -f "$dir/alive"; mkfifo "$dir/alive"`, ended},
	"alive a folder":              {`rm -f "$dir/alive"; mkdir "$dir/alive"`, ended},
	"the lock released":           {`flock -u 100`, ended},
	"the lock closed":             {`exec 100>&-`, ended},
	"the record":                  {`printf %s "$forged" >"$dir/process"`, unfindable},
	"the record and the lock":     {`printf %s "$forged" >"$dir/process"; ln -f "$file" "$dir/alive"`, unfindable},
	"the record and no alive":     {`printf %s "$forged" >"$dir/process"; rm -f "$dir/alive"`, unfindable},
	"the record renamed":          {`printf %s "$forged" >"$dir/new"; mv "$dir/new" "$dir/process"`, unfindable},
	"the record a fifo":           {`rm -f "$dir/process"; mkfifo "$dir/process"`, unfindable},
	"the record a link":           {`printf %s "$forged" >"$dir/new"; ln -sf "$dir/new" "$dir/process"`, unfindable},
	"no record, and one in alive": {`rm -f "$dir/process"; chmod 600 "$dir/alive"; printf %s "$forged" >"$dir/alive"`, unfindable},
	"the record truncated":        {`: >"$dir/process"`, unfindable},
	"a folder that is gone":       {`rm -rf "$dir"`, unfindable},
}

// TestForgedRecordEndsOnlyOwnProcesses checks that the watchdog ends only processes of the agent,
// although the agent writes to all files that it can.
func TestForgedRecordEndsOnlyOwnProcesses(t *testing.T) {
	for _, program := range []string{"bash", "flock"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skip(err)
		}
	}
	victims := map[string]func(*testing.T) bystander{
		"a group":   func(t *testing.T) bystander { return newBystander(t, &unix.SysProcAttr{Setpgid: true}) },
		"a session": func(t *testing.T) bystander { return newBystander(t, &unix.SysProcAttr{Setsid: true}) },
	}
	for forgery, how := range forgeries {
		for whom, victim := range victims {
			t.Run(forgery+", "+whom, func(t *testing.T) {
				t.Parallel()
				v := victim(t)
				forged, err := json.Marshal(v.Process)
				if err != nil {
					t.Fatal(err)
				}
				b := startOrphan(t, fmt.Sprintf("exec bash /dev/stdin <<'END'\nforged='%s' file='%s' dir=\"${AGENTSTATELOOP_CONTEXT%%/*}\"\nexec 2>/dev/null\n%s\necho $$ >pid; echo up; exec sleep 1000\nEND\n", forged, v.file, how.script))
				agent := agentPID(t, b)
				switch how.fate {
				case ended:
					wantEnd(t, b.Dir, 10*time.Second, false)
				case abandoned:
					wantEnd(t, b.Dir, 100*time.Millisecond, true)
				case unfindable:
					_, _ = End(t.Context(), b.Dir, 100*time.Millisecond) // either result is right
				}
				if how.fate != unfindable {
					await(t, "the orphan ends", func() bool { _, err := lookUp(agent); return err != nil })
				}
				v.wantAlive(t)
			})
		}
	}
}

// agentPID returns the pid in the file of the agent's script, and ends the agent with the test.
func agentPID(t *testing.T, b *fixture) int {
	t.Helper()
	var pid int
	if _, err := fmt.Sscan(readFile(t, b.Workdir, "pid"), &pid); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Kill(-pid, unix.SIGKILL) })
	return pid
}

// TestForgedRecordOfOwnGroup checks that a record of a process above ours or of our own group does
// not count.
func TestForgedRecordOfOwnGroup(t *testing.T) {
	t.Parallel()
	for name, p := range map[string]Process{
		"pid 1":      trueRecord(t, 1),
		"our parent": trueRecord(t, os.Getppid()),
		"our group":  trueRecord(t, os.Getpid()),
		"our leader": {PID: unix.Getpgrp(), Start: trueRecord(t, os.Getpid()).Start, Boot: trueRecord(t, os.Getpid()).Boot},
	} {
		dir := t.TempDir()
		alive, err := lockAlive(dir)
		if err != nil {
			t.Fatal(err)
		}
		writeRecord(t, dir, p)
		if p.leads(dir) {
			t.Errorf("%s counts", name)
		}
		wantEnd(t, dir, 50*time.Millisecond, true)
		alive.Close()
	}
}

// TestInheritedDescriptors checks that the agent inherits one descriptor of ours besides its three
// streams: alive, open for reading only.
func TestInheritedDescriptors(t *testing.T) {
	t.Parallel()
	const list = `for fd in /proc/$$/fd/*; do n=${fd##*/}; grep -q "flags:.*02......$" /proc/$$/fdinfo/$n || echo "$n $(readlink "$fd") $(grep flags /proc/$$/fdinfo/$n)"; done`
	ours, err := exec.Command("sh", "-c", list).Output() // the descriptors of this test
	if err != nil {
		t.Fatal(err)
	}
	var more []string
	for line := range strings.Lines(newFixture(t, list).run().Text) {
		number, _, _ := strings.Cut(line, " ")
		if !strings.Contains("\n"+string(ours), "\n"+number+" ") {
			more = append(more, strings.TrimSpace(line))
		}
	}
	if len(more) != 1 || !strings.Contains(more[0], "/alive flags:") || !strings.HasPrefix(more[0], fmt.Sprint(keptFD)) || !strings.HasSuffix(more[0], "0") {
		t.Errorf("the agent inherits %q, want alive open for reading", more)
	}
}

// TestRecordPrecedesAgent checks that the record of an agent is complete before its program begins.
func TestRecordPrecedesAgent(t *testing.T) {
	t.Parallel()
	b := newFixture(t, `cat "${AGENTSTATELOOP_CONTEXT%/*}/process"; echo $$`)
	text := b.run().Text
	var p Process
	record, pid, _ := strings.Cut(text, "\n")
	if err := json.Unmarshal([]byte(record), &p); err != nil || fmt.Sprint(p.PID) != pid || p.Start == "" || p.Boot == "" {
		t.Errorf("%q, %v", text, err)
	}
}

// TestRecordOfPreviousVersion checks that End finds an orphan of the previous version, whose record is
// in alive.
func TestRecordOfPreviousVersion(t *testing.T) {
	t.Parallel()
	b := startOrphan(t, `echo up; exec sleep 1000`)
	record := readFile(t, b.Dir, recordName)
	alive := filepath.Join(b.Dir, aliveName)
	if err := os.Remove(filepath.Join(b.Dir, recordName)); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(alive, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(alive, []byte(record), 0o600); err != nil {
		t.Fatal(err)
	}
	wantEnd(t, b.Dir, 5*time.Second, false)
}

// TestNoAgentWithoutRunner checks that no agent begins if its runner dies before it has recorded the
// process.
func TestNoAgentWithoutRunner(t *testing.T) {
	t.Parallel()
	pipes, err := openPipes()
	if err != nil {
		t.Fatal(err)
	}
	defer pipes.closeOurs()
	alive, err := lockAlive(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer alive.Close()
	cmd := exec.Command(self(t), attemptCommand, "/bin/sh", "sh", "-c", "echo began")
	cmd.Stdout, cmd.Stderr = pipes.stdout.w, pipes.stdout.w
	cmd.ExtraFiles = []*os.File{alive, pipes.release.r, pipes.fault.w}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	pipes.closeTheirs()
	if err := pipes.release.w.Close(); err != nil { // as the runner's end does
		t.Fatal(err)
	}
	printed, err := io.ReadAll(pipes.stdout.r)
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err == nil || !strings.Contains(string(printed), "the runner has ended") {
		t.Errorf("%v: %s", err, printed)
	}
}
