package fleet

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"

	"agentstateloop/internal/testkit/limittest"
)

// TestLimits tries each limit of the server's clients and of its streams at its edge.
func TestLimits(t *testing.T) {
	x := func(n int64) string { return strings.Repeat("x", int(n)) }
	within := func(stream string, size int64) bool { // a stream's limit on one message
		i := slices.IndexFunc(Assets(1), func(a Asset) bool { return a.Stream.Name == stream })
		return size <= int64(Assets(1)[i].Stream.MaxSize)
	}
	limittest.Run(t, []limittest.Limit{
		{Const: "mailboxBody", Max: 66 << 10, Within: func(_ *testing.T, n int64) bool { return within(MailboxStream, n+4<<10) }},
		{Const: "blobChunk", Max: 256 << 10, Within: func(_ *testing.T, n int64) bool {
			return within(BlobStream, n+4<<10) && n+4<<10 <= MinPayload
		}},
		{Const: "headerRoom", Max: 4 << 10, Within: func(_ *testing.T, n int64) bool {
			return within(MailboxStream, 66<<10+n) && within(BlobStream, 256<<10+n)
		}},
		{Const: "MaxHead", Max: 1<<20 - 8<<10, Within: func(t *testing.T, n int64) bool {
			_, err := signingConn(t).signed(t.Context(), "", headLine("alice"), []byte(x(n)))
			return err == nil && within(HeadStream, n+4<<10) && within(HistoryStream, n+4<<10)
		}},
		{Const: "maxReplicas", Max: 3, Within: func(_ *testing.T, n int64) bool { return Replicas(int(n)) == int(n) }},
		{Const: "chunkSize", Max: 256 << 10, Within: func(_ *testing.T, n int64) bool {
			return chunks(0) == 1 && chunks(n) == 1 && chunks(n+256<<10) == 2
		}},
		{Const: "chunkSize", Max: 256 << 10, Within: func(_ *testing.T, n int64) bool { // published by another agent
			header := nats.Header{"Nats-Sequence": {"1"}, "Nats-Time-Stamp": {"2026-01-02T03:04:05Z"}}
			_, _, err := new(Blob).chunk(&flight{link: &link{}}, answer{Msg: &nats.Msg{Header: header, Data: []byte(x(n))}}, 1)
			return err == nil
		}},
		{Const: "loopbackRouteOffset", Max: 63_535, Within: func(_ *testing.T, n int64) bool { // the port of a server whose port for routes is the last
			_, err := parseServer(fmt.Sprint("127.0.0.1:", n))
			return err == nil
		}},
		{Const: "maxToken", Max: 63, Within: func(_ *testing.T, n int64) bool { return HostToken(x(n)) == x(n) }},
		{Const: "maxVersion", Max: 64, Within: func(_ *testing.T, n int64) bool {
			return Row{Body: []byte(`{"version":"` + x(n) + `"}`)}.Version() == x(n)
		}},
		{Const: "maxRings", Max: 64, Within: func(_ *testing.T, n int64) bool { return len(collectAll(ringMessages(n, "bob")).Rings) == int(n) }},
		{Const: "maxFrom", Max: 256, Within: func(_ *testing.T, n int64) bool { return collectAll(ringMessages(1, x(n))).Rings[0].From == x(n) }},
		{Const: "queued", Max: 1024, Within: func(_ *testing.T, n int64) bool { // HALT behind calls of the doorbell
			halt := &nats.Msg{Subject: haltSubject, Data: []byte(`{"halted":true}`)}
			return collectAll(append(ringMessages(n-1, "bob"), halt)).Halt.Halted
		}},
		{Const: "atOnce", Max: 8, Within: func(t *testing.T, n int64) bool { return concurrentCalls(t, n) == n }},

		// Times.
		limittest.Duration("tryTime", 5*time.Second, 2, func(t *testing.T, d time.Duration) (answered bool) {
			synctest.Test(t, func(t *testing.T) {
				c, l := unusedConn()
				answered = c.attempt(t.Context(), l, func(ctx context.Context, _ *link) error {
					select {
					case <-time.After(d - 1):
						return nil
					case <-ctx.Done():
						return ctx.Err()
					}
				}) == nil
			})
			return answered
		}),
		limittest.Duration("offerTime", 1500*time.Millisecond, 1, func(_ *testing.T, d time.Duration) bool { return d <= new(Conn).offerPatience() }),
		limittest.Duration("firstPause", 50*time.Millisecond, 1, func(t *testing.T, d time.Duration) bool {
			times := tryTimes(t)
			return times[1]-times[0] >= d
		}),
	})
}

