package mail_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/emersion/go-imap/v2"

	"agentstateloop/internal/testkit/mailtest"
	"agentstateloop/mail"
	"agentstateloop/mail/trust"
	"agentstateloop/state"
)

// TestStallInScan checks that a server that stalls does not block a scan.
func TestStallInScan(t *testing.T) {
	release := make(chan struct{})
	h, _ := memoryHost(t, mailtest.Options{OnFetch: func(net.Conn, imap.NumSet, *imap.FetchOptions) error {
		<-release
		return nil
	}})
	defer close(release)
	h.append(letter("@goulard3120 hello"), false)
	b := mailboxOf(h)
	b.Timeout = 100 * time.Millisecond
	if _, err := scan(t, b, state.Cursor{}, 10, discard); err == nil {
		t.Error("no error")
	}
	ctx, cancel := context.WithCancel(t.Context())
	b.Timeout = time.Minute
	s, err := b.Open(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	time.AfterFunc(20*time.Millisecond, cancel)
	l, err := s.Scan(ctx, state.Cursor{}, filter, 10, discard)
	if !errors.Is(err, context.Canceled) || len(l.Cursor.Failures) != 0 {
		t.Errorf("got %v, tries %v", err, l.Cursor.Failures)
	}
}

// bodyRequest returns the UIDs of a FETCH, and whether it requests bodies.
func bodyRequest(set imap.NumSet, o *imap.FetchOptions) (imap.UIDSet, bool) {
	return set.(imap.UIDSet), len(o.BodySection) == 1 && o.BodySection[0].Specifier == imap.PartSpecifierNone
}

// TestBrokenMailIsRetried checks that a mail that the server cannot deliver is retried for ever with
// growing pauses, and does not delay other mail.
func TestBrokenMailIsRetried(t *testing.T) {
	for name, fault := range map[string]func(net.Conn) error{
		"refused": func(net.Conn) error {
			return &imap.Error{Type: imap.StatusResponseTypeNo, Code: imap.ResponseCodeServerBug, Text: "corrupt"}
		},
		"hung up": func(c net.Conn) error { c.Close(); return nil },
	} {
		for _, atHeader := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, header %v", name, atHeader), func(t *testing.T) {
				var bad atomic.Uint32
				var fetches atomic.Int32
				h, _ := memoryHost(t, mailtest.Options{OnFetch: func(c net.Conn, set imap.NumSet, o *imap.FetchOptions) error {
					uids, body := bodyRequest(set, o)
					if body != atHeader && uids.Contains(imap.UID(bad.Load())) {
						fetches.Add(1)
						return fault(c)
					}
					return nil
				}})
				now := noon
				b := mailboxOf(h)
				b.Addr, b.TLS = h.plain, mail.TLSNone
				b.Now = func() time.Time { return now }
				cur := mustScan(t, b, state.Cursor{}, 10, discard).Cursor
				var good []uint32
				good = append(good, h.append(letter("@goulard3120 before"), false))
				bad.Store(h.append(letter("@goulard3120 broken"), false))
				good = append(good, h.append(letter("@goulard3120 behind"), false))

				var got []uint32
				for range 200 { // more than a day
					before := fetches.Load()
					l, err := scan(t, b, cur, 10, discard)
					if f := cur.Failures[bad.Load()]; fetches.Load() == before && f.Due(now) || f.Tries > 0 && !f.Due(now) && fetches.Load() > before {
						t.Fatalf("at %v asked %d times, failure %+v", now, fetches.Load()-before, f)
					}
					if failed := len(l.Failed) > 0 || err != nil; failed != (fetches.Load() > before) {
						t.Fatalf("asked %d times, failed %v, error %v", fetches.Load()-before, l.Failed, err)
					}
					got, cur = append(got, uids(l)...), l.Cursor
					now = now.Add(time.Minute * 10)
				}
				slices.Sort(got)
				wantUIDs(t, "taken", got, good)
				f := cur.Failures[bad.Load()]
				if !slices.Equal(cur.Owed, []uint32{bad.Load()}) || len(cur.Failures) != 1 || f.Tries < 9 || f.Tries > 20 || cur.Next != good[1]+1 {
					t.Errorf("cursor %+v", cur)
				}
				if !f.Since.Equal(noon) && !f.Since.Equal(noon.Add(10*time.Minute)) || f.Reason == "" {
					t.Errorf("failure %+v", f)
				}
				if cur.Complete.Before(now.Add(-time.Hour)) {
					t.Errorf("read to its end at %v, and it is %v", cur.Complete, now)
				}
				broken := bad.Swap(0)
				now = now.Add(6 * time.Hour)
				l := mustScan(t, b, cur, 10, discard)
				wantUIDs(t, "at last", uids(l), []uint32{broken})
				if len(l.Ended) != 1 || l.Ended[0].Key != cur.Key(broken) || l.Ended[0].Gone || len(l.Cursor.Owed)+len(l.Cursor.Failures) != 0 {
					t.Errorf("ended %+v, cursor %+v", l.Ended, l.Cursor)
				}
			})
		}
	}
}

