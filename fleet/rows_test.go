package fleet_test

import (
	"context"
	"fmt"
	"net"
	"testing"
	"time"

	"agentstateloop/fleet"
	"agentstateloop/fleet/fleettest/memory"
)

// TestRows checks how many rows of the registry are read at most, and that a row that has
// not changed is stored again, in the place of the one before.
func TestRows(t *testing.T) {
	seed, public, err := fleet.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	e := memory.New(memory.Options{Users: map[string]string{"alice": public}, Now: func() time.Time { return now }})
	c := &fleet.Conn{
		URL: "nats://127.0.0.1:4222", Handle: "alice",
		Seed: func(context.Context) (string, error) { return seed, nil },
		Dial: func(context.Context, string, string) (net.Conn, error) {
			ours, theirs := net.Pipe()
			go e.Serve(theirs)
			return ours, nil
		},
	}
	t.Cleanup(c.Close)
	for i := range 3 {
		if _, err := c.Look(t.Context(), fmt.Sprint("host", i), now); err != nil {
			t.Fatal(err)
		}
	}
	for most := range 6 {
		rows, err := c.Rows(t.Context(), most)
		if err != nil || len(rows) != min(most, 3) {
			t.Errorf("%d rows of at most %d, %v", len(rows), most, err)
		}
	}
	for range 2 {
		now = now.Add(time.Hour)
		if err := c.Register(t.Context(), []byte("{}"), now); err != nil {
			t.Fatal(err)
		}
	}
	rows, err := c.Rows(t.Context(), 10)
	if err != nil || len(rows) != 4 || rows[3].Host != "" || !rows[3].At.Equal(now) || !rows[3].Stored.Equal(now) || !rows[3].SignedBy(public) {
		t.Errorf("%+v, %v", rows, err)
	}
}
