package mail_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"io"
	"iter"
	"slices"
	"strings"
	"testing"
	"time"

	"agentstateloop/internal/testkit/mailtest"
	"agentstateloop/mail"
	"agentstateloop/mail/message"
	"agentstateloop/mail/trust"
	"agentstateloop/state"
)

// The stories run against the server in memory and against Dovecot.

// host is an IMAP server with one mailbox, and a function that adds mail to it.
type host struct {
	server mail.Server // TLSImplicit
	plain  string      // the address for TLSNone and TLSStart
	append func(raw string, seen bool) uint32
	// renumber empties the mailbox and changes its UIDVALIDITY. It is nil if the
	// server cannot do that.
	renumber func()
}

// withGrowingTimeout calls try with longer and longer timeouts for a network phase, until try
// reports that the attempt came far enough. The time depends on the machine.
func withGrowingTimeout(t *testing.T, try func(timeout time.Duration) bool) {
	t.Helper()
	for timeout := 100 * time.Millisecond; !try(timeout); timeout *= 2 {
		if timeout > 20*time.Second {
			t.Fatalf("not even with %v", timeout)
		}
	}
}

func fixedSecret(s string) func(context.Context) (string, error) {
	return func(context.Context) (string, error) { return s, nil }
}

// tlsServer returns the settings of a server with TLS.
func tlsServer(addr, username, password, caFile string) mail.Server {
	return mail.Server{
		Addr: addr, TLS: mail.TLSImplicit, Username: username, Secret: fixedSecret(password), CAFile: caFile, Timeout: time.Minute,
	}
}

func memoryHost(t testing.TB, options mailtest.Options) (host, *mailtest.Servers) {
	t.Helper()
	s := mailtest.StartMemory(t, options)
	return host{
		server: tlsServer(s.IMAPTLS, s.Username, s.Password, s.CAFile),
		plain:  s.IMAP,
		append: func(raw string, seen bool) uint32 {
			t.Helper()
			var flags []mailFlag
			if seen {
				flags = append(flags, flagSeen)
			}
			uid, err := s.Append([]byte(raw), time.Time{}, flags...)
			if err != nil {
				t.Fatal(err)
			}
			return uid
		},
		renumber: func() {
			t.Helper()
			if err := s.Renumber(); err != nil {
				t.Fatal(err)
			}
		},
	}, s
}

var filter = trust.Filter{
	Handle:    "goulard3120",
	Operators: []string{"operator@example.com"},
	Own:       "artificer3120@example.org",
	IDKey:     message.IDKey{Secret: bytes.Repeat([]byte{7}, 32)},
	MaxSize:   1 << 20,
	Require:   "from",
}

// idsOf returns the IDs of the agent with this handle and address and the key of filter.
func idsOf(handle, address string) message.IDs {
	return message.IDs{Handle: handle, Address: address, IDKey: filter.IDKey}
}

// ownID returns the Message-ID of our mail in the thread of subject.
func ownID(effect, subject string) string {
	return idsOf(filter.Handle, filter.Own).Make(effect, subject)
}

// letter returns a mail from the operator. edit replaces parts of it.
func letter(subject string, edit ...string) string {
	raw := "From: The Operator <operator@example.com>\r\n" +
		"To: artificer3120@example.org\r\n" +
		"Subject: " + subject + "\r\n" +
		"Message-ID: <" + rand.Text() + "@example.com>\r\n" +
		"Date: Mon, 05 Jan 2026 10:00:00 +0000\r\n" +
		"\r\nhello\r\n"
	return strings.NewReplacer(edit...).Replace(raw)
}

// discard is a Keep that reads each mail and stores none.
func discard(_ *mail.Message, raw io.Reader) error {
	_, err := io.Copy(io.Discard, raw)
	return err
}

// mailsByUID is a Keep that stores mails by UID.
type mailsByUID map[uint32]string

func (s mailsByUID) keep(m *mail.Message, raw io.Reader) error {
	b, err := io.ReadAll(raw)
	s[m.UID] = string(b)
	return err
}