// TestOutageBlamesNoMail checks that a temporary failure of the server does not count against any
// mail.
func TestOutageBlamesNoMail(t *testing.T) {
	var down atomic.Bool
	h, _ := memoryHost(t, mailtest.Options{OnFetch: func(net.Conn, imap.NumSet, *imap.FetchOptions) error {
		if down.Load() {
			return &imap.Error{Type: imap.StatusResponseTypeNo, Code: imap.ResponseCodeUnavailable, Text: "later"}
		}
		return nil
	}})
	uid := h.append(letter("@goulard3120 hello"), false)
	down.Store(true)
	cur := state.Cursor{}
	for range 5 {
		l, err := scan(t, mailboxOf(h), cur, 10, discard)
		if err == nil || len(l.Failed) != 0 {
			t.Fatalf("err %v, failed %v", err, l.Failed)
		}
		cur = l.Cursor
	}
	down.Store(false)
	wantUIDs(t, "at last", uids(mustScan(t, mailboxOf(h), cur, 10, discard)), []uint32{uid})
}

// operatorHeader is the shortest header of a mail that passes.
const operatorHeader = "From: operator@example.com\r\nSubject: @goulard3120\r\n\r\n"

// TestServerWithoutUIDNext checks servers that answer n:* with the last message, send no UIDNEXT, or
// report wrong sizes.
func TestServerWithoutUIDNext(t *testing.T) {
	const reply = "* 1 FETCH (UID %d FLAGS () RFC822.SIZE 9 INTERNALDATE \"05-Jan-2026 10:00:00 +0000\" BODY[HEADER.FIELDS (X)] {%d}\r\n%s)\r\n%s OK\r\n"
	for last, want := range map[int][]uint32{4: nil, 9: {9}} {
		addr := startServer(t, func(c net.Conn) {
			for tag, command := range commands(answerLogin(c, "")) {
				switch {
				case strings.HasPrefix(command, "UID FETCH 5:*"):
					fmt.Fprintf(c, reply, last, len(operatorHeader), operatorHeader, tag)
				case strings.HasPrefix(command, "UID FETCH"):
					sendBody(c, tag, last, operatorHeader)
				}
			}
		})
		cur := state.Cursor{Mailbox: plainMailbox(addr).ID(), Validity: 7, Next: 5}
		l := mustScan(t, plainMailbox(addr), cur, 10, discard)
		wantUIDs(t, fmt.Sprintf("last is %d", last), uids(l), want)
		if wantNext := uint32(max(5, last+1)); l.Cursor.Next != wantNext {
			t.Errorf("cursor at %d, want %d", l.Cursor.Next, wantNext)
		}
	}
}

// sendHeaders answers a FETCH with the same header for each of these UIDs.
func sendHeaders(c net.Conn, tag, header string, uids ...int) {
	for _, uid := range uids {
		fmt.Fprintf(c, "* %d FETCH (UID %d RFC822.SIZE 900 BODY[HEADER.FIELDS (X)] {%d}\r\n%s)\r\n", uid-4, uid, len(header), header)
	}
	io.WriteString(c, tag+" OK\r\n")
}

