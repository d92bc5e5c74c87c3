package natsmesh

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"agentstateloop/fleet"
	"agentstateloop/internal/testkit/limittest"
	"agentstateloop/mesh"
)

// noon is the time of a test.
var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// unconnected returns a client that reaches no server.
func unconnected(t *testing.T) *Client {
	t.Helper()
	seed, _, err := fleet.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	return &Client{
		URL: "nats://127.0.0.1:4222", Handle: "alice", Host: "alpha",
		Seed: func(context.Context) (string, error) { return seed, nil },
		Dial: func(context.Context, string, string) (net.Conn, error) { return nil, errors.New("no server") },
	}
}

// before returns the last moment before d has passed.
func before(d time.Duration) time.Duration { return d - 1 }

// TestLimits tries each limit of the mesh over NATS at its edge.
func TestLimits(t *testing.T) {
	away := func(rows ...fleet.Row) mesh.Presence { return keyring{}.agents(rows, noon)[0] }
	limittest.Run(t, []limittest.Limit{
		limittest.Duration("onlineFor", before(35*time.Minute), 1, func(_ *testing.T, d time.Duration) bool {
			return !away(fleet.Row{Handle: "bob", Stored: noon.Add(-d)}).Away
		}),
		limittest.Duration("onlineFor", before(35*time.Minute), 1, func(_ *testing.T, d time.Duration) bool {
			return !away(fleet.Row{Handle: "bob", Host: "alpha", Stored: noon.Add(-d)}).Hosts[0].Away
		}),
		limittest.Duration("pendingFor", 10*time.Minute, 1, func(t *testing.T, d time.Duration) (known bool) {
			synctest.Test(t, func(t *testing.T) {
				c := unconnected(t)
				c.pending = map[string]*pending{"m": {shownAt: time.Now().Add(-d)}}
				if _, err := c.show(t.Context(), fleet.Taken{}); err != nil {
					t.Fatal(err)
				}
				known = c.pending["m"] != nil
			})
			return known
		}),
		{Const: "maxFiles", Max: 1024, Within: func(t *testing.T, n int64) bool {
			c := new(Client)
			for i := range n {
				c.remember(fileOf{"bob", fmt.Sprint(i)}, &fleet.Blob{})
			}
			return len(c.files) == int(n)
		}},
		limittest.Duration("maxLate", 7*24*time.Hour, 1, func(_ *testing.T, d time.Duration) bool { return inTime(noon, noon.Add(d)) }),
		limittest.Duration("maxEarly", 24*time.Hour, 1, func(_ *testing.T, d time.Duration) bool { return inTime(noon, noon.Add(-d)) }),
	})
}

// TestLimitsOfPackageMesh tries the limits here whose constants are in package mesh.
func TestLimitsOfPackageMesh(t *testing.T) {
	x := func(n int64) string { return strings.Repeat("x", int(n)) }
	shown := func(t *testing.T, sizes ...int64) int {
		var taken fleet.Taken
		for i, size := range sizes {
			const rest = `{"id":"12345678","message":""}`
			body := fmt.Sprintf(`{"id":"%8d","message":"%s"}`, i, x(size-int64(len(rest))))
			taken.Items = append(taken.Items, fleet.Item{From: "bob", Body: []byte(body)})
		}
		box, err := unconnected(t).show(t.Context(), taken)
		if err != nil {
			t.Fatal(err)
		}
		return len(box.Messages)
	}
	for name, l := range map[string]limittest.Limit{
		"messages of a mailbox": {Max: 200, Within: func(t *testing.T, n int64) bool {
			sizes := make([]int64, n)
			for i := range sizes {
				sizes[i] = 100
			}
			return shown(t, sizes...) == int(n)
		}},
		"bytes of a mailbox": {Max: 4 << 20, Within: func(t *testing.T, n int64) bool {
			sizes := make([]int64, 128)
			for i := range sizes {
				sizes[i] = 32 << 10
			}
			sizes[0] += n - 4<<20
			return shown(t, sizes...) == len(sizes)
		}},
		"bytes of a message": {Max: 64 << 10, Within: func(t *testing.T, n int64) bool { return shown(t, n) == 1 }},
		"bytes of a message that is sent": {Max: 64 << 10, Within: func(t *testing.T, n int64) bool {
			m := mesh.Message{ID: "m", To: "bob"}
			rest, err := encode(mesh.Message{ID: "m", To: "bob", From: "alice", Kind: mesh.KindMessage})
			if err != nil {
				t.Fatal(err)
			}
			m.Text = x(n - int64(len(rest)))
			return isSent(t, func(c *Client) error { _, err := c.Send(t.Context(), m); return err })
		}},
		"bytes of a nudge": {Max: 64 << 10, Within: func(t *testing.T, n int64) bool {
			rest, err := encode(mesh.Message{ID: fleet.NudgeID(), To: "bob", From: "alice", Kind: mesh.KindNudge})
			if err != nil {
				t.Fatal(err)
			}
			return isSent(t, func(c *Client) error { return c.Nudge(t.Context(), "bob", "", x(n-int64(len(rest)))) })
		}},
		"bytes of a callsign": {Max: 64, Within: func(_ *testing.T, n int64) bool {
			var p mesh.Presence
			describe(&p, []byte(`{"callsign":"`+x(n)+`"}`))
			return p.Callsign == x(n)
		}},
		"a wait": unnamedDuration(time.Minute, func(_ *testing.T, d time.Duration) bool { return longest(d) == d }),
		"a look before an acknowledgement": unnamedDuration(before(time.Minute), func(t *testing.T, d time.Duration) (none bool) {
			synctest.Test(t, func(t *testing.T) {
				c := unconnected(t)
				c.pulledAt = time.Now().Add(-d)
				none = c.Ack(t.Context(), "m") == nil
			})
			return none
		}),
		"the time of a call": unnamedDuration(30*time.Second, func(_ *testing.T, d time.Duration) bool { return new(Client).timeout() >= d }),
	} {
		l.Const = name
		limittest.Run(t, []limittest.Limit{l})
	}
}

// unnamedDuration returns a limit of time that has no constant.
func unnamedDuration(longest time.Duration, within func(*testing.T, time.Duration) bool) limittest.Limit {
	return limittest.Limit{Max: int64(longest), Within: func(t *testing.T, n int64) bool { return within(t, time.Duration(n)) }}
}

// isSent reports whether a call is not refused for its size. It reaches no server.
func isSent(t *testing.T, send func(c *Client) error) bool {
	t.Helper()
	e, ok := errors.AsType[*mesh.Error](send(unconnected(t)))
	if !ok {
		t.Fatal("it was sent without a server")
	}
	return e.Code != 413
}
