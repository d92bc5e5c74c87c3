package fleet_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"agentstateloop/fleet"
	"agentstateloop/internal/testkit/fleettest"
)

// TestRowsOfRegistry checks the number of rows that are read at most, and that an unchanged row is
// stored again and replaces the one before.
func TestRowsOfRegistry(t *testing.T) {
	t.Parallel()
	e := fleettest.Start(t, "alice")
	c, now := e.Conn("alice"), time.Now()
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
	var before time.Time
	for range 2 {
		now = now.Add(time.Hour)
		if err := c.Register(t.Context(), []byte("{}"), now); err != nil {
			t.Fatal(err)
		}
		rows, err := c.Rows(t.Context(), 10)
		if err != nil || len(rows) != 4 || rows[3].Host != "" || !rows[3].At.Equal(now) || !rows[3].Stored.After(before) || !rows[3].SignedBy(e.Users["alice"].Public) {
			t.Fatalf("%+v, %v", rows, err)
		}
		before = rows[3].Stored
	}
}

// TestMissingBlobIsRetried checks that a missing file is requested three times, with pauses: the first
// server may lag behind the others.
func TestMissingBlobIsRetried(t *testing.T) {
	t.Parallel()
	c := fleettest.Start(t, "alice").Conn("alice")
	began := time.Now()
	_, err := c.OpenBlob(t.Context(), "bob", strings.Repeat("0", 64), 1).Read(make([]byte, 1))
	if e, ok := errors.AsType[*fleet.Error](err); !ok || e.Code != 404 || time.Since(began) < 2*250*time.Millisecond {
		t.Errorf("%v after %v", err, time.Since(began))
	}
}
