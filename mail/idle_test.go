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

	"agentstateloop/internal/testkit/mailtest"
	"agentstateloop/state"
)

// storyWatch checks that each new mail ends one Wait, and that a watch is a normal session
// otherwise.
func storyWatch(t *testing.T, h host) {
	w, err := mailboxOf(h).Watch(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	if _, err := w.Scan(t.Context(), state.Cursor{}, filter, 10, discard); err != nil {
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

func TestWatchReportsNewMail(t *testing.T) {
	h, _ := memoryHost(t, mailtest.Options{})
	storyWatch(t, h)
}

// loginAnswers are the answers to login and SELECT of an empty mailbox.
const loginAnswers = "* OK ready\r\nL1 OK in\r\n* 0 EXISTS\r\n* OK [UIDVALIDITY 7] x\r\n* OK [UIDNEXT 3] x\r\nT1 OK selected\r\n"

// serveSelected answers login and SELECT, and then calls next.
func serveSelected(t *testing.T, next func(c net.Conn, br *bufio.Reader)) string {
	return startServer(t, func(c net.Conn) {
		br := bufio.NewReader(c)
		for range 3 { // LOGIN, ID, SELECT
			br.ReadString('\n')
		}
		io.WriteString(c, loginAnswers)
		next(c, br)
	})
}

// TestWatchWithoutIdle checks that a server that refuses IDLE is polled instead, and that news in
// its refusal counts.
func TestWatchWithoutIdle(t *testing.T) {
	addr := serveSelected(t, func(c net.Conn, br *bufio.Reader) {
		line, _ := br.ReadString('\n')
		tag, command, _ := strings.Cut(strings.TrimSpace(line), " ")
		if command != "IDLE" {
			t.Errorf("got %q, want IDLE", line)
		}
		fmt.Fprintf(c, "%s BAD unknown command\r\n* 1 EXISTS\r\n", tag)
		for tag := range commands(br) {
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
		t.Error("the watch still relies on IDLE")
	}
}

// TestWatchLosesNothing checks that a watch reports news between SELECT and IDLE, and an error if
// the server closes the connection.
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

// TestWatchRefused checks that a refused login is a credential failure, as with Open.
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
	storyWatch(t, dovecotHost(t, mailtest.StartDovecot(t)))
}
