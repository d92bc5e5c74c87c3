package state_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"agentstateloop/internal/testkit/statetest"
	"agentstateloop/state"
)

var update = flag.Bool("update", false, "write what the machine does into testdata/*.txt")

// TestTranscripts plays each story of testdata/*.txt to the machine. A story is
// read line by line:
//
//	# a comment
//	day 2026-03-02              the date of the times that follow, in UTC
//	policy ack=off rate=2       changes statetest.Policy
//	09:30 mail m1; poll         one Step: the events in words; see Story.Read
//	09:30 due?                  asks State.Due, without a Step
//	=> PREP, every 1m, ...      what is expected: the state after it,
//	    IDLE → PREP: ...        and, indented, the history lines of the step, and
//	    inbox: m1 queued        inbox, outbox and other lists that have changed
//
// Random ids are shown by number: ack.1, t1. `go test ./state -run Transcripts
// -update` writes the expected lines, which a person then reads.
func TestTranscripts(t *testing.T) {
	for _, file := range storyFiles(t) {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			data, err := os.ReadFile(file)
			check(t, err)
			want := string(data)
			got, err := statetest.New().Tell(want)
			if err != nil {
				t.Fatalf("%s: %v", file, err)
			}
			if got == want {
				return
			}
			if *update {
				check(t, os.WriteFile(file, []byte(got), 0o644))
				return
			}
			t.Errorf("%s: the machine answers differently:\n%s", file, firstDifference(want, got))
		})
	}
}

// storyFiles returns the names of the stories.
func storyFiles(t testing.TB) []string {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no stories in testdata: %v", err)
	}
	return files
}

// playStories plays all stories with step in the place of state.Step, and ignores their results.
func playStories(t testing.TB, step state.StepFunc) {
	for _, file := range storyFiles(t) {
		data, err := os.ReadFile(file)
		check(t, err)
		if _, err := statetest.NewWith(step).Tell(string(data)); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
	}
}

// firstDifference returns where two transcripts begin to differ, with the lines
// before.
func firstDifference(want, got string) string {
	w, g := strings.Split(want, "\n"), strings.Split(got, "\n")
	for i := range max(len(w), len(g)) {
		if i >= len(w) || i >= len(g) || w[i] != g[i] {
			return fmt.Sprintf("line %d, after:\n%s\nwant:\n%s\ngot:\n%s", i+1, excerpt(g, i-4, i), excerpt(w, i, i+6), excerpt(g, i, i+6))
		}
	}
	return ""
}

func excerpt(lines []string, from, to int) string {
	from, to = min(max(from, 0), len(lines)), min(to, len(lines))
	return strings.Join(lines[from:to], "\n")
}
