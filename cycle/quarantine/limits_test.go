package quarantine

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"agentstateloop/internal/testkit/limittest"
	"agentstateloop/state"
)

// TestLimits tries each limit of the folder at its edge.
func TestLimits(t *testing.T) {
	limittest.Run(t, []limittest.Limit{
		{Const: "maxItems", Max: 500, Within: func(t *testing.T, n int64) bool { return hasRoom(t, n-1, 1, 48*time.Hour, 1) }},
		{Const: "maxBytes", Max: 268_435_456, Within: func(t *testing.T, n int64) bool { return hasRoom(t, 1, n-1000, 48*time.Hour, 1000) }},
		{Const: "senderItems", Max: 50, Within: func(t *testing.T, n int64) bool { return hasRoom(t, n-1, 1, time.Hour, 1) }},
		{Const: "senderBytes", Max: 67_108_864, Within: func(t *testing.T, n int64) bool { return hasRoom(t, 1, n-1000, time.Hour, 1000) }},
		{Const: "senderBytes", Max: 67_108_863, Within: func(t *testing.T, n int64) bool { return hasRoom(t, 1, n, time.Hour, 0) }},       // there is none for an empty one
		limittest.Duration("senderSpan", 24*time.Hour-1, 1, func(t *testing.T, d time.Duration) bool { return !hasRoom(t, 50, 1, d, 1) }), // which counts
		{Const: "maxVerdict", Max: 1_048_576, Within: func(t *testing.T, n int64) bool {
			f := newFolder(t)
			keep(t, intake(f, state.State{}), verdict("one"), "x")
			file := f.Store.Path(filepath.Join(Dir("one"), verdictFile))
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			damage(t, f, "one", verdictFile, string(text)+strings.Repeat(" ", int(n)-len(text)))
			_, err = f.read(Dir("one"))
			return err == nil
		}},
	})
}

// hasRoom reports whether an item comes in, and evicts none, where its sender has items
// of this size and age.
func hasRoom(t *testing.T, items, size int64, age time.Duration, next int64) bool {
	in := intake(newFolder(t), state.State{})
	in.loaded = true
	item := func(key string, size int64, kept time.Time) Item {
		v := verdict(key)
		v.Kept = kept
		return Item{Verdict: v, Size: size}
	}
	for i := range items {
		in.items = append(in.items, item(fmt.Sprint("old", i), size, now.Add(-age)))
	}
	room, err := in.admit(item("new", next, now))
	return err == nil && room && len(in.evicted) == 0
}