// sendBody answers a FETCH with the whole mail.
func sendBody(c net.Conn, tag string, uid int, raw string) {
	fmt.Fprintf(c, "* 1 FETCH (UID %d BODY[] {%d}\r\n%s)\r\n%s OK\r\n", uid, len(raw), raw, tag)
}

// TestTornBody checks that a truncated body is not stored as a whole one.
func TestTornBody(t *testing.T) {
	addr := startServer(t, func(c net.Conn) {
		for tag, command := range commands(answerLogin(c, "* OK [UIDNEXT 6] x\r\n")) {
			if strings.Contains(command, "HEADER") {
				sendHeaders(c, tag, operatorHeader, 5)
			} else if strings.HasPrefix(command, "UID FETCH") {
				io.WriteString(c, "* 1 FETCH (UID 5 BODY[] {900}\r\n"+operatorHeader)
				return
			}
		}
	})
	cur := state.Cursor{Mailbox: plainMailbox(addr).ID(), Validity: 7, Next: 5}
	stored := false
	l, err := scan(t, plainMailbox(addr), cur, 10, func(m *mail.Message, raw io.Reader) error {
		err := discard(m, raw)
		stored = err == nil
		return err
	})
	if err == nil || stored || len(l.Messages) != 0 {
		t.Errorf("a torn body was stored: err %v, messages %v", err, l.Messages)
	}
	if l.Cursor.Failures[5].Tries != 1 || len(l.Cursor.Owed) != 1 {
		t.Errorf("cursor %+v", l.Cursor)
	}
}

// TestBodiesOutOfOrder checks that bodies may arrive in any order. If the connection breaks among
// them, the cursor passes the stored mails and the others stay pending.
func TestBodiesOutOfOrder(t *testing.T) {
	addr := startServer(t, func(c net.Conn) {
		for tag, command := range commands(answerLogin(c, "* OK [UIDNEXT 8] x\r\n")) {
			if strings.Contains(command, "HEADER") {
				sendHeaders(c, tag, operatorHeader, 6, 5, 7)
			} else if strings.HasPrefix(command, "UID FETCH") {
				fmt.Fprintf(c, "* 3 FETCH (UID 7 BODY[] {%d}\r\n%[2]s)\r\n* 1 FETCH (UID 5 BODY[] {900}\r\n%[2]s", len(operatorHeader), operatorHeader)
				return
			}
		}
	})
	cur := state.Cursor{Mailbox: plainMailbox(addr).ID(), Validity: 7, Next: 5}
	l, err := scan(t, plainMailbox(addr), cur, 10, discard)
	if err == nil {
		t.Error("no error")
	}
	wantUIDs(t, "stored", uids(l), []uint32{7})
	wantUIDs(t, "owed", l.Cursor.Owed, []uint32{5, 6})
	if l.Cursor.Next != 8 || l.Cursor.Failures[5].Tries != 1 || l.Cursor.Failures[6].Tries != 0 {
		t.Errorf("cursor %+v", l.Cursor)
	}
}

// TestForeignMailIsNotFetched checks that only the headers of the operator's mails among many new
// mails are fetched.
func TestForeignMailIsNotFetched(t *testing.T) {
	tr := newTrace()
	h, _ := memoryHost(t, mailtest.Options{Trace: tr})
	storyForeign(t, h)
	if n := len(tr.String()); n > 10_000 { // two polls, with sixteen prefetched headers
		t.Errorf("%d bytes on the wire for one mail among 1,100", n)
	}
}

func storyBaseline(t *testing.T, h host) {
	h.append(letter("@goulard3120 old and read"), true)
	unread := h.append(letter("@goulard3120 old and unread"), false)
	h.append(letter("no callsign"), false)
	h.append(letter("@goulard3120 a stranger", "operator@example.com", "stranger@example.net"), false)

	got := mailsByUID{}
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
	wantUIDs(t, "second scan", uids(l), nil)

	other := l.Cursor
	other.Mailbox = "0123456789ab"
	l = mustScan(t, mailboxOf(h), other, 10, got.keep)
	wantUIDs(t, "another mailbox has its own baseline", uids(l), []uint32{unread})
}

