package mail

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/emersion/go-imap/v2"
	"github.com/emersion/go-imap/v2/imapclient"

	"agentstateloop/internal/testkit/limittest"
	"agentstateloop/internal/testkit/mailtest"
	"agentstateloop/mail/message"
	"agentstateloop/mail/trust"
	"agentstateloop/state"
)

// arrivalTime is when a mail of these tests came.
var arrivalTime = time.Date(2026, 1, 5, 10, 0, 0, 0, time.UTC)

// silent returns a connection that delivers no bytes.
func silent(t *testing.T) *boundedConn {
	ours, theirs := net.Pipe()
	t.Cleanup(func() { ours.Close(); theirs.Close() })
	paced := newPacedConn(ours)
	return newBoundedConn(paced, paced)
}

// bytewise is a connection that delivers one byte per read and records the written bytes.
type bytewise struct {
	net.Conn
	r      io.Reader
	writes []int
}

func (c *bytewise) Read(p []byte) (int, error) { return c.r.Read(p[:1]) }
func (c *bytewise) Write(p []byte) (int, error) {
	c.writes = append(c.writes, len(p))
	return len(p), nil
}

func (c *bytewise) SetWriteDeadline(time.Time) error { return nil }

// literalOf is a literal with an announced length and no content.
type literalOf int64

func (l literalOf) Size() int64              { return int64(l) }
func (l literalOf) Read([]byte) (int, error) { return 0, io.EOF }

// scannerFor returns a scan of a mailbox whose server never responds.
func scannerFor(t *testing.T, f trust.Filter, now time.Time) *scanner {
	s := &Session{conn: silent(t), anonymous: new(atomic.Bool), mailbox: Mailbox{Now: func() time.Time { return now }}}
	return s.scanner(t.Context(), state.Cursor{}, f, 10, func(_ *Message, raw io.Reader) error {
		_, err := io.Copy(io.Discard, raw)
		return err
	})
}

// folder is a store of tokens.
type folder string

func (f folder) Path(name string) string             { return filepath.Join(string(f), name) }
func (f folder) Keep(name string, r io.Reader) error { return errors.ErrUnsupported }

// idleTime returns how long a watch waits before it sends another command.
func idleTime(t *testing.T, noIdle bool) (d time.Duration) {
	synctest.Test(t, func(t *testing.T) {
		ours, theirs := net.Pipe()
		go func() {
			io.WriteString(theirs, "* PREAUTH [CAPABILITY IMAP4rev1 IDLE] ready\r\n")
			r, began := bufio.NewReader(theirs), time.Now()
			for {
				line, err := r.ReadString('\n')
				if err != nil {
					return
				}
				tag, command, _ := strings.Cut(strings.TrimSpace(line), " ")
				switch {
				case command == "IDLE":
					io.WriteString(theirs, "+ idleTime\r\n")
				case tag == "DONE":
					d = time.Since(began)
					io.WriteString(theirs, "T1 OK done\r\n")
				default:
					d = time.Since(began)
					fmt.Fprintf(theirs, "%s OK done\r\n", tag)
				}
			}
		}()
		paced := newPacedConn(ours)
		conn := newBoundedConn(paced, paced)
		w := &Watch{Session: &Session{conn: conn, client: imapclient.New(conn, nil)}, news: make(chan struct{}, 1), noIdle: noIdle}
		err := w.client.WaitGreeting()
		if err == nil && noIdle {
			err = w.noop(t.Context())
		} else if err == nil {
			err = w.idle(t.Context())
		}
		if err != nil {
			t.Error(err)
		}
		conn.Close()
		theirs.Close()
	})
	return d
}

