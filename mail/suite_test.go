package mail_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"agentstateloop/mail"
	"agentstateloop/mail/mailtest"
	"agentstateloop/state"
)

// The stories in this file run against the server in memory and against a real
// Dovecot.

// host is an IMAP server with one mailbox, and a way to put mail into it.
type host struct {
	server mail.Server // TLSImplicit
	plain  string      // the address for TLSNone and TLSStart
	append func(raw string, seen bool) uint32
	// renumber empties the mailbox and changes its UIDVALIDITY; nil where that
	// cannot be done.
	renumber func()
}

// withTime makes one attempt after another, with ever more time for a network
// phase, until one came as far as the test wants to see it: how soon that is is
// the machine's affair.
func withTime(t *testing.T, far func(timeout time.Duration) bool) {
	t.Helper()
	for timeout := 100 * time.Millisecond; !far(timeout); timeout *= 2 {
		if timeout > 20*time.Second {
			t.Fatalf("not even with %v", timeout)
		}
	}
}

func fixedSecret(s string) func(context.Context) (string, error) {
	return func(context.Context) (string, error) { return s, nil }
}

func memoryHost(t testing.TB, options mailtest.Options) (host, *mailtest.Servers) {
	t.Helper()
	s := mailtest.StartMemory(t, options)
	return host{
		server: mail.Server{
			Addr: s.IMAPTLS, TLS: mail.TLSImplicit, Username: s.Username, Secret: fixedSecret(s.Password),
			CAFile: s.CAFile, Timeout: time.Minute,
		},
		plain: s.IMAP,
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

var filter = mail.Filter{
	Handle:    "goulard3120",
	Operators: []string{"operator@example.com"},
	Own:       "artificer3120@example.org",
	MaxSize:   1 << 20,
	Require:   "from",
}

// letter is a mail from the operator; edit replaces parts of it.
func letter(subject string, edit ...string) string {
	raw := "From: The Operator <operator@example.com>\r\n" +
		"To: artificer3120@example.org\r\n" +
		"Subject: " + subject + "\r\n" +
		"Message-ID: <" + rand.Text() + "@example.com>\r\n" +
		"Date: Mon, 05 Jan 2026 10:00:00 +0000\r\n" +
		"\r\nhello\r\n"
	return strings.NewReplacer(edit...).Replace(raw)
}

// shelf is a Keep that remembers.
type shelf map[uint32]string

func (s shelf) keep(m *mail.Message, raw io.Reader) error {
	b, err := io.ReadAll(raw)
	s[m.UID] = string(b)
	return err
}

// scan opens the box, looks once and closes it.
func scan(t testing.TB, b mail.Mailbox, cur state.Cursor, limit int, keep mail.Keep) (mail.Scan, error) {
	t.Helper()
	s, err := b.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	return s.Scan(t.Context(), cur, filter, limit, keep)
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

func wantUIDs(t testing.TB, what string, got, want []uint32) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s: got UIDs %v, want %v", what, got, want)
	}
}

var noon = time.Date(2026, 1, 5, 12, 0, 0, 0, time.UTC)

func mailboxOf(h host) mail.Mailbox {
	return mail.Mailbox{Server: h.server, Name: "INBOX", Now: func() time.Time { return noon }}
}

// runStories runs every story on a fresh host.
func runStories(t *testing.T, fresh func(t *testing.T) host) {
	for name, story := range map[string]func(*testing.T, host){
		"baseline takes what is unread":  storyBaseline,
		"later mail is taken even read":  storyRead,
		"the limit holds the cursor":     storyLimit,
		"forged mail is in nobody's way": storyForgedAhead,
		"time is up":                     storyLate,
		"seen only where it is marked":   storySeen,
		"renumbered":                     storyRenumbered,
		"recovered cursor":               storyRecovered,
		"ways to connect":                storyConnect,
		"wrong password":                 storyPassword,
		"bytes come unchanged":           storyBytes,
		"a mail too big":                 storyTooBig,
		"keep fails":                     storyKeepFails,
		"many foreign mails":             storyForeign,
		"signed mail":                    storySigned,
		"forged mail":                    testForgeries,
		"a probe changes nothing":        storyProbe,
	} {
		t.Run(name, func(t *testing.T) { story(t, fresh(t)) })
	}
}

func storyBaseline(t *testing.T, h host) {
	h.append(letter("@goulard3120 old and read"), true)
	unread := h.append(letter("@goulard3120 old and unread"), false)
	h.append(letter("nobody is called"), false)
	h.append(letter("@goulard3120 a stranger", "operator@example.com", "stranger@example.net"), false)

	got := shelf{}
	l := mustScan(t, mailboxOf(h), state.Cursor{}, 10, got.keep)
	wantUIDs(t, "baseline", uids(l), []uint32{unread})
	if l.Cursor.Mailbox != mailboxOf(h).ID() || l.Cursor.Validity == 0 || l.Cursor.Next != unread+3 || len(l.Cursor.Owed) != 0 || !l.Cursor.Complete.Equal(noon) {
		t.Errorf("cursor after the baseline: %+v", l.Cursor)
	}
	m := l.Messages[0]
	if want := fmt.Sprintf("mail:%s.%d.%d", mailboxOf(h).ID(), l.Cursor.Validity, unread); m.Key != want {
		t.Errorf("key %q, want %q", m.Key, want)
	}
	if m.Seen || m.Gate != "" || m.At.IsZero() || m.Size == 0 || m.Digest == "" || m.Header.From != "operator@example.com" {
		t.Errorf("message: %+v", m)
	}

	l = mustScan(t, mailboxOf(h), l.Cursor, 10, got.keep)
	wantUIDs(t, "second look", uids(l), nil)

	other := l.Cursor
	other.Mailbox = "0123456789ab"
	l = mustScan(t, mailboxOf(h), other, 10, got.keep)
	wantUIDs(t, "another mailbox baselines anew", uids(l), []uint32{unread})
}

func storyRead(t *testing.T, h host) {
	l := mustScan(t, mailboxOf(h), state.Cursor{}, 10, shelf{}.keep)
	read := h.append(letter("Re: @goulard3120"), true)
	h.append(letter("not for us"), false)
	l = mustScan(t, mailboxOf(h), l.Cursor, 10, shelf{}.keep)
	wantUIDs(t, "read mail", uids(l), []uint32{read})
	if !l.Messages[0].Seen {
		t.Error("Seen is false for a mail that was read")
	}
}

func storyLimit(t *testing.T, h host) {
	var all []uint32
	for i := range 4 {
		all = append(all, h.append(letter(fmt.Sprintf("@goulard3120 unread %d", i)), false))
		h.append(letter("nobody"), false)
	}
	var got []uint32
	cur := state.Cursor{}
	for range 2 {
		l := mustScan(t, mailboxOf(h), cur, 2, shelf{}.keep)
		got = append(got, uids(l)...)
		cur = l.Cursor
	}
	wantUIDs(t, "owed mail, two at a time", got, all)

	all, got = nil, nil
	for i := range 5 {
		all = append(all, h.append(letter(fmt.Sprintf("@goulard3120 new %d", i)), false))
		h.append(letter("nobody"), false)
	}
	for range 3 {
		l := mustScan(t, mailboxOf(h), cur, 2, shelf{}.keep)
		if n := len(l.Messages); n > 2 {
			t.Fatalf("took %d, the limit is 2", n)
		}
		got = append(got, uids(l)...)
		cur = l.Cursor
	}
	wantUIDs(t, "new mail, two at a time", got, all)

	h.append(letter("@goulard3120 one more"), false)
	l := mustScan(t, mailboxOf(h), cur, 0, shelf{}.keep)
	if len(l.Messages) != 0 || l.Cursor.Next != cur.Next || !l.Rest {
		t.Errorf("limit 0: took %v, rest %v, cursor %+v", uids(l), l.Rest, l.Cursor)
	}
}

// What a gate refuses takes no place from what comes in.
func storyForgedAhead(t *testing.T, h host) {
	cur := mustScan(t, mailboxOf(h), state.Cursor{}, 2, shelf{}.keep).Cursor
	for range 60 {
		h.append(letter("@goulard3120 forged", "\r\n\r\nhello", "\r\nAuto-Submitted: auto-replied\r\n\r\nhello"), false)
	}
	first, second := h.append(letter("@goulard3120 first"), false), h.append(letter("@goulard3120 second"), false)
	h.append(letter("@goulard3120 third"), false)
	l := mustScan(t, mailboxOf(h), cur, 2, shelf{}.keep)
	var in []uint32
	for _, m := range l.Messages {
		if m.Gate == "" {
			in = append(in, m.UID)
		}
	}
	wantUIDs(t, "behind forged mail, two at a time", in, []uint32{first, second})
	if !l.Rest || len(l.Messages) != 62 {
		t.Errorf("took %d, rest %v", len(l.Messages), l.Rest)
	}
}

// A look that has used up its time begins nothing more: what it has not looked
// at waits behind the cursor, and it says so.
func storyLate(t *testing.T, h host) {
	cur := mustScan(t, mailboxOf(h), state.Cursor{}, 9, shelf{}.keep).Cursor
	uid := h.append(letter("@goulard3120 in time"), false)
	late := mailboxOf(h)
	late.Until = time.Now().Add(-time.Second)
	if l := mustScan(t, late, cur, 9, shelf{}.keep); len(l.Messages) != 0 || !l.Rest || l.Cursor.Next > uid {
		t.Errorf("too late: took %v, rest %v, cursor %+v", uids(l), l.Rest, l.Cursor)
	}
	l := mustScan(t, mailboxOf(h), cur, 9, shelf{}.keep)
	if l.Rest {
		t.Error("a look that saw all says that there is a rest")
	}
	wantUIDs(t, "the next look", uids(l), []uint32{uid})
}

func storySeen(t *testing.T, h host) {
	ours := h.append(letter("@goulard3120 one"), false)
	h.append(letter("somebody else's"), false)
	late := h.append(letter("@goulard3120 two"), false)

	s, err := mailboxOf(h).Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	l, err := s.Scan(t.Context(), state.Cursor{}, filter, 10, shelf{}.keep)
	if err != nil {
		t.Fatal(err)
	}
	if s.UIDValidity() != l.Cursor.Validity {
		t.Errorf("Validity() = %d, cursor %d", s.UIDValidity(), l.Cursor.Validity)
	}
	wantUIDs(t, "before marking", uids(mustScan(t, mailboxOf(h), state.Cursor{}, 10, shelf{}.keep)), []uint32{ours, late})
	if err := s.MarkSeen(t.Context(), []uint32{ours, 4_000_000}); err != nil {
		t.Fatal(err)
	}
	wantUIDs(t, "after marking", uids(mustScan(t, mailboxOf(h), state.Cursor{}, 10, shelf{}.keep)), []uint32{late})
}

func storyRenumbered(t *testing.T, h host) {
	if h.renumber == nil {
		t.Skip("this server's mailboxes are not renumbered by hand")
	}
	h.append(letter("@goulard3120 taken"), false)
	l := mustScan(t, mailboxOf(h), state.Cursor{}, 10, shelf{}.keep)
	known := l.Messages[0]

	h.renumber()
	copied := h.append(letter("@goulard3120 taken"), true)
	l = mustScan(t, mail.Mailbox{Server: h.server, Name: "INBOX"}, l.Cursor, 10, shelf{}.keep)
	wantUIDs(t, "read mail since the last look", uids(l), []uint32{copied})
	if l.Messages[0].Key == known.Key {
		t.Error("the copy has the key of the original")
	}
}

func storyRecovered(t *testing.T, h host) {
	read := h.append(letter("@goulard3120 read, maybe taken"), true)
	lost := state.Cursor{Complete: time.Now()}
	wantUIDs(t, "everything since the day before", uids(mustScan(t, mailboxOf(h), lost, 10, shelf{}.keep)), []uint32{read})
	lost.Complete = time.Now().Add(72 * time.Hour)
	wantUIDs(t, "nothing before the day before", uids(mustScan(t, mailboxOf(h), lost, 10, shelf{}.keep)), nil)
}

func storyConnect(t *testing.T, h host) {
	uid := h.append(letter("@goulard3120 hello"), false)
	for _, way := range []string{mail.TLSImplicit, mail.TLSStart, mail.TLSNone} {
		b := mailboxOf(h)
		if b.TLS = way; way != mail.TLSImplicit {
			b.Addr = h.plain
		}
		wantUIDs(t, way, uids(mustScan(t, b, state.Cursor{}, 10, shelf{}.keep)), []uint32{uid})
	}
}

func storyPassword(t *testing.T, h host) {
	for _, wrong := range []string{"wrong", `qu"ote\`, "nön-äscii", "line\nfeed", ""} {
		b := mailboxOf(h)
		b.Secret = fixedSecret(wrong)
		_, err := b.Open(t.Context())
		c, ok := state.CredentialFailure(err)
		if !ok || c.Name != "imap" {
			t.Errorf("password %q: %v, want a failure of the credential imap", wrong, err)
		}
		if wrong != "" && strings.Contains(fmt.Sprint(err), wrong) {
			t.Errorf("the error holds the secret: %v", err)
		}
	}
}

func storyBytes(t *testing.T, h host) {
	want := map[uint32]string{}
	for i := range 9 { // more than are asked for ahead
		raw := letter(fmt.Sprintf("@goulard3120 %d", i), "hello\r\n", strings.Repeat("line of text äöü\r\n", i*i*300))
		want[h.append(raw, false)] = raw
	}
	got := shelf{}
	mustScan(t, mailboxOf(h), state.Cursor{}, 100, got.keep)
	for uid, raw := range want {
		if got[uid] != raw {
			t.Errorf("UID %d: %d bytes, want %d", uid, len(got[uid]), len(raw))
		}
	}

	// A keep that reads nothing does not disturb the next.
	n := 0
	l := mustScan(t, mailboxOf(h), state.Cursor{}, 100, func(*mail.Message, io.Reader) error { n++; return nil })
	if n != len(want) || len(l.Messages) != len(want) {
		t.Errorf("kept %d of %d without reading", n, len(want))
	}
}

func storyTooBig(t *testing.T, h host) {
	big := letter("@goulard3120 big", "hello", strings.Repeat("x\r\n", 400_000))
	uid := h.append(big, false)
	got := shelf{}
	l := mustScan(t, mailboxOf(h), state.Cursor{}, 10, got.keep)
	wantUIDs(t, "big mail", uids(l), []uint32{uid})
	if l.Messages[0].Gate != mail.GateSize {
		t.Errorf("gate %q, want %q", l.Messages[0].Gate, mail.GateSize)
	}
	header, _, _ := strings.Cut(big, "\r\n\r\n")
	if strings.TrimRight(got[uid], "\r\n") != header {
		t.Errorf("kept %d bytes of a mail that is too big, want its header of %d", len(got[uid]), len(header))
	}
}

func storyKeepFails(t *testing.T, h host) {
	first := h.append(letter("@goulard3120 one"), false)
	second := h.append(letter("@goulard3120 two"), false)
	third := h.append(letter("@goulard3120 three"), false)
	full := errors.New("disk full")
	l, err := scan(t, mailboxOf(h), state.Cursor{}, 10, func(m *mail.Message, raw io.Reader) error {
		if m.UID == second {
			return full
		}
		return nil
	})
	if !errors.Is(err, full) {
		t.Fatalf("got %v, want %v", err, full)
	}
	wantUIDs(t, "before the failure", uids(l), []uint32{first})
	if len(l.Cursor.Tries) != 0 {
		t.Errorf("a full disk counted against the mail: %v", l.Cursor.Tries)
	}
	l = mustScan(t, mailboxOf(h), l.Cursor, 10, shelf{}.keep)
	wantUIDs(t, "with room again", uids(l), []uint32{second, third})
}

func storyForeign(t *testing.T, h host) {
	l := mustScan(t, mailboxOf(h), state.Cursor{}, 10, shelf{}.keep)
	foreign := letter("advertisement", "operator@example.com", "shop@example.net")
	for range 1100 {
		h.append(foreign, false)
	}
	ours := h.append(letter("@goulard3120 among many"), true)
	l = mustScan(t, mailboxOf(h), l.Cursor, 10, shelf{}.keep)
	wantUIDs(t, "the one of ours", uids(l), []uint32{ours})
	if l.Cursor.Next != ours+1 {
		t.Errorf("cursor at %d, want %d", l.Cursor.Next, ours+1)
	}
}

// trace is a writer that can be read while it is written.
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
