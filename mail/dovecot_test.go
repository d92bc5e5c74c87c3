package mail_test

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"agentstateloop/internal/testkit/mailtest"
	"agentstateloop/state"
)

// dovecotHost returns the mailbox of a Dovecot, which is still empty.
func dovecotHost(t testing.TB, d *mailtest.Dovecot) host {
	var last uint32
	return host{
		server: tlsServer(d.IMAPTLS, d.Username, d.Password, d.CAFile),
		plain:  d.IMAP,
		append: func(raw string, seen bool) uint32 {
			t.Helper()
			if err := d.Append([]byte(raw), seen); err != nil {
				t.Fatal(err)
			}
			last++
			return last
		},
		renumber: func() {
			t.Helper()
			if err := d.Renumber(); err != nil {
				t.Fatal(err)
			}
		},
	}
}

// TestDovecotServer runs the stories against a real server.
func TestDovecotServer(t *testing.T) {
	t.Parallel()
	server := mailtest.StartDovecot(t)
	runStories(t, func(t *testing.T) host { return dovecotHost(t, server.Fresh(t)) })
}

// TestDovecotWithholds checks a mail that a real server lists but cannot read, a mail that it
// expunges, and the resulting gaps.
func TestDovecotWithholds(t *testing.T) {
	t.Parallel()
	d := mailtest.StartDovecot(t)
	h := dovecotHost(t, d)
	b := mailboxOf(h)
	now := noon
	b.Now = func() time.Time { return now }
	var cur state.Cursor
	look := func() []uint32 {
		now = now.Add(10 * time.Minute)
		l, err := scan(t, b, cur, 10, discard)
		t.Logf("taken %v, failed %v, error %v, cursor %+v", uids(l), l.Failed, err, l.Cursor)
		cur = l.Cursor
		return uids(l)
	}
	put := func(subject string) string {
		h.append(letter(subject), false)
		files, err := filepath.Glob(filepath.Join(d.Maildir, "new", "*"))
		if err != nil || len(files) != 1 {
			t.Fatal(files, err)
		}
		return filepath.Base(files[0])
	}
	mode := func(name string, mode os.FileMode) {
		files, err := filepath.Glob(filepath.Join(d.Maildir, "*", name+"*"))
		if err != nil || len(files) != 1 || os.Chmod(files[0], mode) != nil {
			t.Fatal(files, err)
		}
	}
	look()
	put("nobody")
	look()
	bad := put("@goulard3120 bad") // UID 2
	mode(bad, 0)
	var got []uint32
	for range 4 {
		got = append(got, look()...)
	}
	put("@goulard3120 behind")
	for range 2 {
		got = append(got, look()...)
	}
	wantUIDs(t, "behind the unreadable mail", got, []uint32{3})
	if f := cur.Failures[2]; f.Tries < 3 || !slices.Equal(cur.Owed, []uint32{2}) {
		t.Errorf("cursor %+v", cur)
	}
	mode(bad, 0o600)
	now = now.Add(6 * time.Hour)
	wantUIDs(t, "when it can be read", look(), []uint32{2})

	expunged := put("@goulard3120 gone") // UID 4, expunged before the next scan
	out, err := exec.Command("doveadm", "-c", d.Conf(), "expunge", "-u", d.Username, "mailbox", "INBOX", "uid", "4").CombinedOutput()
	if err != nil {
		t.Fatalf("expunge %s: %v: %s", expunged, err, out)
	}
	if look(); !cur.Unseen.Contains(4) || cur.Next != 5 {
		t.Errorf("after one session: %+v", cur)
	}
	if look(); len(cur.Unseen) != 0 || cur.Next != 5 || !cur.Complete.Equal(now) {
		t.Errorf("after two sessions: %+v", cur)
	}
}

// TestKilledTestStopsDovecot checks that Dovecot ends with a killed test process.
func TestKilledTestStopsDovecot(t *testing.T) {
	t.Parallel()
	const killed = "MAIL_TEST_KILLED"
	if os.Getenv(killed) != "" {
		fmt.Println("dovecot at", mailtest.StartDovecot(t).IMAP)
		select {}
	}
	mailtest.StartDovecot(t) // skips the test without Dovecot
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self, "-test.run=^TestKilledTestStopsDovecot$")
	cmd.Env = append(os.Environ(), killed+"=1")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	addr, ok := strings.CutPrefix(strings.TrimSpace(line), "dovecot at ")
	cmd.Process.Kill()
	cmd.Wait() // the error says that it was killed
	if err != nil || !ok {
		t.Fatalf("it said %q, %v", line, err)
	}
	for err == nil { // until the port is closed
		var conn net.Conn
		if conn, err = net.Dial("tcp", addr); err == nil {
			conn.Close()
		}
	}
}

// TestDovecotFiles stores mails in a folder of a real server and finds them again.
func TestDovecotFiles(t *testing.T) {
	t.Parallel()
	d := mailtest.StartDovecot(t)
	b := mailboxOf(dovecotHost(t, d))
	if _, err := b.OpenFolder(t.Context(), "Sent"); err == nil {
		t.Fatal("a missing folder opens")
	}
	if _, found, err := b.SentFolders(t.Context(), "Sent"); found || err != nil {
		t.Fatalf("there %v, %v", found, err)
	}
	if out, err := exec.Command("doveadm", "-c", d.Conf(), "mailbox", "create", "-u", d.Username, "Sent").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if _, found, err := b.SentFolders(t.Context(), "Sent"); !found || err != nil {
		t.Fatalf("there %v, %v", found, err)
	}
	s, err := b.OpenFolder(t.Context(), "Sent")
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for i, size := range []int{10, 3 << 20} {
		id := fmt.Sprintf("<reply.t%d+abc.mac.goulard3120@example.org>", i)
		raw := "From: a@example.org\r\nMessage-ID: " + id + "\r\nSubject: x\r\n\r\n" + strings.Repeat("0123456789abcdef\r\n", size/18) + "end\r\n"
		for _, want := range []bool{false, true} {
			found, err := s.Holds(t.Context(), id)
			if found != want || err != nil {
				t.Fatalf("%d bytes: there %v, want %v, %v", len(raw), found, want, err)
			}
			if want {
				break
			}
			if err := s.Append(t.Context(), int64(len(raw)), strings.NewReader(raw), noon); err != nil {
				t.Fatal(err)
			}
		}
	}
	if found, err := s.Holds(t.Context(), "<reply.t9+abc.mac.goulard3120@example.org>"); found || err != nil {
		t.Errorf("another id: %v, %v", found, err)
	}
	// A mail that ends early breaks the connection and is not stored.
	if err := s.Append(t.Context(), 100, strings.NewReader("short"), noon); err == nil {
		t.Error("a mail that ends early was appended")
	}
	if s, err = b.OpenFolder(t.Context(), "Sent"); err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if n, err := s.Holds(t.Context(), "<reply.t1+abc.mac.goulard3120@example.org>"); !n || err != nil {
		t.Errorf("after a broken connection: %v, %v", n, err)
	}
}
