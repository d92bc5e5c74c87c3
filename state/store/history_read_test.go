package store

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"agentstateloop/internal/testkit/statetest"
	"agentstateloop/state"
)

// TestNewestReversesHistory checks that Newest yields the lines of History in reverse for any line
// lengths, and reads no more than its limit.
func TestNewestReversesHistory(t *testing.T) {
	st := &Store{Dir: t.TempDir(), Agent: "goulard3120"}
	january := time.Date(2026, 1, 31, 23, 0, 0, 0, time.UTC)
	lengths := []int{10, 100, 3 * 4 * tailChunk, 1000, 4 * tailChunk, 20, 4*tailChunk - 150, 10}
	serial := uint64(0)
	for month, at := range []time.Time{january, january.Add(2 * time.Hour)} {
		for i := range 300 {
			serial++
			l := state.Line{Serial: serial, At: at, Kind: state.LineNote, Reason: strings.Repeat("x", lengths[i%len(lengths)]), Key: fmt.Sprint(month, ".", i)}
			if i > 20 {
				l.Reason = l.Reason[:min(len(l.Reason), 200)]
			}
			check(t, st.appendLines([]state.Line{l}))
		}
	}
	// A torn line is skipped.
	f, err := os.OpenFile(filepath.Join(st.Dir, historyName(january.Add(2*time.Hour))), os.O_APPEND|os.O_WRONLY, 0)
	check(t, err)
	if _, err := f.WriteString(`{"serial":999,"kind":"no`); err != nil {
		t.Fatal(err)
	}
	check(t, f.Close())

	newest := func(limit int64) []uint64 {
		var serials []uint64
		for l, err := range st.Newest(limit) {
			check(t, err)
			serials = append(serials, l.Serial)
		}
		return serials
	}
	lines, err := st.allLines()
	check(t, err)
	var want []uint64
	for _, l := range slices.Backward(lines) {
		want = append(want, l.Serial)
	}
	if got := newest(1 << 30); len(got) != 600 || !slices.Equal(got, want) {
		t.Errorf("%d lines, want %d: %v", len(got), len(want), got)
	}
	got := newest(20 << 10)
	if len(got) < 50 || len(got) > 200 || !slices.Equal(got, want[:len(got)]) {
		t.Errorf("of 20 KiB %d lines: %v", len(got), got)
	}
	data, err := os.ReadFile(f.Name())
	check(t, err)
	whole := bytes.SplitAfter(data[:bytes.LastIndexByte(data, '\n')+1], []byte("\n"))
	last := int64(len(whole[len(whole)-2]))
	for limit, want := range map[int64]int{last: 0, last + 1: 1, last + 2: 1} { // the newline before the line marks its beginning
		if got := newest(limit); len(got) != want {
			t.Errorf("the last line has %d bytes, and of %d: %v", last, limit, got)
		}
	}
	for l, err := range st.Newest(1 << 30) { // the caller may stop at any line
		if err != nil || l.Serial != 600 {
			t.Errorf("the newest: %+v, %v", l, err)
		}
		break
	}
}

// TestHistoryMonths checks that each UTC month has one file. If the clock is set back into the
// previous month, lines go to the older file, and the history has every line once.
func TestHistoryMonths(t *testing.T) {
	st := &Store{Dir: filepath.Join(t.TempDir(), "agent"), Agent: "goulard3120"}
	story := statetest.New()
	var want []state.Line
	for _, line := range storyLines(`
day 2026-01-31
23:59:59 halt
day 2026-02-01
00:00 go
day 2026-01-31
23:59:59 halt
day 2026-02-01
00:00:01 go`) {
		if strings.HasPrefix(line, "day") {
			mustRead(t, story, line)
			continue
		}
		check(t, commitLine(st, story, line))
		want = append(want, story.S.Lines...)
	}
	got, err := st.allLines()
	check(t, err)
	slices.SortFunc(got, func(a, b state.Line) int { return int(a.Serial) - int(b.Serial) })
	if statetest.JSON(t, got) != statetest.JSON(t, want) {
		t.Errorf("history is %s\nwant %s", statetest.JSON(t, got), statetest.JSON(t, want))
	}
	names, err := filepath.Glob(st.path("history-*"))
	if err != nil || len(names) != 2 {
		t.Errorf("history files: %v, %v", names, err)
	}
}

// TestHistoryHasEachLineOnce checks that History yields the lines that are only in state.json after
// a crash between the rename of the state and the append.
func TestHistoryHasEachLineOnce(t *testing.T) {
	st, story := startedStore(t)
	check(t, commitLine(st, story, "09:40 go"))
	whole, err := st.allLines()
	check(t, err)
	newest := len(mustState(t, st).Lines)
	if newest == 0 {
		t.Fatal("the last commit has no lines")
	}
	path := st.path(historyName(whole[0].At))
	data, err := os.ReadFile(path)
	check(t, err)
	raw := slices.Collect(bytes.Lines(data))
	for left := range newest + 1 {
		check(t, os.WriteFile(path, slices.Concat(raw[:len(raw)-left]...), 0o600))
		var got []state.Line
		for l, err := range st.History() {
			check(t, err)
			got = append(got, l)
		}
		if g, w := statetest.JSON(t, got), statetest.JSON(t, whole); g != w {
			t.Errorf("%d lines not in the file yet: history is\n%s\nwant\n%s", left, g, w)
		}
	}
}
