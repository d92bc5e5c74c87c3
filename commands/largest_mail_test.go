package commands

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// largestMail is the size of the mails of this test, in bytes, a bit below that
// which the gate lets in.
const largestMail = 64<<20 - 16<<10

// largestMails are mails by their [trust] section, their fields, and the line that is
// repeated until the mail has its full size. With the signatures of this test a
// mail shows by its body alone how it is to be read, so all of it is looked at.
var largestMails = []struct{ name, trust, fields, begin, line, end string }{
	{name: "short lines", trust: believed, line: "a\r\n"},
	{name: "bytes of a charset", trust: believed, fields: "Content-Type: text/plain; charset=koi8-r\n", line: strings.Repeat("\xd0", 900) + "\r\n"},
	{
		name: "an attachment in base64", trust: believed, fields: "Content-Type: multipart/mixed; boundary=b\n",
		begin: "--b\n\nhello\n--b\nContent-Type: application/pdf\nContent-Transfer-Encoding: base64\n\n",
		line:  strings.Repeat("A", 76) + "\r\n", end: "--b--\r\n",
	},
	{name: "short lines, signed", trust: verified, line: "a\r\n"},
	{name: "many parts, signed", trust: verified, fields: "Content-Type: multipart/mixed; boundary=b\n", begin: "--b\n\nhello", line: "--b\r\n\r\na\r\n", end: "--b--\r\n"},
	{
		name: "a part that is a header, signed", trust: verified, fields: "Content-Type: multipart/mixed; boundary=b\n",
		begin: "--b\n\nhello\n--b", line: "a:\r\n", end: "--b--\r\n",
	},
}

// The [trust] sections of largestMails.
const (
	believed = "require = \"from\"\n"
	verified = "verify = \"dkim\"\nresolver = %q\n"
)

// TestLargestMail polls mails of the largest size with the real program. None ends
// the poll by its memory, for it would end each poll from then on; each has its turn.
// One of a quarter of that size is tried unless all that is real is required.
func TestLargestMail(t *testing.T) {
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
			w.imap, w.imapCA, w.username, w.password = w.servers.IMAPTLS, w.servers.CAFile, w.servers.Username, w.servers.Password
			w.configure(m.trust)
			w.poll()
			raw := rawMail("From: operator@example.com\n"+m.fields, m.begin)
			raw = append(raw, bytes.Repeat([]byte(m.line), (size-len(raw))/len(m.line))...)
			raw = append(raw, m.end...)
			if m.trust == verified {
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