func TestLimits(t *testing.T) {
	x := func(n int64) string { return strings.Repeat("x", int(n)) }
	f := trust.Filter{Handle: "agent", Operators: []string{"op@example.com"}, Own: "agent@example.org", Require: trust.RequireDMARC, Verify: trust.VerifyDKIM, Resolver: "127.0.0.1:1"}
	limittest.Run(t, []limittest.Limit{
		{Const: "maxSentMails", Max: 5000, Within: func(t *testing.T, n int64) bool {
			return sentFolder(t, n, "").missing(t) == ""
		}},
		{Const: "maxElsewhere", Max: 50, Within: func(t *testing.T, n int64) bool {
			found, err := sentFolder(t, n, "").open(t).SentElsewhere(t.Context(), "goulard3120", "fedcba9876543210", time.Time{})
			return err == nil && len(found) == int(n)
		}},
		{Const: "maxSentHeader", Max: 32 << 10, Within: func(t *testing.T, n int64) bool { // the last byte of the last field
			answers, err := sentFolder(t, 1, strings.Repeat("x", int(n))).open(t).Answered(t.Context(), "goulard3120", time.Time{})
			return err == nil && answers.To("<one@example.com>")
		}},
		limittest.Duration("sentWithin", 20*time.Second, 1, func(_ *testing.T, d time.Duration) bool {
			return !sentUntil(arrivalTime).Before(arrivalTime.Add(d))
		}),
		// Connections.
		{Const: "maxAnswer", Max: 64 << 10, Within: func(t *testing.T, n int64) bool {
			c := newBoundedConn(&bytewise{r: strings.NewReader(x(n))}, nil)
			_, err := io.ReadFull(c, make([]byte, n))
			return err == nil
		}},
		{Const: "minRate", Max: 8192, Within: func(_ *testing.T, n int64) bool { return timeFor(n) <= time.Second }},
		{Const: "mailAnswer", Max: 8192, Within: func(t *testing.T, n int64) bool {
			c := silent(t)
			c.paced.in.left = 0
			c.nextMail()
			return timeFor(n) <= c.paced.in.left
		}},
		{Const: "writePiece", Max: 8192, Within: func(_ *testing.T, n int64) bool {
			under := &bytewise{}
			c := &pacedConn{Conn: under, out: pace{set: under.SetWriteDeadline}}
			_, err := c.Write([]byte(x(n)))
			return err == nil && slices.Equal(under.writes, []int{int(n)})
		}},
		limittest.Duration("maxUnderWay", 10*time.Minute, time.Second, func(_ *testing.T, d time.Duration) bool {
			return underWay(int64(d/time.Second)*8192) == d
		}),
		limittest.Duration("idleFor", 8*time.Minute+30*time.Second, 1, func(t *testing.T, d time.Duration) bool { return idleTime(t, false) >= d }),
		limittest.Duration("noopEvery", 20*time.Second, 1, func(t *testing.T, d time.Duration) bool { return idleTime(t, true) >= d }),
		{Const: "maxLoginLine", Max: 64 << 10, Within: func(_ *testing.T, n int64) bool {
			line, err := readLine(bufio.NewReader(strings.NewReader(x(n-2) + "\r\n")))
			return err == nil && line == x(n-2)
		}},
		{Const: "maxQuoted", Max: 1000, Within: func(_ *testing.T, n int64) bool { return quotable(x(n)) }},

		// Tokens.
		limittest.Duration("renewBefore", 5*time.Minute, 1, func(_ *testing.T, d time.Duration) bool { // a token of an hour is renewed
			g := grant{Access: "token", Got: arrivalTime, Expiry: arrivalTime.Add(time.Hour)}
			return !g.fresh(g.Expiry.Add(-d))
		}),
		{Const: "maxGrant", Max: 1 << 20, Within: func(t *testing.T, n int64) bool {
			o := OAuth{Store: folder(t.TempDir()), Name: "imap"}
			saved, err := json.Marshal(grant{From: o.load("refresh").From, Access: "token"})
			if err == nil {
				err = os.WriteFile(o.Store.Path("imap.json"), []byte(string(saved)+strings.Repeat(" ", int(n)-len(saved))), 0o600)
			}
			if err != nil {
				t.Fatal(err)
			}
			return o.load("refresh").Access == "token"
		}},

		// The proof of a mail.
		limittest.Duration("maxUnverified", 24*time.Hour-1, 1, func(t *testing.T, d time.Duration) bool {
			raw := mailtest.Signature("example.com", "from", "to", "date", "subject") + "\r\nFrom: op@example.com\r\nTo: agent@example.org\r\nDate: " +
				arrivalTime.Format(time.RFC1123Z) + "\r\nSubject: @agent hello\r\n\r\n"
			head := f.JudgeHeader([]byte(raw), message.ParseHeader([]byte(raw)), int64(len(raw)), arrivalTime)
			if head.Gate != "" {
				t.Fatalf("%+v", head)
			}
			sc := scannerFor(t, f, arrivalTime.Add(d))
			_, err := sc.judge.proveBody(sc.ctx, &Message{At: arrivalTime}, head, strings.NewReader(raw+"hello\r\n"), sc.keep)
			_, waits := errors.AsType[*trust.UnprovenError](err)
			return waits
		}),

		// A scan.
		{Const: "maxFound", Max: 1 << 18, Within: func(t *testing.T, n int64) bool {
			uids, more, err := foundUIDs(imap.UIDSet{{Start: 1, Stop: imap.UID(n)}}, uint32(n))
			return err == nil && !more && len(uids) == int(n)
		}},
		{Const: "maxAhead", Max: 16, Within: func(t *testing.T, n int64) bool {
			sc := scannerFor(t, f, arrivalTime)
			sc.ahead.first = 7
			_, came := sc.newAhead(7, uint32(7+n))
			return came
		}},
		{Const: "maxAhead", Max: 16, Within: func(_ *testing.T, n int64) bool { // no header is prefetched this close to the last UID
			var m Mailbox
			return !m.inOrder(state.Cursor{Mailbox: m.ID(), Next: math.MaxUint32 - uint32(n)})
		}},
		{Const: "maxAgain", Max: 100, Within: func(_ *testing.T, n int64) bool {
			var m Mailbox
			return m.inOrder(state.Cursor{Mailbox: m.ID(), Next: 1000, Unseen: state.UIDRanges{{First: 1, Last: uint32(n)}}})
		}},
		{Const: "maxBeyond", Max: 100, Within: func(t *testing.T, n int64) bool {
			sc := scannerFor(t, f, arrivalTime)
			for range n {
				sc.count(&Message{})
			}
			return len(sc.out.Beyond) == int(n) && sc.out.Further == nil
		}},
		{Const: "largeMail", Max: 1 << 20, Within: func(t *testing.T, n int64) bool {
			return !scannerFor(t, f, arrivalTime).leftToFetchLarge(&head{size: n})
		}},
		{Const: "maxLiteral", Max: 256 << 20, Within: func(t *testing.T, n int64) bool {
			_, err := scannerFor(t, f, arrivalTime).literal(1, literalOf(n), 0)
			return err == nil
		}},
		{Const: "maxLiteral", Max: 256 << 20, Within: func(t *testing.T, n int64) bool { // if the gate has no limit
			sc := scannerFor(t, f, arrivalTime)
			sc.apart = true
			return sc.bytesToAllow(n) == n
		}},
		limittest.Duration("rereadAll", 13*24*time.Hour, 1, func(_ *testing.T, d time.Duration) bool {
			failing := map[uint32]state.Failure{1: {After: arrivalTime.Add(-d)}}
			return !sinceComplete(state.Cursor{Complete: arrivalTime, Owed: []uint32{1}, Failures: failing}).Unread
		}),
		{Const: "sweepDays", Max: 7, Within: func(_ *testing.T, n int64) bool {
			return !arrivalTime.AddDate(0, 0, -int(n)).Before(sweepSearch(2, arrivalTime).Since)
		}},
		{Const: "maxSwept", Max: 500, Within: func(_ *testing.T, n int64) bool { return len(newest(make([]uint32, n))) == int(n) }},

		// Delivery reports.
		{Const: "maxReports", Max: 100, Within: func(t *testing.T, n int64) bool {
			sc := scannerFor(t, f, arrivalTime)
			for i := range n {
				sc.noteReport(&head{uid: uint32(i + 1)}, false)
			}
			return len(sc.out.Cursor.Reports) == int(n)
		}},
		{Const: "maxReportTries", Max: 2, Within: func(t *testing.T, n int64) bool { // it is retried after this many failures
			sc := scannerFor(t, f, arrivalTime)
			sc.out.Cursor.Reports = []state.UnreadReport{{UID: 1}}
			sc.conn.Close()
			sc.client = imapclient.New(sc.conn, nil)
			for range n {
				if err := sc.takeReports(); err == nil {
					t.Fatal("a report was read over a closed connection")
				}
			}
			return len(sc.out.Cursor.Reports) == 1
		}},
	})
}

