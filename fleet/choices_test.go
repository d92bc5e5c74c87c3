package fleet

import (
	"context"
	"errors"
	"net"
	"slices"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
)

// TestConflictingSources checks which of two values counts in an answer, a delivery or an error that has
// both.
func TestConflictingSources(t *testing.T) {
	// The server writes its headers after those of the sender, which may have the same names.
	m := &nats.Msg{Data: []byte(`{"halted":true}`), Header: nats.Header{
		"Nats-Sequence": {"1", "7"}, "Nats-Time-Stamp": {"2026-01-02T03:04:05Z", "2026-01-02T03:04:06Z"},
		"Nats-Subject": {whoSubject("mallory"), whoSubject("alice")}, headerAt: {"2026-01-02T03:04:04Z"},
	}}
	at := time.Date(2026, 1, 2, 3, 4, 6, 0, time.UTC)
	f := &flight{link: &link{}}
	if h, err := f.readHalt(answer{Msg: m}); err != nil || h.sequence != 7 || !h.Stored.Equal(at) {
		t.Errorf("HALT: %+v, %v", h, err)
	}
	if _, c, err := new(Blob).chunk(f, answer{Msg: m}, 1); err != nil || c.sequence != 7 || !c.stored.Equal(at) {
		t.Errorf("a chunk: %+v, %v", c, err)
	}
	if r, ok := rowOf(m); !ok || r.Handle != "alice" || !r.Stored.Equal(at) || !r.At.Equal(at.Add(-2*time.Second)) {
		t.Errorf("a row: %+v", r)
	}
	for _, tt := range []struct {
		sequence string
		lags     bool
	}{{"7", false}, {"6", true}, {"6", true}, {"8", false}} {
		m.Header["Nats-Sequence"] = []string{tt.sequence}
		if _, err := f.readHalt(answer{Msg: m}); lost(err) != tt.lags {
			t.Errorf("HALT number %s: %v", tt.sequence, err)
		}
	}
	for status, unset := range map[int]bool{404: true, 400: false} {
		if h, err := (&flight{link: &link{}}).readHalt(answer{Msg: m, status: status}); h.Unset != unset || (err == nil) != unset {
			t.Errorf("HALT of status %d: %+v, %v", status, h, err)
		}
	}

	// A status header counts unless a stream stores the message, because then the sender wrote it.
	for stream, want := range map[string]int{"": 503, MailboxStream: 0} {
		header := nats.Header{"Status": {"503"}}
		if stream != "" {
			header["Nats-Stream"] = []string{stream}
		}
		if a, err := answerOf(&nats.Msg{Header: header}); err != nil || a.status != want {
			t.Errorf("a message of %q: status %d, %v", stream, a.status, err)
		}
	}

	// The subject names the sender of a message, and the newest delivery is acknowledged.
	c := &Conn{Handle: "alice"}
	i := c.item(&nats.Msg{Subject: mailboxSubject("alice", "bob"), Reply: "$JS.ACK.ASL_BOX.alice.1.7.3.1000000500.0", Header: nats.Header{headerID: {"m"}}})
	if i.To != "alice" || i.From != "bob" || i.ID != "m" || i.sequence != 7 {
		t.Errorf("an item: %+v", i)
	}
	var taken Taken
	for _, reply := range []string{"old", "new"} {
		i.reply = reply
		taken.add(i)
	}
	if len(taken.Items) != 1 || taken.Items[0].reply != "new" {
		t.Errorf("two deliveries of one message: %+v", taken.Items)
	}
}

// TestExplicitChoiceWins checks that the operator's choice counts of the timeout of a call, and of the
// size of a stream.
func TestExplicitChoiceWins(t *testing.T) {
	c := &Conn{Timeout: 4 * time.Second}
	if c.timeout() != 4*time.Second || c.patience() != 2*time.Second {
		t.Errorf("a call has %v, and a try of it %v", c.timeout(), c.patience())
	}
	for _, tt := range []struct {
		field      string
		have, want float64
		agree      bool
	}{{"max_bytes", 5, 6, true}, {"max_bytes", -1, 6, false}, {"max_bytes", 5, -1, false}, {"max_age", 5, 6, false}, {"max_age", 6, 6, true}} {
		if agrees(tt.field, tt.have, tt.want) != tt.agree {
			t.Errorf("%+v", tt)
		}
	}
	for copies, left := range map[float64]bool{1: true, 5: false} {
		if (assetInfo{}).reasonToLeave(difference{"num_replicas", float64(3), copies}) != "" != left {
			t.Errorf("three copies, and %v are wanted", copies)
		}
	}
}

