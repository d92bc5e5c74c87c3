package fleet_test

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
	"agentstateloop/internal/testkit/fleettest/memory"
)

// TestRegistryRows checks the limit on the rows that are read, and that an unchanged row is stored
// again in place of the previous one.
func TestRegistryRows(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	c, public := inMemory(t, func() time.Time { return now })
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

// TestMissingFileIsRetried checks that a missing file is requested three times with pauses, because
// the responding server may lag behind the others.
func TestMissingFileIsRetried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _ := inMemory(t, nil)
		began := time.Now()
		_, err := c.OpenBlob(t.Context(), "bob", strings.Repeat("0", 64), 1).Read(make([]byte, 1))
		if e, ok := errors.AsType[*fleet.Error](err); !ok || e.Code != 404 || time.Since(began) != 2*250*time.Millisecond {
			t.Errorf("%v after %v", err, time.Since(began))
		}
		c.Close()
		synctest.Wait()
	})
}

// inMemory returns a connection of alice to an in-memory server, and her public key.
func inMemory(t *testing.T, now func() time.Time) (c *fleet.Conn, public string) {
	t.Helper()
	seed, public, err := fleet.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	e := memory.New(memory.Options{Users: map[string]string{"alice": public}, Now: now})
	c = &fleet.Conn{
		URL: "nats://127.0.0.1:4222", Handle: "alice",
		Seed: func(context.Context) (string, error) { return seed, nil },
		Dial: func(context.Context, string, string) (net.Conn, error) {
			ours, theirs := net.Pipe()
			go e.Serve(theirs)
			return ours, nil
		},
	}
	t.Cleanup(c.Close)
	return c, public
}