// TestMaxSize tries the operator's limit on a mail at its edge.
func TestMaxSize(t *testing.T) {
	f := trust.Filter{MaxSize: 1000}
	sc := &scanner{judge: &Judge{Filter: f}, apart: true}
	for _, n := range []int64{999, 1000, 1001} {
		if big, whole := sc.tooBig(n), sc.bytesToAllow(n) == n; big != (n > 1000) || whole == big {
			t.Errorf("%d bytes: too big %v, read to the end %v", n, big, whole)
		}
	}
}

// sentMailbox is a mailbox with a folder for sent mail.
type sentMailbox Mailbox

// sentFolder returns a mailbox whose folder for sent mail has n mails of ours. With a padding, its
// length is that of the fields that are read, without the end of their last line.
func sentFolder(t *testing.T, n int64, padding string) sentMailbox {
	t.Helper()
	s := mailtest.StartMemory(t, mailtest.Options{})
	if err := s.Create("Sent"); err != nil {
		t.Fatal(err)
	}
	for i := range n {
		head := fmt.Sprintf("X-AgentStateLoop: goulard3120\r\nX-AgentStateLoop-Place: 0123456789abcdef\r\nMessage-ID: <reply.t%d.%s.goulard3120@example.org>\r\n", i, strings.Repeat("a", 32))
		const last = "In-Reply-To: <one@example.com>"
		if padding != "" {
			const name, end = "References: ", "\r\n"
			head += name + padding[len(head)+len(name)+len(end)+len(last):] + end
		}
		if _, err := s.AppendTo("Sent", []byte(head+last+"\r\nSubject: hello\r\n\r\nhello\r\n"), arrivalTime); err != nil {
			t.Fatal(err)
		}
	}
	return sentMailbox{Sent: "Sent", Server: Server{
		Addr: s.IMAP, TLS: TLSNone, Username: s.Username, Timeout: time.Minute, Secret: func(context.Context) (string, error) { return s.Password, nil },
	}}
}

func (m sentMailbox) open(t *testing.T) *Session {
	t.Helper()
	s, err := Mailbox(m).Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// missing returns why the answers in the folder are not all read.
func (m sentMailbox) missing(t *testing.T) string {
	t.Helper()
	answers, err := m.open(t).Answered(t.Context(), "goulard3120", time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	return answers.Missing
}