// TestPullEnds checks the number of messages of a pull of ten, after two of them have come.
func TestPullEnds(t *testing.T) {
	f := &flight{link: &link{}}
	for _, tt := range []struct {
		status  int
		pending string
		some    bool
		want    int
		lost    bool
	}{
		{100, "3", false, 10, false}, {404, "3", false, 2, false}, {408, "3", false, 7, false}, {409, "3", false, 7, false},
		{408, "", false, 2, false}, {408, "10", false, 2, false}, {409, "", true, 2, false}, {409, "", false, 0, true}, {409, "11", true, 2, false}, {409, "-1", true, 2, false},
	} {
		a := answer{Msg: &nats.Msg{Header: nats.Header{"Nats-Pending-Messages": {"99", tt.pending}}}, status: tt.status}
		if got, err := f.pullTotal(a, 10, 2, tt.some); got != tt.want || lost(err) != tt.lost {
			t.Errorf("%+v: %d, %v", tt, got, err)
		}
	}
}

// TestErrorPrecedence checks the error of a call with two errors.
func TestErrorPrecedence(t *testing.T) {
	lostLink, gaveUp := errors.New("the link"), errors.New("the caller gave up")
	ctx, giveUp := context.WithCancelCause(t.Context())
	c := new(Conn)
	if err := c.callerError(ctx, lostLink); err != lostLink {
		t.Errorf("of a caller that waits: %v", err)
	}
	giveUp(gaveUp)
	if err := c.callerError(ctx, lostLink); !errors.Is(err, gaveUp) {
		t.Errorf("of a caller that gave up: %v", err)
	}
	f := &flight{link: &link{broken: lostLink}, answers: make(chan *nats.Msg, 1)}
	f.ctx, f.cancel = context.WithCancelCause(t.Context())
	f.cancel(nil)
	if err := f.cause(f.ctx.Err()); err != lostLink {
		t.Errorf("of a call whose link broke: %v", err)
	}
	f.ctx, f.cancel = context.WithCancelCause(t.Context())
	right := &Error{Denied: true, Err: errors.New("a right")}
	f.cancel(right)
	if err := f.cause(f.ctx.Err()); err != error(right) {
		t.Errorf("of a call without a right: %v", err)
	}
	f.answers <- &nats.Msg{Subject: "x"}
	if m, err := f.message(); err != nil || m.Subject != "x" {
		t.Errorf("a message that came before the end of the call: %v", err)
	}
}

// TestRingsDoNotHideHalt checks that calls of the doorbell do not hide a HALT, and that a HALT counts
// until another one comes.
func TestRingsDoNotHideHalt(t *testing.T) {
	b := &bell{rings: make(chan *nats.Msg, 2*queued), halt: make(chan *nats.Msg, 1)}
	for _, m := range ringMessages(2*queued, "bob") {
		b.rings <- m
	}
	b.halt <- &nats.Msg{Subject: haltSubject, Data: []byte(`{"halted":true}`)}
	for range 2 {
		if h := new(Conn).collect(b, <-b.rings); !h.Halt.Halted || len(h.Rings) == 0 {
			t.Errorf("%+v", h.Halt)
		}
	}
}

// TestFailedServerIsTriedLast checks the order of servers.
func TestFailedServerIsTriedLast(t *testing.T) {
	first := map[string]bool{}
	for range 50 {
		var tried []string
		c := &Conn{
			URL: "nats://127.0.0.1:1,127.0.0.1:2,127.0.0.1:3", failedServer: "127.0.0.1:2",
			Seed: newSeed(t),
			Dial: func(_ context.Context, _, address string) (net.Conn, error) {
				tried = append(tried, address)
				return nil, errors.New("away")
			},
		}
		if err := c.Ring(t.Context(), "bob"); err == nil {
			t.Fatal("no server answered")
		}
		if tried = slices.Compact(tried); len(tried) != 3 || tried[2] != c.failedServer {
			t.Fatalf("asked: %q", tried)
		}
		first[tried[0]] = true
	}
	if len(first) != 2 {
		t.Errorf("the first is always one of %v", first)
	}
}
