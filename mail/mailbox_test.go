package mail_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"agentstateloop/internal/testkit/mailtest"
	"agentstateloop/mail"
	"agentstateloop/state"

	"github.com/emersion/go-imap/v2"
)

type mailFlag = imap.Flag

const flagSeen = imap.FlagSeen

func TestMemoryServer(t *testing.T) {
	t.Parallel()
	runStories(t, func(t *testing.T) host {
		h, _ := memoryHost(t, mailtest.Options{})
		return h
	})
}

// An empty poll sends login, SELECT and LOGOUT, and asks for the headers of new mail, of which
// there is none.
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
			if strings.HasPrefix(rest, fmt.Sprintf("UID FETCH %d:", l.Cursor.Next)) {
				continue
			}
			t.Errorf("an empty poll sent %q", line)
		}
	}
}

func TestClearTextOnlyOnLoopback(t *testing.T) {
	b := plainMailbox("192.0.2.1:143") // TEST-NET, never reachable
	_, err := b.Open(t.Context())
	if err == nil || !strings.Contains(err.Error(), "loopback") {
		t.Errorf("got %v", err)
	}
}

// A server that accepts and never answers costs one timeout. If the context
// ends, it costs less.
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

// scripted calls talk for every connection and then closes it.
func scripted(t testing.TB, talk func(net.Conn)) string { return mailtest.Listen(t, talk) }

// answerLogin reads login and SELECT from c and answers both.
func answerLogin(c net.Conn, selected string) *bufio.Reader {
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
