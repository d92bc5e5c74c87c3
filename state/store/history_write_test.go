package store

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"agentstateloop/internal/testkit/statetest"
)

// TestHistoryTail checks that no line is doubled or lost by a crash, or by a person who edits the
// end of the history.
func TestHistoryTail(t *testing.T) {
	tails := map[string]func(t *testing.T, path string){
		"whole":        func(*testing.T, string) {},
		"torn line":    func(t *testing.T, path string) { tear(t, path) },
		"zeros":        func(t *testing.T, path string) { add(t, path, strings.Repeat("\x00", 4096)) },
		"garbage line": func(t *testing.T, path string) { add(t, path, "# looked at by hand\n") },
		"long garbage": func(t *testing.T, path string) { add(t, path, strings.Repeat("x", 3*tailChunk)+"\n") },
		"half garbage": func(t *testing.T, path string) { add(t, path, `{"serial":99,"kind":"mess`) },
		"blank lines":  func(t *testing.T, path string) { add(t, path, "\n\n\n") },
		"json of others": func(t *testing.T, path string) {
			add(t, path, `{"level":"info"}`+"\n"+`null`+"\n"+`[]`+"\n")
		},
		"gone": func(t *testing.T, path string) {
			check(t, os.Remove(path))
		},
	}
	for name, damage := range tails {
		t.Run(name, func(t *testing.T) {
			st, story := startedStore(t)
			before, err := st.allLines()
			check(t, err)
			damage(t, st.path(historyName(story.Now)))
			check(t, commitLine(st, story, "09:40 go"))
			want := slices.Concat(before, story.S.Lines)
			if name == "gone" { // the state only has the lines of its own serial
				want = want[len(want)-2:]
			}
			sameHistory(t, name, st, want)
		})
	}
}

// TestHistoryHole checks that the lines of the newest commit are whole after a
// power cut that kept their end and not what was before it.
func TestHistoryHole(t *testing.T) {
	story := statetest.New()
	dir := filepath.Join(t.TempDir(), "agent")
	st := &Store{Dir: dir, Agent: "goulard3120"}
	lines := storyLines(crashStory)
	check(t, commitLine(st, story, lines[0]))
	want, err := st.allLines()
	if err != nil || len(want) < 3 {
		t.Fatalf("%d lines in one commit, %v", len(want), err)
	}
	path := st.path(historyName(story.Now))
	data, err := os.ReadFile(path)
	check(t, err)
	for i := range data[:strings.LastIndexByte(strings.TrimSuffix(string(data), "\n"), '\n')] {
		data[i] = 0
	}
	check(t, os.WriteFile(path, data, 0o600))
	after := &Store{Dir: dir, Agent: "goulard3120"} // another process
	check(t, commitLine(after, story, lines[1]))
	sameHistory(t, "hole", after, slices.Concat(want, story.S.Lines))
	if r, err := after.Audit(); err != nil || len(r.Breaks) > 0 {
		t.Errorf("audit: %+v, %v", r, err)
	}
}

func TestHistoryLongLine(t *testing.T) {
	st, story := startedStore(t)
	long := strings.Repeat("long ", tailChunk)
	for i, line := range []string{`09:40 go`, `09:41 halt "` + long + `"`, `09:42 go`, `09:43 halt`} {
		if err := commitLine(st, story, line); err != nil {
			t.Fatalf("line %d: %v", i, err)
		}
	}
	seen := map[string]int{}
	for l, err := range st.History() {
		check(t, err)
		seen[fmt.Sprint(l.Serial, ".", l.N)]++
	}
	for at, n := range seen {
		if n != 1 {
			t.Errorf("the history has line %s %d times", at, n)
		}
	}
	last, err := st.lastLine(historyName(story.Now))
	if err != nil || last.Serial != story.S.Serial {
		t.Errorf("last line %+v, %v", last, err)
	}
}