// scan opens the mailbox, scans once and closes it.
func scan(t testing.TB, b mail.Mailbox, cur state.Cursor, limit int, keep mail.Keep) (mail.Scan, error) {
	t.Helper()
	return scanWith(t, b, cur, filter, limit, keep)
}

// scanWith is scan with another filter.
func scanWith(t testing.TB, b mail.Mailbox, cur state.Cursor, f trust.Filter, limit int, keep mail.Keep) (mail.Scan, error) {
	t.Helper()
	b.Ahead = cur
	s, err := b.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	return s.Scan(t.Context(), cur, f, limit, keep)
}

// tryScan is scanWith on a mailbox that may fail to open.
func tryScan(ctx context.Context, b mail.Mailbox, f trust.Filter, keep mail.Keep) (mail.Scan, error) {
	s, err := b.Open(ctx)
	if err != nil {
		return mail.Scan{}, err
	}
	defer s.Close()
	return s.Scan(ctx, state.Cursor{}, f, 50, keep)
}

func mustScan(t testing.TB, b mail.Mailbox, cur state.Cursor, limit int, keep mail.Keep) mail.Scan {
	t.Helper()
	l, err := scan(t, b, cur, limit, keep)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func uids(l mail.Scan) []uint32 {
	var u []uint32
	for _, m := range l.Messages {
		u = append(u, m.UID)
	}
	return u
}

func wantUIDs(t testing.TB, name string, got, want []uint32) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s: got UIDs %v, want %v", name, got, want)
	}
}

var noon = time.Date(2026, 1, 5, 12, 0, 0, 0, time.UTC)

func mailboxOf(h host) mail.Mailbox {
	return mail.Mailbox{Server: h.server, Name: "INBOX", Now: func() time.Time { return noon }}
}

// commands returns the commands of an IMAP client, each with its tag.
func commands(r *bufio.Reader) iter.Seq2[string, string] {
	return func(yield func(tag, command string) bool) {
		for {
			line, err := r.ReadString('\n')
			if err != nil {
				return
			}
			if tag, command, _ := strings.Cut(strings.TrimSpace(line), " "); !yield(tag, command) {
				return
			}
		}
	}
}

// runStories runs every story on a fresh host.
func runStories(t *testing.T, fresh func(t *testing.T) host) {
	for name, story := range map[string]func(*testing.T, host){
		"baseline takes what is unread": storyBaseline,
		"later mail is taken even read": storyRead,
		"the limit holds the cursor":    storyLimit,
		"forged mail delays no other":   storyForgedAhead,
		"time is up":                    storyLate,
		"seen only where it is marked":  storySeen,
		"renumbered":                    storyRenumbered,
		"recovered cursor":              storyRecovered,
		"ways to connect":               storyConnect,
		"wrong password":                storyPassword,
		"bytes come unchanged":          storyBytes,
		"a mail too big":                storyTooBig,
		"keep fails":                    storyKeepFails,
		"many foreign mails":            storyForeign,
		"signed mail":                   storySigned,
		"forged mail":                   testForgeries,
		"a probe changes nothing":       storyProbe,
		"a sweep":                       storySweep,
		"a slow line":                   storySlowLine,
		"reports about our mail":        storyBounces,
		"a report, renumbered":          storyBounceRenumbered,
		"a large mail":                  storyLarge,
		"a restored mailbox":            storyRestored,
		"restored, one fails":           storyRestoredFailing,
		"restored and renumbered":       storyRestoredRenumbered,
		"restored and swept":            storyRestoredSweep,
	} {
		t.Run(name, func(t *testing.T) { story(t, fresh(t)) })
	}
}

// trace is a writer that can be read concurrently.
type trace struct {
	buf chan *bytes.Buffer
}

func newTrace() *trace {
	t := &trace{make(chan *bytes.Buffer, 1)}
	t.buf <- new(bytes.Buffer)
	return t
}

func (t *trace) Write(p []byte) (int, error) {
	b := <-t.buf
	defer func() { t.buf <- b }()
	return b.Write(p)
}

func (t *trace) String() string {
	b := <-t.buf
	defer func() { t.buf <- b }()
	return b.String()
}
