package state_test

import (
	"encoding/json"
	"slices"
	"testing"
	"time"

	"agentstateloop/state"
)

// TestFailuresOfAnOlderCursorAreKept checks that the failures that an older program has counted are
// read.
func TestFailuresOfAnOlderCursorAreKept(t *testing.T) {
	var c state.Cursor
	if err := json.Unmarshal([]byte(`{"mailbox":"box","uidvalidity":7,"next":9,"owed":[5],"tries":{"5":2}}`), &c); err != nil {
		t.Fatal(err)
	}
	c = c.Clone()
	if c.Next != 9 || !slices.Equal(c.Owed, []uint32{5}) || c.Failures[5].Tries != 2 || !c.Failures[5].Due(time.Unix(0, 0)) {
		t.Errorf("got %+v", c)
	}
	data, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	var again state.Cursor
	if err := json.Unmarshal(data, &again); err != nil || again.OldTries != nil || again.Failures[5] != c.Failures[5] {
		t.Errorf("read back %+v, %v", again, err)
	}
}

// TestRefetchPausesGrow checks that the pauses between the tries of a mail grow, up to six
// hours.
func TestRefetchPausesGrow(t *testing.T) {
	now := time.Date(2026, 1, 5, 12, 0, 0, 0, time.UTC)
	var f state.Failure
	var pauses []time.Duration
	for range 12 {
		f = f.Again(now, "why")
		pauses = append(pauses, f.Next.Sub(now))
		if f.Due(f.Next.Add(-time.Minute)) || !f.Due(f.Next) {
			t.Errorf("due at the wrong time: %+v", f)
		}
	}
	for i, p := range pauses {
		if want := min(time.Minute<<i, 6*time.Hour); p != want {
			t.Errorf("pause %d is %v, want %v", i, p, want)
		}
	}
	if !f.Since.Equal(now) || f.Reason != "why" || f.Tries != 12 {
		t.Errorf("got %+v", f)
	}
}
