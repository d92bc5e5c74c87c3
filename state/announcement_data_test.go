package state_test

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"agentstateloop/internal/testkit/statetest"
	"agentstateloop/state"
)

// documentedData returns the fields of each event, as the table of docs/events.md has
// them.
func documentedData(t *testing.T) map[string][]string {
	t.Helper()
	doc, err := os.ReadFile("../docs/events.md")
	if err != nil {
		t.Fatal(err)
	}
	table, _, _ := strings.Cut(string(doc), "\n## Steps of an agent\n")
	fields := map[string][]string{}
	quoted := regexp.MustCompile("`([^`]+)`")
	for _, row := range regexp.MustCompile("(?m)^\\| (`.*) \\|(.*)\\|(.*)\\|$").FindAllStringSubmatch(table, -1) {
		var data []string
		for _, field := range quoted.FindAllStringSubmatch(regexp.MustCompile(`\(.*?\)`).ReplaceAllString(row[3], ""), -1) {
			data = append(data, field[1])
		}
		for _, event := range quoted.FindAllStringSubmatch(row[1], -1) {
			fields[event[1]] = data
		}
	}
	return fields
}

// TestAnnouncementData plays all transcripts with their events, and compares the data of
// each with docs/events.md: no event has a field that is not documented, and none is
// documented that no event has.
func TestAnnouncementData(t *testing.T) {
	documented := documentedData(t)
	seen := map[string]map[string]bool{}
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no stories in testdata: %v", err)
	}
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		story := statetest.New()
		for line := range strings.Lines(string(text)) {
			line = strings.TrimRight(line, "\n")
			if statetest.Expected(line) {
				continue
			}
			before := story.S.Serial
			if err := story.Play(strings.TrimSpace(line)); err != nil {
				t.Fatalf("%s: %s: %v", name, line, err)
			}
			if story.S.Serial == before {
				continue
			}
			for _, l := range story.S.Lines {
				if a, ok := l.Announcement("goulard3120"); ok {
					note(t, seen, a)
				}
			}
		}
	}
	for event, fields := range seen {
		for field := range fields {
			if field != "trace_id" && !slices.Contains(documented[event], field) {
				t.Errorf("%s has %q, and docs/events.md does not say so", event, field)
			}
		}
	}
	for event, fields := range documented {
		if seen[event] == nil && event != state.EventTest {
			t.Errorf("no transcript has %s", event)
		}
		for _, field := range fields {
			row := func(other string) bool { return slices.Equal(documented[other], fields) && seen[other][field] }
			if event != state.EventTest && !slices.ContainsFunc(slices.Collect(maps.Keys(seen)), row) {
				t.Errorf("docs/events.md has %q of %s, and no transcript has it", field, event)
			}
		}
	}
}

func note(t *testing.T, seen map[string]map[string]bool, a state.Announcement) {
	t.Helper()
	text, err := json.Marshal(a.Data)
	var data map[string]any
	if err == nil {
		err = json.Unmarshal(text, &data)
	}
	if err != nil {
		t.Fatal(err)
	}
	if seen[a.Event] == nil {
		seen[a.Event] = map[string]bool{}
	}
	for field := range data {
		seen[a.Event][field] = true
	}
}
