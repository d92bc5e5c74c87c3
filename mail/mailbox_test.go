package mail_test

import (
	"bufio"
	"context"
	"errors"
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

func TestClearTextOnlyOnLoopback(t *testing.T) {
	b := plainMailbox("192.0.2.1:143") // TEST-NET, never reachable
	_, err := b.Open(t.Context())
	if err == nil || !strings.Contains(err.Error(), "loopback") {
		t.Errorf("got %v", err)
	}
}

// TestSilentServer checks that a server that accepts and never answers costs one timeout, or less if
// the context ends.
func TestSilentServer(t *testing.T) {
	silent := startServer(t, func(c net.Conn) { io.Copy(io.Discard, c) })
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

// startServer starts a server that calls talk for every connection and then closes it.
func startServer(t testing.TB, talk func(net.Conn)) string { return mailtest.Listen(t, talk) }

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
		wantUIDs(t, way, uids(mustScan(t, b, state.Cursor{}, 10, discard)), []uint32{uid})
	}
}
