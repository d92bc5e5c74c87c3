package commands

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"agentstateloop/internal/testkit/mailtest"
)

// slowMailbox is an agent with a mailbox in Dovecot and a slow line to it.
type slowMailbox struct {
	*attackedAgent
	line *mailtest.SlowLine
}

// newSlowMailbox makes an agent that has polled once. The line carries rate bytes a
// second; more is added to its configuration.
func newSlowMailbox(t *testing.T, rate int, more string) *slowMailbox {
	t.Helper()
	d := mailtest.StartDovecot(t)
	w := newAttackedAgent(t, buildProgram(t, t.TempDir()))
	line := mailtest.StartSlowLine(t, d.IMAPTLS, rate)
	w.imap, w.imapCA, w.username, w.password = line.Addr, d.CAFile, d.Username, d.Password
	w.deliver = func(raw []byte) error { return d.Append(raw, false) }
	w.configure(trustFrom + more)
	w.poll()
	return &slowMailbox{w, line}
}

// receive delivers a mail of the operator with an attachment of about size bytes.
func (b *slowMailbox) receive(text string, size int) {
	b.t.Helper()
	raw := rawMail("From: operator@example.com\nContent-Type: multipart/mixed; boundary=b\n",
		"--b\n\n"+text+"\n--b\nContent-Type: application/pdf\nContent-Transfer-Encoding: base64\n")
	row := []byte(strings.Repeat("A", 76) + "\r\n")
	raw = append(raw, bytes.Repeat(row, size/len(row))...)
	if err := b.deliver(append(raw, "--b--\r\n"...)); err != nil {
		b.t.Fatal(err)
	}
}

// start starts a poll.
func (b *slowMailbox) start() *exec.Cmd {
	b.t.Helper()
	cmd := b.command(b.t.Context(), "poll", "--quiet")
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	return cmd
}

// answers returns how many answers with this text were sent.
func (b *slowMailbox) answers(text string) (n int) {
	for _, m := range b.servers.Sent() {
		if bytes.Contains(m.Raw, []byte("Message-ID: <reply.")) && bytes.Contains(m.Raw, []byte(text)) {
			n++
		}
	}
	return n
}

// runs returns how many turns were run.
func (b *slowMailbox) runs() int {
	data, _ := os.ReadFile(filepath.Join(b.dir, "runs")) // it is missing before the first
	return strings.Count(string(data), "run")
}

// TestLargeMailSlowConnection checks that a mail whose transfer takes two network_timeouts arrives,
// with one turn, though the first process that fetched it was killed in the middle. A small mail
// after it has its answer first. A nudge in place of a poll does the same.
func TestLargeMailSlowConnection(t *testing.T) {
	t.Parallel()
	b := newSlowMailbox(t, 400_000, "[timing]\nnetwork_timeout = \"4s\"\n")
	const size = 1_200_000
	b.receive("the large one", size)
	first := b.start()
	b.line.Carried(size / 2)
	b.receive("the small one", 100)
	b.poll()
	if small, large := b.answers("the small one"), b.answers("the large one"); small != 1 || large != 0 {
		t.Errorf("%d answers to the small mail, %d to the large one", small, large)
	}
	if list := string(b.run("inbox", "list")); !strings.Contains(list, "large, being fetched") {
		t.Errorf("inbox list: %q", list)
	}
	first.Process.Kill()
	first.Wait()
	b.poll()
	if small, large := b.answers("the small one"), b.answers("the large one"); small != 1 || large != 1 || b.runs() != 2 {
		t.Errorf("%d answers to the small mail, %d to the large one, %d turns", small, large, b.runs())
	}

	b.receive("another large one", size)
	b.run("nudge")
	b.waitForProcesses()
	if b.answers("another large one") != 1 || b.runs() != 3 {
		t.Errorf("%d answers after a nudge, %d turns", b.answers("another large one"), b.runs())
	}
}

