package commands

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"agentstateloop/internal/testkit/mailtest"
)

// TestFullDisk checks that no mail is lost on a disk that is full, or becomes full at any page of
// a cycle, or at every fifth unless the real servers are required: once there is room, each mail
// has one answer (docs/design.md, "Save before effects").
func TestFullDisk(t *testing.T) {
	t.Parallel()
	d := newAgentOnDisk(t)
	const page = 4096
	mails := 0
	for free := 0; free < 24; free += part(1, 5) {
		mails++
		deliverMail(t, d.servers, fmt.Sprint("m", free))
		filler := d.fill(t, free*page)
		out, code, _ := d.run(t.Context(), "poll", "--quiet")
		// Without room for the mail, the times may still be written: the state before has made
		// room.
		if free == 0 && code != exitError && code != exitSource {
			t.Errorf("on a full disk: poll: exit %d, want %d or %d: %s", code, exitError, exitSource, out)
		}
		if free == 0 && len(sentReplies(t, d.servers)) > 0 {
			t.Error("a mail was answered without a record of its turn")
		}
		if out, code, _ := d.run(t.Context(), "status"); code != 0 {
			t.Errorf("on a full disk: status: exit %d: %s", code, out)
		}
		if err := os.Remove(filler); err != nil {
			t.Fatal(err)
		}
		d.wantAllAnswered(t, fmt.Sprintf("%d pages free", free), mails)
	}
}

// TestReadOnlyDisk runs commands on a read-only state directory. Those that write fail with an
// error that names it and take no mail. Those that only read work. When the directory is writable
// again, the mail is answered.
func TestReadOnlyDisk(t *testing.T) {
	t.Parallel()
	d := newAgentOnDisk(t)
	deliverMail(t, d.servers, "m0")
	d.remount(t, syscall.MS_RDONLY)
	out, code, _ := d.run(t.Context(), "poll", "--quiet")
	if code != exitError || !strings.Contains(out, "read-only") || !strings.Contains(out, d.state) {
		t.Errorf("poll: exit %d: %s", code, out)
	}
	for _, command := range []string{"nudge", "halt", "transition PREP", "tell hello"} {
		if out, code, _ := d.run(t.Context(), strings.Fields(command)...); code != exitError || !strings.Contains(out, "read-only") {
			t.Errorf("%s: exit %d: %s", command, code, out)
		}
	}
	for _, command := range []string{"status", "inbox list", "history"} {
		if out, code, _ := d.run(t.Context(), strings.Fields(command)...); code != 0 {
			t.Errorf("%s: exit %d: %s", command, code, out)
		}
	}
	d.remount(t, 0)
	d.wantAllAnswered(t, "writable again", 1)
}

// agentOnDisk is an agent whose state directory is a file system of 16 MiB.
type agentOnDisk struct {
	installedAgent
	state   string // the mount point
	servers *mailtest.Servers
}

func newAgentOnDisk(t *testing.T) *agentOnDisk {
	d := &agentOnDisk{servers: mailtest.StartMemory(t, mailtest.Options{Username: "goulard@example.org"})}
	d.dir = t.TempDir()
	d.state = filepath.Join(d.dir, "state")
	if err := os.Mkdir(d.state, 0o700); err != nil {
		t.Fatal(err)
	}
	err := syscall.Mount("tmpfs", d.state, "tmpfs", 0, "size=16m,mode=0700")
	if errors.Is(err, syscall.EPERM) && os.Getenv(requireReal) == "" {
		t.Skip("this user may not mount a file system")
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(d.state, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	d.program = buildProgram(t, d.dir)
	writeAgent(t, d.dir, d.servers, "[turn]\ncommand = [\"echo\", \"done\"]\n"+noSchedule)
	d.poll(t) // the baseline
	return d
}

// fill writes a file that leaves this many bytes of the disk free.
func (d *agentOnDisk) fill(t *testing.T, free int) (filler string) {
	t.Helper()
	filler = filepath.Join(d.state, "filler")
	f, err := os.Create(filler)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	size := int64(0)
	for {
		n, err := f.Write(make([]byte, 4096))
		size += int64(n)
		if errors.Is(err, syscall.ENOSPC) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := f.Truncate(max(size-int64(free), 0)); err != nil {
		t.Fatal(err)
	}
	return filler
}

// remount changes the flags of the mount.
func (d *agentOnDisk) remount(t *testing.T, flags uintptr) {
	t.Helper()
	if err := syscall.Mount("", d.state, "", syscall.MS_REMOUNT|flags, ""); err != nil {
		t.Fatal(err)
	}
}

// wantAllAnswered polls until this many mails are answered, and checks that all
// copies of an answer are the same.
func (d *agentOnDisk) wantAllAnswered(t *testing.T, when string, mails int) {
	t.Helper()
	for range 10 {
		if out, code, _ := d.run(t.Context(), "poll", "--quiet"); code != 0 {
			t.Errorf("%s: poll: exit %d: %s", when, code, out)
		}
		if len(sentReplies(t, d.servers)) >= mails {
			break
		}
	}
	if n := len(sentReplies(t, d.servers)); n != mails {
		t.Errorf("%s: %d mails are answered, want %d", when, n, mails)
	}
}