func storyRead(t *testing.T, h host) {
	l := mustScan(t, mailboxOf(h), state.Cursor{}, 10, discard)
	read := h.append(letter("Re: @goulard3120"), true)
	h.append(letter("not for us"), false)
	l = mustScan(t, mailboxOf(h), l.Cursor, 10, discard)
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
		l := mustScan(t, mailboxOf(h), cur, 2, discard)
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
		l := mustScan(t, mailboxOf(h), cur, 2, discard)
		if n := len(l.Messages); n > 2 {
			t.Fatalf("took %d, the limit is 2", n)
		}
		got = append(got, uids(l)...)
		cur = l.Cursor
	}
	wantUIDs(t, "new mail, two at a time", got, all)

	h.append(letter("@goulard3120 one more"), false)
	l := mustScan(t, mailboxOf(h), cur, 0, discard)
	if len(l.Messages) != 0 || l.Cursor.Next != cur.Next || !l.Rest {
		t.Errorf("limit 0: took %v, rest %v, cursor %+v", uids(l), l.Rest, l.Cursor)
	}
}

// storyForgedAhead checks that rejected mail does not count against the limit of accepted mail.
func storyForgedAhead(t *testing.T, h host) {
	cur := mustScan(t, mailboxOf(h), state.Cursor{}, 2, discard).Cursor
	for range 60 {
		h.append(letter("@goulard3120 forged", "\r\n\r\nhello", "\r\nAuto-Submitted: auto-replied\r\n\r\nhello"), false)
	}
	first, second := h.append(letter("@goulard3120 first"), false), h.append(letter("@goulard3120 second"), false)
	h.append(letter("@goulard3120 third"), false)
	l := mustScan(t, mailboxOf(h), cur, 2, discard)
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

// storyLate checks that a scan starts no request after its time limit. The cursor stays before the
// remaining mail, and Rest is true.
func storyLate(t *testing.T, h host) {
	cur := mustScan(t, mailboxOf(h), state.Cursor{}, 9, discard).Cursor
	uid := h.append(letter("@goulard3120 in time"), false)
	late := mailboxOf(h)
	late.Until = time.Now().Add(-time.Second)
	if l := mustScan(t, late, cur, 9, discard); len(l.Messages) != 0 || !l.Rest || l.Cursor.Next > uid {
		t.Errorf("too late: took %v, rest %v, cursor %+v", uids(l), l.Rest, l.Cursor)
	}
	l := mustScan(t, mailboxOf(h), cur, 9, discard)
	if l.Rest {
		t.Error("Rest is true after a scan that saw everything")
	}
	wantUIDs(t, "the next scan", uids(l), []uint32{uid})
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
	l, err := s.Scan(t.Context(), state.Cursor{}, filter, 10, discard)
	if err != nil || s.UIDValidity() != l.Cursor.Validity {
		t.Fatalf("UIDValidity() = %d, cursor %d, %v", s.UIDValidity(), l.Cursor.Validity, err)
	}
	wantUIDs(t, "before marking", uids(mustScan(t, mailboxOf(h), state.Cursor{}, 10, discard)), []uint32{ours, late})
	s.Mark([]uint32{ours, 4_000_000}, nil)
	if err := s.Marked(t.Context()); err != nil {
		t.Fatal(err)
	}
	l = mustScan(t, mailboxOf(h), state.Cursor{}, 10, discard)
	wantUIDs(t, "after marking", uids(l), []uint32{late})

	// The marks of one request are independent, and \Answered never comes without \Seen.
	answered := h.append(letter("@goulard3120 three"), false)
	s, err = mailboxOf(h).Open(t.Context()) // it knows the new mail
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	s.Mark([]uint32{late, answered}, []uint32{answered, ours})
	if err := s.Marked(t.Context()); err != nil {
		t.Fatal(err)
	}
	wantUIDs(t, "after an answer", uids(mustScan(t, mailboxOf(h), state.Cursor{}, 10, discard)), nil)
	l.Cursor.Next, l.Cursor.Owed = 1, nil
	var marked []uint32
	for _, m := range mustScan(t, mailboxOf(h), l.Cursor, 10, discard).Messages {
		if m.Answered {
			marked = append(marked, m.UID)
		}
	}
	wantUIDs(t, "answered", marked, []uint32{ours, answered})
}

func storyRenumbered(t *testing.T, h host) {
	if h.renumber == nil {
		t.Skip("this server's mailboxes are not renumbered by hand")
	}
	h.append(letter("@goulard3120 taken"), false)
	l := mustScan(t, mailboxOf(h), state.Cursor{}, 10, discard)
	known := l.Messages[0]

	h.renumber()
	copied := h.append(letter("@goulard3120 taken"), true)
	l = mustScan(t, mail.Mailbox{Server: h.server, Name: "INBOX"}, l.Cursor, 10, discard)
	wantUIDs(t, "read mail since the last scan", uids(l), []uint32{copied})
	if l.Messages[0].Key == known.Key {
		t.Error("the copy has the key of the original")
	}
}

func storyRecovered(t *testing.T, h host) {
	read := h.append(letter("@goulard3120 read, maybe taken"), true)
	lost := state.Cursor{Complete: time.Now()}
	wantUIDs(t, "everything since the day before", uids(mustScan(t, mailboxOf(h), lost, 10, discard)), []uint32{read})
	lost.Complete = time.Now().Add(72 * time.Hour)
	wantUIDs(t, "nothing before the day before", uids(mustScan(t, mailboxOf(h), lost, 10, discard)), nil)
}

func storyTooBig(t *testing.T, h host) {
	big := letter("@goulard3120 big", "hello", strings.Repeat("x\r\n", 400_000))
	uid := h.append(big, false)
	got := mailsByUID{}
	l := mustScan(t, mailboxOf(h), state.Cursor{}, 10, got.keep)
	wantUIDs(t, "big mail", uids(l), []uint32{uid})
	if l.Messages[0].Gate != trust.GateSize {
		t.Errorf("gate %q, want %q", l.Messages[0].Gate, trust.GateSize)
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
	if len(l.Cursor.Failures) != 0 {
		t.Errorf("a full disk counted against the mail: %v", l.Cursor.Failures)
	}
	l = mustScan(t, mailboxOf(h), l.Cursor, 10, discard)
	wantUIDs(t, "with room again", uids(l), []uint32{second, third})
}

func storyForeign(t *testing.T, h host) {
	l := mustScan(t, mailboxOf(h), state.Cursor{}, 10, discard)
	foreign := letter("advertisement", "operator@example.com", "shop@example.net")
	for range 1100 {
		h.append(foreign, false)
	}
	ours := h.append(letter("@goulard3120 among many"), true)
	l = mustScan(t, mailboxOf(h), l.Cursor, 10, discard)
	wantUIDs(t, "the one of ours", uids(l), []uint32{ours})
	if l.Cursor.Next != ours+1 {
		t.Errorf("cursor at %d, want %d", l.Cursor.Next, ours+1)
	}
}

func storyBytes(t *testing.T, h host) {
	want := map[uint32]string{}
	for i := range 9 { // more than are prefetched
		raw := letter(fmt.Sprintf("@goulard3120 %d", i), "hello\r\n", strings.Repeat("line of text äöü\r\n", i*i*300))
		want[h.append(raw, false)] = raw
	}
	got := mailsByUID{}
	mustScan(t, mailboxOf(h), state.Cursor{}, 100, got.keep)
	for uid, raw := range want {
		if got[uid] != raw {
			t.Errorf("UID %d: %d bytes, want %d", uid, len(got[uid]), len(raw))
		}
	}

	// A keep that reads no bytes does not affect the next one.
	n := 0
	l := mustScan(t, mailboxOf(h), state.Cursor{}, 100, func(*mail.Message, io.Reader) error { n++; return nil })
	if n != len(want) || len(l.Messages) != len(want) {
		t.Errorf("passed %d of %d without reading", n, len(want))
	}
}