// ringMessages returns n calls of the doorbell from an agent.
func ringMessages(n int64, from string) (rings []*nats.Msg) {
	for range n {
		rings = append(rings, &nats.Msg{Subject: wakeupSubject("alice"), Data: []byte(from)})
	}
	return rings
}

// collectAll returns the result of one read of so many messages.
func collectAll(messages []*nats.Msg) Heard {
	b := &bell{rings: make(chan *nats.Msg, len(messages))}
	for _, m := range messages[1:] {
		b.rings <- m
	}
	return new(Conn).collect(b, messages[0])
}

// TestRingsAreNotLost checks that the calls of the doorbell stay that are too many for one read.
func TestRingsAreNotLost(t *testing.T) {
	b := &bell{rings: make(chan *nats.Msg, queued+1)}
	for _, m := range ringMessages(queued+1, "bob") {
		b.rings <- m
	}
	new(Conn).collect(b, ringMessages(1, "bob")[0])
	if len(b.rings) != 2 {
		t.Errorf("%d calls are left, want 2", len(b.rings))
	}
}

// concurrentCalls returns the number of requests for n mailboxes before an answer comes.
func concurrentCalls(t *testing.T, n int64) (calls int64) {
	synctest.Test(t, func(t *testing.T) {
		began, answer := make(chan bool, n), make(chan bool)
		c := creation{Wanted: Wanted{Check: true}, ask: func(context.Context, string, []byte) ([]byte, error) {
			began <- true
			<-answer
			return []byte(`{"config":{}}`), nil
		}}
		var handles []string
		for i := range n {
			handles = append(handles, fmt.Sprint("agent", i))
		}
		go func() {
			synctest.Wait()
			calls = int64(len(began))
			close(answer)
		}()
		if err := c.mailboxes(t.Context(), handles); err != nil || len(c.changes) != int(n) {
			t.Errorf("%d mailboxes: %d made, %v", n, len(c.changes), err)
		}
	})
	return calls
}

// signingConn returns a connection that can sign.
func signingConn(t *testing.T) *Conn {
	seed, _ := newKey(t)
	return &Conn{Handle: "alice", Seed: func(context.Context) (string, error) { return seed, nil }}
}

// unusedConn returns a connection without a server.
func unusedConn() (*Conn, *link) {
	l := &link{nc: new(nats.Conn)}
	return &Conn{link: l}, l
}

// tryTimes returns the times of the tries of a call that a server answers with a temporary error, and
// the time of its end.
func tryTimes(t *testing.T) (times []time.Duration) {
	synctest.Test(t, func(t *testing.T) {
		c, _ := unusedConn()
		began := time.Now()
		err := c.do(t.Context(), func(context.Context, *link) error {
			times = append(times, time.Since(began))
			return lostError("n1", 409, errInvalidAnswer)
		})
		if !errors.Is(err, errInvalidAnswer) {
			t.Error(err)
		}
		times = append(times, time.Since(began))
	})
	return times
}

// TestRetryPauses checks that the pauses grow between the tries of a call with a temporary error, and
// the time of its end.
func TestRetryPauses(t *testing.T) {
	times := tryTimes(t)
	if last := times[len(times)-1]; last != 30*time.Second {
		t.Errorf("a call was given up after %v", last)
	}
	n := 0
	limittest.Pauses(t, func() time.Duration { n++; return times[n] - times[n-1] }, 50*time.Millisecond, 100*time.Millisecond, 200*time.Millisecond,
		400*time.Millisecond, 800*time.Millisecond, time.Second, time.Second)
	for i, at := range times[6 : len(times)-1] {
		if i > 0 && at-times[i+5] != time.Second {
			t.Errorf("pause %d is %v", i+6, at-times[i+5])
		}
	}
}