// TestLargeMailFigures is the long form: 25 MB at 100 kB/s, with the default
// settings. It logs the times for docs/performance.md.
func TestLargeMailFigures(t *testing.T) {
	if soakFor(t) == 0 {
		t.Skip("takes five minutes: set " + soakVariable)
	}
	b := newSlowMailbox(t, 100_000, "")
	const size = 25_000_000
	b.receive("the large one", size)
	began := time.Now()
	large := b.start()
	b.line.Carried(1_000_000)
	b.receive("the small one", 100)
	smallBegan := time.Now()
	b.poll()
	t.Logf("the small mail: answered in %v", time.Since(smallBegan).Round(100*time.Millisecond))
	if small, large := b.answers("the small one"), b.answers("the large one"); small != 1 || large != 0 {
		t.Errorf("%d answers to the small mail, %d to the large one", small, large)
	}
	if err := large.Wait(); err != nil {
		t.Errorf("the poll: %v", err)
	}
	usage := large.ProcessState.SysUsage()
	t.Logf("the large mail: answered in %v, %v of CPU, %+v", time.Since(began).Round(100*time.Millisecond),
		large.ProcessState.UserTime()+large.ProcessState.SystemTime(), usage)
	if b.answers("the large one") != 1 || b.runs() != 2 {
		t.Errorf("%d answers to the large mail, %d turns", b.answers("the large one"), b.runs())
	}
}

// largestMail is the size of the mails of this test, in bytes, just below the limit of the gate.
const largestMail = 64<<20 - 16<<10

// largestMails are mails by their [trust] section, their fields, and the line that is
// repeated until the mail has its full size. The signatures of this test do not cover the
// content type, so the program must examine the whole body.
var largestMails = []struct{ name, trust, fields, begin, line, end string }{
	{name: "short lines", trust: trustFrom, line: "a\r\n"},
	{name: "bytes of a charset", trust: trustFrom, fields: "Content-Type: text/plain; charset=koi8-r\n", line: strings.Repeat("\xd0", 900) + "\r\n"},
	{
		name: "an attachment in base64", trust: trustFrom, fields: "Content-Type: multipart/mixed; boundary=b\n",
		begin: "--b\n\nhello\n--b\nContent-Type: application/pdf\nContent-Transfer-Encoding: base64\n\n",
		line:  strings.Repeat("A", 76) + "\r\n", end: "--b--\r\n",
	},
	{name: "short lines, signed", trust: trustDKIM, line: "a\r\n"},
	{name: "many parts, signed", trust: trustDKIM, fields: "Content-Type: multipart/mixed; boundary=b\n", begin: "--b\n\nhello", line: "--b\r\n\r\na\r\n", end: "--b--\r\n"},
	{
		name: "a part that is a header, signed", trust: trustDKIM, fields: "Content-Type: multipart/mixed; boundary=b\n",
		begin: "--b\n\nhello\n--b", line: "a:\r\n", end: "--b--\r\n",
	},
}

// The [trust] sections of largestMails.
const (
	trustFrom = "require = \"from\"\n"
	trustDKIM = "verify = \"dkim\"\nresolver = %q\n"
)

// TestLargestMailHasTurn checks that the poll has enough memory for mails of the largest size, and that
// each has its turn: a mail that ends the poll would end each poll from then on. Unless the real
// servers are required, it tries one mail of a quarter of that size.
func TestLargestMailHasTurn(t *testing.T) {
	if testing.Short() {
		t.Skip("takes hundreds of megabytes on the wire")
	}
	program := buildProgram(t, t.TempDir())
	size := largestMail / part(1, 4)
	for _, m := range largestMails {
		if m.name != "short lines, signed" && os.Getenv(requireReal) == "" {
			continue
		}
		t.Run(m.name, func(t *testing.T) {
			w := newAttackedAgent(t, program)
			w.configure(m.trust)
			w.poll()
			raw := rawMail("From: operator@example.com\n"+m.fields, m.begin)
			raw = append(raw, bytes.Repeat([]byte(m.line), (size-len(raw))/len(m.line))...)
			raw = append(raw, m.end...)
			if m.trust == trustDKIM {
				var err error
				if raw, err = w.genuine.Sign(raw); err != nil {
					t.Fatal(err)
				}
			}
			if _, err := w.servers.Append(raw, time.Now()); err != nil {
				t.Fatal(err)
			}
			w.poll()
			if runs, err := os.ReadFile(filepath.Join(w.dir, "runs")); err != nil || string(runs) != "run\n" {
				t.Errorf("%q, %v: want one turn", runs, err)
			}
		})
	}
}
