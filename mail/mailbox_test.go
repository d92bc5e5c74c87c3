package mail_test

import (
	"bufio"
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

	"agentstateloop/mail"
	"agentstateloop/mail/mailtest"
	"agentstateloop/state"

	"github.com/emersion/go-imap/v2"
)

type mailFlag = imap.Flag

const flagSeen = imap.FlagSeen

func TestMemory(t *testing.T) {
	runStories(t, func(t *testing.T) host {
		h, _ := memoryHost(t, mailtest.Options{})
		return h
	})
}

// An empty poll sends login, SELECT and LOGOUT, and nothing more.
func TestEmptyPollAsksNothing(t *testing.T) {
	tr := newTrace()
	h, _ := memoryHost(t, mailtest.Options{Trace: tr})
	h.append(letter("@goulard3120 known"), true)
	l := mustScan(t, mailboxOf(h), state.Cursor{}, 10, shelf{}.keep)
	before := len(tr.String())
	mustScan(t, mailboxOf(h), l.Cursor, 10, shelf{}.keep)
	for line := range strings.Lines(tr.String()[before:]) {
		tag, rest, _ := strings.Cut(line, " ")
		command, _, _ := strings.Cut(strings.TrimSpace(rest), " ")
		if !strings.HasPrefix(tag, "T") && !strings.HasPrefix(tag, "L") || strings.HasPrefix(rest, "OK") {
			continue
		}
		switch command {
		case "LOGIN", "SELECT", "LOGOUT":
		default:
			t.Errorf("an empty poll sent %q", line)
		}
	}
}

// Login and SELECT leave before the server said a word.
func TestOneFlight(t *testing.T) {
	addr := scripted(t, func(c net.Conn) {
		br := bufio.NewReader(c)
		for _, want := range []string{"LOGIN", "SELECT"} {
			line, err := br.ReadString('\n')
			if err != nil || !strings.Contains(line, want) {
				t.Errorf("got %q, %v; want %s", line, err, want)
				return
			}
		}
		io.WriteString(c, "* OK ready\r\nL1 OK in\r\n* 0 EXISTS\r\n* OK [UIDVALIDITY 7] x\r\n* OK [UIDNEXT 3] x\r\nT1 OK selected\r\n")
		io.Copy(io.Discard, br)
	})
	s, err := plainMailbox(addr).Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if s.UIDValidity() != 7 {
		t.Errorf("Validity() = %d", s.UIDValidity())
	}
}

func TestTokens(t *testing.T) {
	h, _ := memoryHost(t, mailtest.Options{Token: "ya29.token"})
	uid := h.append(letter("@goulard3120 hello"), false)
	for _, auth := range []string{mail.AuthXOAuth2, mail.AuthOAuthBearer} {
		b := mailboxOf(h)
		b.Auth, b.Secret = auth, fixedSecret("ya29.token")
		wantUIDs(t, auth, uids(mustScan(t, b, state.Cursor{}, 10, shelf{}.keep)), []uint32{uid})

		for _, wrong := range []string{"expired", "two words"} {
			b.Secret = fixedSecret(wrong)
			_, err := b.Open(t.Context())
			if c, ok := state.CredentialFailure(err); !ok || c.Name != "imap" {
				t.Errorf("%s with a refused token: %v, want a failure of the credential imap", auth, err)
			}
		}
	}
}

func TestOddPasswords(t *testing.T) {
	for _, password := range []string{`quote " and \ slash`, "Grüße ☕", "  blanks ", "%d{3}\r\nX"} {
		h, _ := memoryHost(t, mailtest.Options{Password: password})
		s, err := mailboxOf(h).Open(t.Context())
		if err != nil {
			t.Errorf("password %q: %v", password, err)
			continue
		}
		s.Close()
	}
}

