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
)

// watchStory checks that each new mail ends one Wait, and that a watch is a normal session
// otherwise.
func watchStory(t *testing.T, h host) {
	w, err := mailboxOf(h).Watch(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	if _, err := w.Scan(t.Context(), state.Cursor{}, filter, 10, shelf{}.keep); err != nil {
		t.Fatal(err)
	}
	for n := range 3 {
		h.append(letter(fmt.Sprintf("@goulard3120 number %d", n)), false)
		if err := w.Wait(t.Context()); err != nil {
			t.Fatalf("mail %d: %v", n, err)
		}
	}
	if !w.Idles() {
		t.Error("the server did not take IDLE")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := w.Wait(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("canceled: %v", err)
	}
}

func TestWatch(t *testing.T) {
	h, _ := memoryHost(t, mailtest.Options{})
	watchStory(t, h)
}

// serveSelected answers login and SELECT, and then calls next.
func serveSelected(t *testing.T, next func(c net.Conn, br *bufio.Reader)) string {
	return scripted(t, func(c net.Conn) {
		br := bufio.NewReader(c)
		for range 3 { // LOGIN, ID, SELECT
			br.ReadString('\n')
		}
		io.WriteString(c, "* OK ready\r\nL1 OK in\r\n* 0 EXISTS\r\n* OK [UIDVALIDITY 7] x\r\n* OK [UIDNEXT 3] x\r\nT1 OK selected\r\n")
		next(c, br)
	})
}

// A server that refuses IDLE is polled instead, and its response counts.
func TestWatchWithoutIdle(t *testing.T) {
	addr := serveSelected(t, func(c net.Conn, br *bufio.Reader) {
		line, _ := br.ReadString('\n')
		tag, command, _ := strings.Cut(strings.TrimSpace(line), " ")
		if command != "IDLE" {
			t.Errorf("got %q, want IDLE", line)
		}
		fmt.Fprintf(c, "%s BAD unknown command\r\n* 1 EXISTS\r\n", tag)
		for {
			line, err := br.ReadString('\n')
			if err != nil {
				return
			}
			tag, _, _ := strings.Cut(line, " ")
			fmt.Fprintf(c, "%s OK done\r\n", tag)
		}
	})
	w, err := plainMailbox(addr).Watch(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	if w.UIDNext() != 3 {
		t.Errorf("UIDNext() = %d", w.UIDNext())
	}
	if err := w.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	if w.Idles() {
		t.Error("it goes on to believe that the server knows IDLE")
	}
}

// News between SELECT and IDLE are reported as well, and a server that closes
// the connection is an error.
func TestWatchLosesNothing(t *testing.T) {
	addr := serveSelected(t, func(c net.Conn, br *bufio.Reader) {
		line, _ := br.ReadString('\n')
		tag, _, _ := strings.Cut(line, " ")
		io.WriteString(c, "* 1 EXISTS\r\n+ idling\r\n")
		br.ReadString('\n') // DONE
		fmt.Fprintf(c, "%s OK done\r\n", tag)
		br.ReadString('\n')
		io.WriteString(c, "+ idling\r\n* BYE going down\r\n")
	})
	w, err := plainMailbox(addr).Watch(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	if err := w.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := w.Wait(t.Context()); err == nil {
		t.Error("no error, although the server has closed the connection")
	}
}

// A refused login is a credential failure, as with Open.
func TestWatchRefused(t *testing.T) {
	h, s := memoryHost(t, mailtest.Options{})
	s.SetPassword("another")
	_, err := mailboxOf(h).Watch(t.Context())
	if refused, ok := state.CredentialFailure(err); !ok || refused.Name != "imap" {
		t.Errorf("Watch: %v", err)
	}
}

func TestWatchDovecot(t *testing.T) {
	t.Parallel()
	d := mailtest.StartDovecot(t)
	watchStory(t, host{
		server: mail.Server{
			Addr: d.IMAPTLS, TLS: mail.TLSImplicit, Username: d.Username, Secret: fixedSecret(d.Password),
			CAFile: d.CAFile, Timeout: time.Minute,
		},
		append: func(raw string, seen bool) uint32 {
			t.Helper()
			if err := d.Append([]byte(raw), seen); err != nil {
				t.Fatal(err)
			}
			return 0
		},
	})
}
