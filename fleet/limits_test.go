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

// TestLimits checks each limit of the clients and streams at its boundary.
func TestLimits(t *testing.T) {
	x := func(n int64) string { return strings.Repeat("x", int(n)) }
	within := func(stream string, size int64) bool { // a stream's limit on one message
		i := slices.IndexFunc(Assets(1), func(a Asset) bool { return a.Stream.Name == stream })
		return size <= int64(Assets(1)[i].Stream.MaxSize)
	}
	limittest.Run(t, []limittest.Limit{
		{Const: "boxBody", Max: 66 << 10, Within: func(_ *testing.T, n int64) bool { return within(BoxStream, n+4<<10) }},
		{Const: "blobChunk", Max: 256 << 10, Within: func(_ *testing.T, n int64) bool {
			return within(BlobStream, n+4<<10) && n+4<<10 <= MinPayload
		}},
		{Const: "headerRoom", Max: 4 << 10, Within: func(_ *testing.T, n int64) bool {
			return within(BoxStream, 66<<10+n) && within(BlobStream, 256<<10+n)
		}},
		{Const: "maxReplicas", Max: 3, Within: func(_ *testing.T, n int64) bool { return Replicas(int(n)) == int(n) }},
		{Const: "chunkSize", Max: 256 << 10, Within: func(_ *testing.T, n int64) bool { return chunks(n) == 1 && chunks(n+256<<10) == 2 }},
		{Const: "chunkSize", Max: 256 << 10, Within: func(_ *testing.T, n int64) bool { // published by another agent
			header := nats.Header{"Nats-Sequence": {"1"}, "Nats-Time-Stamp": {"2026-01-02T03:04:05Z"}}
			_, _, err := new(Blob).chunk(&flight{link: &link{}}, answer{Msg: &nats.Msg{Header: header, Data: []byte(x(n))}}, 1)
			return err == nil
		}},
		{Const: "besideOnLoopback", Max: 63_535, Within: func(_ *testing.T, n int64) bool { // the port of a server whose port for routes is the last
			_, err := parseServer(fmt.Sprint("127.0.0.1:", n))
			return err == nil
		}},
		{Const: "maxToken", Max: 63, Within: func(_ *testing.T, n int64) bool { return HostToken(x(n)) == x(n) }},
		{Const: "maxRings", Max: 64, Within: func(_ *testing.T, n int64) bool { return len(hearAll(ringing(n, "bob")).Rings) == int(n) }},
		{Const: "maxFrom", Max: 256, Within: func(_ *testing.T, n int64) bool { return hearAll(ringing(1, x(n))).Rings[0].From == x(n) }},
		{Const: "queued", Max: 1024, Within: func(_ *testing.T, n int64) bool { // HALT after rings
			halt := &nats.Msg{Subject: haltSubject, Data: []byte(`{"halted":true}`)}
			return hearAll(append(ringing(n-1, "bob"), halt)).Halt.Halted
		}},
		{Const: "atOnce", Max: 8, Within: func(t *testing.T, n int64) bool { return madeAtOnce(t, n) == n }},

		// Times.
		limittest.Duration("tryTime", 5*time.Second, 2, func(t *testing.T, d time.Duration) (answered bool) {
			synctest.Test(t, func(t *testing.T) {
				c, l := connected()
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
		limittest.Duration("firstPause", 50*time.Millisecond, 1, func(t *testing.T, d time.Duration) bool {
			times := tries(t)
			return times[1]-times[0] >= d
		}),
	})
}

// ringing returns n rings from an agent.
func ringing(n int64, from string) (rings []*nats.Msg) {
	for range n {
		rings = append(rings, &nats.Msg{Subject: wakeupSubject("alice"), Data: []byte(from)})
	}
	return rings
}

// hearAll returns the result of one hear of all these messages.
func hearAll(messages []*nats.Msg) Heard {
	b := &bell{rung: make(chan *nats.Msg, len(messages))}
	for _, m := range messages[1:] {
		b.rung <- m
	}
	return new(Conn).hear(b, messages[0])
}

// TestExcessRingsStay checks that rings beyond the limit of one hear are not lost.
func TestExcessRingsStay(t *testing.T) {
	b := &bell{rung: make(chan *nats.Msg, queued+1)}
	for _, m := range ringing(queued+1, "bob") {
		b.rung <- m
	}
	new(Conn).hear(b, ringing(1, "bob")[0])
	if len(b.rung) != 2 {
		t.Errorf("%d calls are left, want 2", len(b.rung))
	}
}

// madeAtOnce returns how many of n mailboxes are requested before the first response.
func madeAtOnce(t *testing.T, n int64) (asked int64) {
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
			asked = int64(len(began))
			close(answer)
		}()
		if err := c.mailboxes(t.Context(), handles); err != nil || len(c.changes) != int(n) {
			t.Errorf("%d mailboxes: %d made, %v", n, len(c.changes), err)
		}
	})
	return asked
}

// connected returns a connection that is never used.
func connected() (*Conn, *link) {
	l := &link{nc: new(nats.Conn)}
	return &Conn{link: l}, l
}

// tries returns the times at which a call is tried if a server answers with a temporary error.
func tries(t *testing.T) (times []time.Duration) {
	synctest.Test(t, func(t *testing.T) {
		c, _ := connected()
		began := time.Now()
		err := c.do(t.Context(), func(context.Context, *link) error {
			times = append(times, time.Since(began))
			return lostError("n1", 409, errStrange)
		})
		if !errors.Is(err, errStrange) {
			t.Error(err)
		}
		times = append(times, time.Since(began)) // gave up
	})
	return times
}

// TestRetryPauses checks that the pauses between the tries of a failing call grow, and when it
// gives up.
func TestRetryPauses(t *testing.T) {
	times := tries(t)
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