// What a server says at login, and whether that is the credential's fault.
func TestLoginAnswers(t *testing.T) {
	for _, tt := range []struct {
		says       string
		credential bool
	}{
		{"* OK hi\r\nL1 NO [AUTHENTICATIONFAILED] Invalid credentials (Failure)\r\nT1 BAD select first\r\n", true},
		{"* OK hi\r\nL1 NO [ALERT] Application-specific password required\r\n", true},
		{"* OK hi\r\nL1 NO LOGIN failed.\r\n", true},
		{"* OK hi\r\n* BYE Too many login failures\r\n", true},
		{"* OK hi\r\nL1 NO [UNAVAILABLE] later\r\n", false},
		{"* OK hi\r\nL1 NO [ALERT] Too many simultaneous connections. (Failure)\r\n", false},
		{"* OK hi\r\nL1 NO [PRIVACYREQUIRED] not in clear\r\n", false},
		{"* OK hi\r\nL1 BAD what\r\n", false},
		{"* OK hi\r\n* BYE Server shutting down.\r\n", false},
		{"* BYE [ALERT] too many connections\r\n", false},
		{"* OK hi\r\n", false},
		{"", false},
		{"HTTP/1.1 400 Bad Request\r\n", false},
		{"* OK hi\r\nL1 OK in\r\nT1 NO [NONEXISTENT] no such mailbox\r\n", false},
		{"* OK hi\r\nL1 OK in\r\n* 1 EXISTS\r\nT1 OK no uidvalidity\r\n", false},
		{strings.Repeat("x", 200_000), false},
	} {
		addr := scripted(t, func(c net.Conn) {
			br := bufio.NewReader(c)
			br.ReadString('\n')
			br.ReadString('\n')
			io.WriteString(c, tt.says)
		})
		s, err := plainMailbox(addr).Open(t.Context())
		if err == nil {
			s.Close()
			t.Errorf("%.60q: no error", tt.says)
			continue
		}
		if _, ok := state.CredentialFailure(err); ok != tt.credential {
			t.Errorf("%.60q: credential failure %v, want %v: %v", tt.says, ok, tt.credential, err)
		}
	}
}

// A server that repeats what it was sent does not bring the secret into a log.
func TestSecretIsNotEchoed(t *testing.T) {
	addr := scripted(t, func(c net.Conn) {
		line, _ := bufio.NewReader(c).ReadString('\n')
		fmt.Fprintf(c, "* OK hi\r\nL1 NO cannot %s\r\n", strings.TrimSpace(line))
	})
	b := plainMailbox(addr)
	for _, s := range []string{"hunter2", `hun"ter\2`, "hünter2"} {
		b.Secret = fixedSecret(s)
		_, err := b.Open(t.Context())
		if err == nil || strings.Contains(err.Error(), "nter") {
			t.Errorf("error with the secret %q: %v", s, err)
		}
	}
}

func TestUnreadableSecret(t *testing.T) {
	h, _ := memoryHost(t, mailtest.Options{})
	b := mailboxOf(h)
	missing := errors.New("no such file")
	b.Secret = func(context.Context) (string, error) { return "", missing }
	_, err := b.Open(t.Context())
	if _, ok := state.CredentialFailure(err); !ok || !errors.Is(err, missing) {
		t.Errorf("got %v", err)
	}
}

func TestClearTextOnlyOnLoopback(t *testing.T) {
	b := plainMailbox("192.0.2.1:143") // TEST-NET, never there
	_, err := b.Open(t.Context())
	if err == nil || !strings.Contains(err.Error(), "loopback") {
		t.Errorf("got %v", err)
	}
}

// A server that accepts and says nothing costs one timeout; a context that
// ends, less.
func TestSilentServer(t *testing.T) {
	silent := scripted(t, func(c net.Conn) { io.Copy(io.Discard, c) })
	for _, way := range []string{mail.TLSNone, mail.TLSImplicit, mail.TLSStart} {
		b := plainMailbox(silent)
		b.TLS, b.Timeout = way, 50*time.Millisecond
		_, err := b.Open(t.Context())
		var timeout net.Error
		if !errors.As(err, &timeout) || !timeout.Timeout() {
			if !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%s: %v, want a timeout", way, err)
			}
		}
		if _, ok := state.CredentialFailure(err); ok {
			t.Errorf("%s: silence was taken for a refused secret", way)
		}
		ctx, cancel := context.WithCancelCause(t.Context())
		enough := errors.New("enough")
		cancel(enough)
		if _, err := b.Open(ctx); !errors.Is(err, enough) && !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v, want the context's reason", way, err)
		}
	}
}

