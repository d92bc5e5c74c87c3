package mail_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"agentstateloop/internal/testkit/mailtest"
	"agentstateloop/mail"
	"agentstateloop/state"
)

// longLetter returns a mail from the operator of about size bytes.
func longLetter(subject string, size int) string {
	line := strings.Repeat("0123456789", 7) + "\r\n"
	return letter(subject) + strings.Repeat(line, size/len(line))
}

// startSlow starts a line to the server at addr on which size bytes take three times the timeout.
func startSlow(t *testing.T, addr string, size int, timeout time.Duration) *mailtest.SlowLine {
	return mailtest.StartSlowLine(t, addr, int(float64(size)/(3*timeout).Seconds()))
}

// storySlowLine checks that a mail comes in whole although it takes far longer than the timeout, with
// each kind of connection.
func storySlowLine(t *testing.T, h host) {
	raw := longLetter("@goulard3120 hello", 300<<10)
	uid := h.append(raw, false)
	withGrowingTimeout(t, func(timeout time.Duration) bool {
		var slow atomic.Bool
		var fetching sync.WaitGroup
		for _, way := range []string{mail.TLSImplicit, mail.TLSStart, mail.TLSNone} {
			b := mailboxOf(h)
			if b.TLS = way; way != mail.TLSImplicit {
				b.Addr = h.plain
			}
			b.Addr, b.Timeout = startSlow(t, b.Addr, len(raw), timeout).Addr, timeout
			fetching.Go(func() {
				mails := mailsByUID{}
				if _, err := tryScan(t.Context(), b, filter, mails.keep); err != nil {
					slow.Store(true)
				} else if mails[uid] != raw {
					t.Errorf("%s: %d bytes came in, not %d", way, len(mails[uid]), len(raw))
				}
			})
		}
		fetching.Wait()
		return !slow.Load()
	})
}

// TestDrippingServers checks that a server that sends single bytes for ever, or stops in the middle,
// does not block a scan.
func TestDrippingServers(t *testing.T) {
	t.Parallel()
	for name, l := range map[string]struct{ at, begin string }{
		"a search": {"search", "* SEARCH"},
		"a header": {"header", "* 1 FETCH (UID 5 RFC822.SIZE 60 BODY[HEADER] {5000}\r\n"},
		"a body":   {"body", "* 1 FETCH (UID 5 BODY[] {5000}\r\n"},
		"words":    {"body", "* OK "},
	} {
		for _, drips := range []int{10, 5000} {
			t.Run(fmt.Sprintf("%s of %d", name, drips), func(t *testing.T) {
				t.Parallel()
				withGrowingTimeout(t, func(timeout time.Duration) bool {
					requests := make(chan bool, 1)
					b := plainMailbox(lyingServer(t, lie{l.at, func(w io.Writer, _ string) {
						requests <- true
						io.WriteString(w, l.begin)
						drip(w, drips, timeout/4)
					}}))
					b.Timeout = timeout
					s, err := b.Open(t.Context())
					if err != nil {
						return false
					}
					defer s.Close()
					got, err := s.Scan(t.Context(), state.Cursor{Mailbox: b.ID(), Validity: 7, Next: 3}, filter, 10, discard)
					if err == nil || len(got.Messages) > 0 {
						t.Errorf("error %v, %d mails came in", err, len(got.Messages))
					}
					return len(requests) > 0
				})
			})
		}
	}
}

// drip sends n bytes with a pause before each, and then waits until the peer hangs up.
func drip(w io.Writer, n int, pause time.Duration) {
	tick := time.NewTicker(pause)
	defer tick.Stop()
	for range n {
		<-tick.C
		if _, err := io.WriteString(w, "1"); err != nil {
			return
		}
	}
	io.Copy(io.Discard, w.(net.Conn))
}

// TestSlowDelivery checks that a sender waits until a long mail has arrived over a slow line.
func TestSlowDelivery(t *testing.T) {
	t.Parallel()
	server, s := startSink(t, mailtest.Options{})
	raw := longLetter("an answer", 300<<10)
	withGrowingTimeout(t, func(timeout time.Duration) bool {
		server.Addr, server.Timeout = startSlow(t, s.SMTPTLS, len(raw), timeout).Addr, timeout
		c, err := server.OpenSender(t.Context())
		if err != nil {
			return false
		}
		defer c.Close()
		return c.Send(t.Context(), "a@example.org", []string{"b@example.com"}, strings.NewReader(raw), nil) == nil
	})
	if sent := s.Sent(); len(sent) == 0 || len(sent[0].Raw) != len(raw) {
		t.Errorf("%d mails arrived", len(sent))
	}
}

// TestServerStopsReading checks that a delivery ends before the dot if the server stops reading.
func TestServerStopsReading(t *testing.T) {
	t.Parallel()
	stop := make(chan struct{})
	defer close(stop)
	addr := startServer(t, func(c net.Conn) {
		c.(*net.TCPConn).SetReadBuffer(4 << 10)
		br := bufio.NewReader(c)
		io.WriteString(c, "220 hi\r\n")
		for {
			line, err := br.ReadString('\n')
			switch {
			case err != nil:
				return
			case strings.HasPrefix(line, "DATA"):
				io.WriteString(c, "354 go on\r\n")
				<-stop
				return
			default:
				io.WriteString(c, "250 fine\r\n")
			}
		}
	})
	c, err := mail.Server{Addr: addr, TLS: mail.TLSNone, Timeout: time.Second}.OpenSender(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	err = c.Send(t.Context(), "a@example.org", []string{"b@example.com"}, strings.NewReader(longLetter("x", 32<<20)), func() error {
		t.Error("all of it was written")
		return nil
	})
	if failure, ok := err.(*mail.SendError); !ok || failure.Verdict != mail.Temporary {
		t.Errorf("got %v", err)
	}
}
