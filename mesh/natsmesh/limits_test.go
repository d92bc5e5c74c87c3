package natsmesh

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"agentstateloop/fleet"
	"agentstateloop/internal/limittest"
	"agentstateloop/mesh"
)

// ofMesh returns a limit whose constant is one of the package mesh.
func ofMesh(name string, most int64, within func(t *testing.T, n int64) bool) limittest.Limit {
	return limittest.Limit{Const: name, Max: most, Within: within}
}

// client returns a client that needs no engine for what it is asked here.
func client(t *testing.T) *Client {
	seed, _, err := fleet.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	return &Client{Handle: "alice", Seed: func(context.Context) (string, error) { return seed, nil }}
}

// shown returns how many of some items a mailbox shows.
func shown(t *testing.T, bodies ...[]byte) int64 {
	var taken fleet.Taken
	for i, body := range bodies {
		taken.Items = append(taken.Items, fleet.Item{From: "bob", ID: fmt.Sprint(i), Body: body})
	}
	box, err := client(t).show(t.Context(), taken)
	if err != nil {
		t.Fatal(err)
	}
	return int64(len(box.Messages) + len(box.Undecoded))
}

func TestLimits(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	limittest.Run(t, []limittest.Limit{
		limittest.Duration("onlineFor", 35*time.Minute-1, 1, func(_ *testing.T, d time.Duration) bool {
			seen := keyring{}.seen([]fleet.Row{{Handle: "bob", Stored: at}}, at.Add(d))
			return !seen[0].Away
		}),
		limittest.Duration("onlineFor", 35*time.Minute-1, 1, func(_ *testing.T, d time.Duration) bool { // on a host
			seen := keyring{}.seen([]fleet.Row{{Handle: "bob", Host: "beta", Stored: at}}, at.Add(d))
			return !seen[0].Hosts[0].Away
		}),
		limittest.Duration("onlineFor", 35*time.Minute, 1, func(_ *testing.T, d time.Duration) bool { // since it was signed
			return isFresh(fleet.Row{At: at, Stored: at.Add(d)})
		}),
		limittest.Duration("maxLate", 7*24*time.Hour, 1, func(_ *testing.T, d time.Duration) bool { return lately(at, at.Add(d)) }),
		limittest.Duration("maxEarly", 24*time.Hour, 1, func(_ *testing.T, d time.Duration) bool { return lately(at, at.Add(-d)) }),
		limittest.Duration("heldFor", 10*time.Minute, 1, func(t *testing.T, d time.Duration) (within bool) {
			c := client(t)
			synctest.Test(t, func(t *testing.T) {
				c.held = map[string]*held{"1": {shown: time.Now()}}
				time.Sleep(d)
				if _, err := c.show(t.Context(), fleet.Taken{}); err != nil {
					t.Fatal(err)
				}
				within = c.held["1"] != nil
			})
			return within
		}),
		{Const: "maxFiles", Max: 1024, Within: func(t *testing.T, n int64) bool {
			c := client(t)
			for i := range n {
				c.remember(fileOf{from: "bob", sum: fmt.Sprint(i)}, &fleet.Blob{})
			}
			return len(c.files) == int(n)
		}},
		ofMesh("MaxMessage", 64<<10, func(_ *testing.T, n int64) bool {
			text := strings.Repeat("x", int(n)-len(`{"from":"bob","to":"alice","message":""}`))
			_, broken := keyring{handle: "alice"}.read(fleet.Item{From: "bob", ID: "1", Body: []byte(`{"from":"bob","to":"alice","message":"` + text + `"}`)})
			return broken == nil
		}),
		ofMesh("MaxMessages", 200, func(t *testing.T, n int64) bool {
			bodies := make([][]byte, n)
			for i := range bodies {
				bodies[i] = fmt.Appendf(nil, `{"from":"bob","to":"alice","message":"%d"}`, i)
			}
			return shown(t, bodies...) == n
		}),
		ofMesh("MaxMailbox", 4<<20, func(t *testing.T, n int64) bool {
			return shown(t, make([]byte, n/2), make([]byte, n-n/2)) == 2
		}),
		ofMesh("MaxCallsign", 64, func(_ *testing.T, n int64) bool {
			p := mesh.Presence{Callsign: "@bob"}
			describe(&p, fmt.Appendf(nil, `{"callsign":%q}`, strings.Repeat("x", int(n))))
			return len(p.Callsign) == int(n)
		}),
	})
}