// A server that stalls in the middle of a look does not hold it.
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
	if _, err := scan(t, b, state.Cursor{}, 10, shelf{}.keep); err == nil {
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
	l, err := s.Scan(ctx, state.Cursor{}, filter, 10, shelf{}.keep)
	if !errors.Is(err, context.Canceled) || len(l.Cursor.Tries) != 0 {
		t.Errorf("got %v, tries %v", err, l.Cursor.Tries)
	}
}

// bodyRequest says whether a FETCH asks for bodies, and for whose.
func bodyRequest(set imap.NumSet, o *imap.FetchOptions) (imap.UIDSet, bool) {
	return set.(imap.UIDSet), len(o.BodySection) == 1 && o.BodySection[0].Specifier == imap.PartSpecifierNone
}

// A mail whose body the server cannot give is tried three times and given up;
// the others are not held up.
func TestBrokenMail(t *testing.T) {
	for name, fault := range map[string]func(net.Conn) error{
		"refused": func(net.Conn) error {
			return &imap.Error{Type: imap.StatusResponseTypeNo, Code: imap.ResponseCodeServerBug, Text: "corrupt"}
		},
		"hung up": func(c net.Conn) error { c.Close(); return nil },
	} {
		for _, atHeader := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, header %v", name, atHeader), func(t *testing.T) {
				var bad atomic.Uint32
				h, _ := memoryHost(t, mailtest.Options{OnFetch: func(c net.Conn, set imap.NumSet, o *imap.FetchOptions) error {
					uids, body := bodyRequest(set, o)
					if body != atHeader && uids.Contains(imap.UID(bad.Load())) {
						return fault(c)
					}
					return nil
				}})
				l := mustScan(t, mailboxOf(h), state.Cursor{}, 10, shelf{}.keep)
				var good []uint32
				good = append(good, h.append(letter("@goulard3120 before"), false))
				bad.Store(h.append(letter("@goulard3120 broken"), false))
				good = append(good, h.append(letter("@goulard3120 behind"), false))

				var got, failed []uint32
				cur := l.Cursor
				looks := 0
				for ; len(failed) == 0; looks++ {
					if looks > 10 {
						t.Fatalf("still not given up: %+v", cur)
					}
					l, err := scan(t, mailboxOf(h), cur, 10, shelf{}.keep)
					t.Logf("look %d: %v %+v %v", looks, uids(l), l.Cursor, err)
					got, failed, cur = append(got, uids(l)...), append(failed, l.Failed...), l.Cursor
				}
				slices.Sort(got)
				wantUIDs(t, "taken", got, good)
				wantUIDs(t, "failed", failed, []uint32{bad.Load()})
				if len(cur.Owed) != 0 || len(cur.Tries) != 0 || cur.Next != good[1]+1 {
					t.Errorf("cursor %+v", cur)
				}
			})
		}
	}
}

// A server that is out of order for a while costs no mail.
func TestUnavailableCountsAgainstNoMail(t *testing.T) {
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
		l, err := scan(t, mailboxOf(h), cur, 10, shelf{}.keep)
		if err == nil || len(l.Failed) != 0 {
			t.Fatalf("err %v, failed %v", err, l.Failed)
		}
		cur = l.Cursor
	}
	down.Store(false)
	wantUIDs(t, "at last", uids(mustScan(t, mailboxOf(h), cur, 10, shelf{}.keep)), []uint32{uid})
}

