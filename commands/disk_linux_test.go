package commands

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"agentstateloop/internal/testkit/mailtest"
	"agentstateloop/mail/message"
)

// TestFullDisk runs polls on a disk that is full, or becomes full at any page of a
// cycle, or at every fifth unless all that is real is required. No mail is consumed:
// once there is room, each has one answer (docs/design.md, "Save before effects").
func TestFullDisk(t *testing.T) {
	t.Parallel()
	d := newAgentOnDisk(t)
	const page = 4096
	mails := 0
	for free := 0; free < 24; free += part(1, 5) {
		mails++
		d.deliverMail(free)
		filler := d.fill(t, free*page)
		code, out := d.poll(t)
		// Where the mail cannot be kept, the times may still be written: the state
		// before has made room.
		if free == 0 && code != exitError && code != exitSource {
			t.Errorf("on a full disk: poll: exit %d, want %d or %d: %s", code, exitError, exitSource, out)
		}
		if free == 0 && len(d.replies()) > 0 {
			t.Error("a mail was answered, and the turn could not be recorded")
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

// TestReadOnlyDisk runs commands on a read-only state directory. Those that write
// fail with an error that names it and consume nothing. Those that only read work.
// When the directory is writable again, the mail is answered.
func TestReadOnlyDisk(t *testing.T) {
	t.Parallel()
	d := newAgentOnDisk(t)
	d.deliverMail(0)
	d.remount(t, syscall.MS_RDONLY)
	code, out := d.poll(t)
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
	writeAgent(t, d.dir, d.servers, "[turn]\ncommand = [\"echo\", \"done\"]\n[schedule]\nmode = \"none\"\n")
	if code, out := d.poll(t); code != 0 { // the baseline
		t.Fatalf("first poll: exit %d: %s", code, out)
	}
	return d
}

// poll runs `poll --quiet`.
func (d *agentOnDisk) poll(t *testing.T) (code int, out string) {
	t.Helper()
	out, code, _ = d.run(t.Context(), "poll", "--quiet")
	return code, out
}

// deliverMail puts mail n of the operator into the mailbox.
func (d *agentOnDisk) deliverMail(n int) {
	raw := fmt.Sprintf("From: operator@example.com\r\nSubject: @goulard3120 work\r\nMessage-ID: <m%d@example.com>\r\n\r\ndo it\r\n", n)
	if _, err := d.servers.Append([]byte(raw), time.Now()); err != nil {
		panic(err)
	}
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
		if code, out := d.poll(t); code != 0 {
			t.Errorf("%s: poll: exit %d: %s", when, code, out)
		}
		if len(d.replies()) >= mails {
			break
		}
	}
	replies := d.replies()
	if len(replies) != mails {
		t.Errorf("%s: %d mails are answered, want %d", when, len(replies), mails)
	}
	for to, copies := range replies {
		for _, c := range copies {
			if !bytes.Equal(c, copies[0]) {
				t.Errorf("%s: two different answers to %s:\n%s\n---\n%s", when, to, copies[0], c)
			}
		}
	}
}

// replies returns the answers that were mailed, by the Message-ID they answer.
func (d *agentOnDisk) replies() map[string][][]byte {
	replies := map[string][][]byte{}
	for _, m := range d.servers.Sent() {
		if h := message.ParseHeader(m.Raw); strings.HasPrefix(h.MessageID, "<reply.") {
			replies[h.InReplyTo] = append(replies[h.InReplyTo], m.Raw)
		}
	}
	return replies
}
