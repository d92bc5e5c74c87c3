package state_test

import (
	"encoding/json"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"agentstateloop/internal/testkit/statetest"
	"agentstateloop/state"
)

// TestAnnouncementsMatchTheDocument compares events with docs/events.md.
func TestAnnouncementsMatchTheDocument(t *testing.T) {
	at := time.Date(2026, 11, 22, 14, 5, 9, 0, time.UTC)
	row := state.Message{Key: "mail:5b1c6f.7.311", Source: state.Mail, From: "you@example.org", Operator: true}
	task := state.Line{
		Serial: 1042, N: 3, At: at, Kind: state.LineTask, Key: row.Key, TurnID: "t9097407dbd474be97adb", Epoch: 12, Outcome: state.Failed,
		OutputBox: "turns/t9097407dbd474be97adb/12/output", Deliverable: "deliverable.txt", Reason: "exit status 1", Row: &row,
	}
	a, ok := task.Announcement("goulard3120")
	got, err := json.Marshal(a)
	if !ok || err != nil {
		t.Fatal(ok, err)
	}
	doc, err := os.ReadFile("../docs/events.md")
	check(t, err)
	example := regexp.MustCompile("(?s)```json\n(.*?)```").FindSubmatch(doc)
	var want state.Announcement
	check(t, json.Unmarshal(example[1], &want))
	if wanted, _ := json.Marshal(want); string(wanted) != string(got) {
		t.Errorf("docs/events.md shows\n%s\nand it is\n%s", wanted, got)
	}

	documented := slices.Sorted(maps.Keys(documentedData(t)))
	all := append(state.EventNames(), state.EventTest)
	slices.Sort(all)
	if !slices.Equal(documented, all) {
		t.Errorf("docs/events.md has\n%v\nand these exist:\n%v", documented, all)
	}
}

// TestHooksHearEventsByName checks by which names a hook hears of an event.
func TestHooksHearEventsByName(t *testing.T) {
	for _, c := range []struct {
		name, event string
		want        bool
	}{
		{"task.failed", "task.failed", true}, {"task", "task.failed", true}, {"*", "task.failed", true}, {"blocker", "blocker.over", true},
		{"task.failed", "task.success", false}, {"tas", "task.failed", false}, {"task.failed", "task", false}, {"", "task", false}, {"task.", "task.failed", false},
	} {
		if got := state.Hears([]string{"none", c.name}, c.event); got != c.want {
			t.Errorf("%q hears %q: %v", c.name, c.event, got)
		}
	}
}

// TestHookCallsAreBounded checks that the oldest rows go when a hook takes nothing, each
// with a line, and that the operator hears of it once.
func TestHookCallsAreBounded(t *testing.T) {
	p := statetest.Policy()
	p.Hooks = []state.HookPolicy{{Name: "x", On: []string{"halt", "go"}}, {Name: "other", On: []string{"go"}}}
	s, now := state.New("goulard3120", "seed"), time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC)
	first, dropped, notices := "", 0, 0
	for i := range state.MaxHookCalls + 10 {
		now = now.Add(time.Second)
		s = state.Step(s, []state.Event{state.Switched{On: i%2 == 0}}, p, now)
		for _, l := range s.Lines {
			if l.Kind == state.LineDelivery && l.What == "dropped" {
				dropped++
			}
			if l.Effect != nil && l.Effect.Kind == state.Notice {
				notices++
			}
		}
		if i == 10 {
			first = s.HookCalls[len(s.HookCalls)-1].ID
		}
	}
	waiting := 0
	for _, e := range s.HookCalls {
		if e.To == "x" {
			waiting++
		}
	}
	if waiting != state.MaxHookCalls || dropped != 10 || s.HookCalls[0].To != "other" && s.HookCalls[0].ID != first || notices != 1 {
		t.Errorf("%d rows wait, %d were dropped, %d notices", waiting, dropped, notices)
	}
}

// documentedData returns the fields of each event, as the table of docs/events.md has
// them.
func documentedData(t *testing.T) map[string][]string {
	t.Helper()
	doc, err := os.ReadFile("../docs/events.md")
	check(t, err)
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

// TestAnnouncementData compares the announcements of all stories with docs/events.md: each event
// and field is documented, and each documented one occurs.
func TestAnnouncementData(t *testing.T) {
	documented := documentedData(t)
	seen := map[string]map[string]bool{}
	playStories(t, func(s state.State, events []state.Event, p state.Policy, now time.Time) state.State {
		after := state.Step(s, events, p, now)
		for _, l := range after.Lines {
			if a, ok := l.Announcement("goulard3120"); ok {
				noteFields(t, seen, a)
			}
		}
		return after
	})
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

// noteFields adds the fields of an announcement to those seen.
func noteFields(t *testing.T, seen map[string]map[string]bool, a state.Announcement) {
	t.Helper()
	var data map[string]any
	check(t, json.Unmarshal([]byte(statetest.JSON(t, a.Data)), &data))
	if seen[a.Event] == nil {
		seen[a.Event] = map[string]bool{}
	}
	for field := range data {
		seen[a.Event][field] = true
	}
}