// Mail that is expunged while it is owed is owed no longer.
func TestVanishedMail(t *testing.T) {
	h, _ := memoryHost(t, mailtest.Options{})
	there := h.append(letter("@goulard3120 hello"), false)
	l := mustScan(t, mailboxOf(h), state.Cursor{}, 0, shelf{}.keep)
	wantUIDs(t, "owed", l.Cursor.Owed, []uint32{there})
	l.Cursor.Owed = append(l.Cursor.Owed, 77)
	l.Cursor.Next = 100
	h.append(letter("x"), false)
	s, err := mailboxOf(h).Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	l.Cursor.Next = 3
	l, err = s.Scan(t.Context(), l.Cursor, filter, 10, shelf{}.keep)
	if err != nil || len(l.Cursor.Owed) != 0 || len(l.Failed) != 0 {
		t.Errorf("cursor %+v, failed %v, err %v", l.Cursor, l.Failed, err)
	}
	wantUIDs(t, "taken", uids(l), []uint32{there})
}

// A server that answers n:* with the last message, sends no UIDNEXT, or
// mistakes sizes.
func TestServerWithoutUIDNext(t *testing.T) {
	head := "From: operator@example.com\r\nSubject: @goulard3120\r\n\r\n"
	reply := func(uid int) string {
		return fmt.Sprintf("* 1 FETCH (UID %d FLAGS () RFC822.SIZE 9 INTERNALDATE \"05-Jan-2026 10:00:00 +0000\" BODY[HEADER.FIELDS (X)] {%d}\r\n%s)\r\n", uid, len(head), head)
	}
	for last, want := range map[int][]uint32{4: nil, 9: {9}} {
		addr := scripted(t, func(c net.Conn) {
			br := openWithSecret(c, "")
			for {
				line, err := br.ReadString('\n')
				if err != nil {
					return
				}
				tag, rest, _ := strings.Cut(line, " ")
				switch {
				case strings.HasPrefix(rest, "UID FETCH 5:*"):
					io.WriteString(c, reply(last)+tag+" OK\r\n")
				case strings.HasPrefix(rest, "UID FETCH"):
					fmt.Fprintf(c, "* 1 FETCH (UID %d BODY[] {%d}\r\n%s)\r\n%s OK\r\n", last, len(head), head, tag)
				}
			}
		})
		cur := state.Cursor{Mailbox: plainMailbox(addr).ID(), Validity: 7, Next: 5}
		l := mustScan(t, plainMailbox(addr), cur, 10, shelf{}.keep)
		wantUIDs(t, fmt.Sprintf("last is %d", last), uids(l), want)
		if wantNext := uint32(max(5, last+1)); l.Cursor.Next != wantNext {
			t.Errorf("cursor at %d, want %d", l.Cursor.Next, wantNext)
		}
	}
}

// A body that is cut off is not kept as a whole one.
func TestTornBody(t *testing.T) {
	head := "From: operator@example.com\r\nSubject: @goulard3120\r\n\r\n"
	addr := scripted(t, func(c net.Conn) {
		br := openWithSecret(c, "* OK [UIDNEXT 6] x\r\n")
		for {
			line, err := br.ReadString('\n')
			if err != nil {
				return
			}
			tag, rest, _ := strings.Cut(line, " ")
			if strings.Contains(rest, "HEADER") {
				fmt.Fprintf(c, "* 1 FETCH (UID 5 RFC822.SIZE 900 BODY[HEADER.FIELDS (X)] {%d}\r\n%s)\r\n%s OK\r\n", len(head), head, tag)
			} else if strings.HasPrefix(rest, "UID FETCH") {
				fmt.Fprintf(c, "* 1 FETCH (UID 5 BODY[] {900}\r\n%s", head)
				return
			}
		}
	})
	cur := state.Cursor{Mailbox: plainMailbox(addr).ID(), Validity: 7, Next: 5}
	kept := false
	l, err := scan(t, plainMailbox(addr), cur, 10, func(m *mail.Message, raw io.Reader) error {
		_, err := io.ReadAll(raw)
		kept = err == nil
		return err
	})
	if err == nil || kept || len(l.Messages) != 0 {
		t.Errorf("a torn body was kept: err %v, messages %v", err, l.Messages)
	}
	if l.Cursor.Tries[5] != 1 || len(l.Cursor.Owed) != 1 {
		t.Errorf("cursor %+v", l.Cursor)
	}
}

// Bodies may come in any order. When the connection breaks among them, what was
// kept is passed, and what was not is owed.
func TestBodiesOutOfOrder(t *testing.T) {
	head := "From: operator@example.com\r\nSubject: @goulard3120\r\n\r\n"
	addr := scripted(t, func(c net.Conn) {
		br := openWithSecret(c, "* OK [UIDNEXT 8] x\r\n")
		for {
			line, err := br.ReadString('\n')
			if err != nil {
				return
			}
			tag, rest, _ := strings.Cut(line, " ")
			if strings.Contains(rest, "HEADER") {
				for _, uid := range []int{6, 5, 7} {
					fmt.Fprintf(c, "* %d FETCH (UID %d RFC822.SIZE 900 BODY[HEADER.FIELDS (X)] {%d}\r\n%s)\r\n", uid-4, uid, len(head), head)
				}
				io.WriteString(c, tag+" OK\r\n")
			} else if strings.HasPrefix(rest, "UID FETCH") {
				fmt.Fprintf(c, "* 3 FETCH (UID 7 BODY[] {%d}\r\n%s)\r\n* 1 FETCH (UID 5 BODY[] {900}\r\n%s", len(head), head, head)
				return
			}
		}
	})
	cur := state.Cursor{Mailbox: plainMailbox(addr).ID(), Validity: 7, Next: 5}
	l, err := scan(t, plainMailbox(addr), cur, 10, shelf{}.keep)
	if err == nil {
		t.Error("no error")
	}
	wantUIDs(t, "kept", uids(l), []uint32{7})
	wantUIDs(t, "owed", l.Cursor.Owed, []uint32{5, 6})
	if l.Cursor.Next != 8 || l.Cursor.Tries[5] != 1 || l.Cursor.Tries[6] != 0 {
		t.Errorf("cursor %+v", l.Cursor)
	}
}

// Of many new mails only the headers of the operator's are fetched.
func TestForeignMailIsNotFetched(t *testing.T) {
	tr := newTrace()
	h, _ := memoryHost(t, mailtest.Options{Trace: tr})
	l := mustScan(t, mailboxOf(h), state.Cursor{}, 10, shelf{}.keep)
	foreign := letter("advertisement", "operator@example.com", "shop@example.net")
	for range 1100 {
		h.append(foreign, false)
	}
	ours := h.append(letter("@goulard3120 among many"), true)
	before := len(tr.String())
	wantUIDs(t, "ours", uids(mustScan(t, mailboxOf(h), l.Cursor, 10, shelf{}.keep)), []uint32{ours})
	if n := len(tr.String()) - before; n > 5000 {
		t.Errorf("%d bytes on the wire for one mail among 1,100", n)
	}
}

// scripted serves every connection with talk, then hangs up.
func scripted(t testing.TB, talk func(net.Conn)) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ln.Close() })
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				talk(c)
			}()
		}
	}()
	return ln.Addr().String()
}

// openWithSecret reads login and SELECT from c and answers both.
func openWithSecret(c net.Conn, selected string) *bufio.Reader {
	br := bufio.NewReader(c)
	br.ReadString('\n')
	br.ReadString('\n')
	io.WriteString(c, "* OK hi\r\nL1 OK in\r\n* OK [UIDVALIDITY 7] x\r\n"+selected+"T1 OK\r\n")
	return br
}

func plainMailbox(addr string) mail.Mailbox {
	return mail.Mailbox{Server: mail.Server{
		Addr: addr, TLS: mail.TLSNone, Username: "agent", Secret: fixedSecret("hunter2"), Timeout: time.Minute,
	}}
}
