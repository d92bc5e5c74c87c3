package turn

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestFeedHasNoText writes the steps of a stream, and reads them while the feed grows. It has names
// and sizes, and no text.
func TestFeedHasNoText(t *testing.T) {
	dir := t.TempDir()
	feed, reader, a := NewFeed(dir), FeedReader{Dir: dir}, newActivity()
	var texts []string
	see := func(e Event) {
		a.apply(e)
		texts = append(texts, e.Text)
		feed.Watch(Progress{Event: e, Live: Live{Lifecycle: a.lifecycle, State: a.state, WaitingTools: len(a.tools)}})
	}
	var got []string
	readNew := func() {
		steps, err := reader.Next()
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range steps {
			line := string(s.Kind)
			if s.Kind == StepState {
				line += " " + s.Lifecycle.String() + " " + s.State.String()
			}
			got = append(got, strings.TrimSpace(line+" "+s.Tool))
		}
	}
	readNew()
	see(Event{Kind: SessionStart, Model: "m"})
	readNew()
	for _, e := range []Event{
		{Kind: TextDelta, Text: "private one"}, {Kind: TextDelta, Text: "private two"},
		{Kind: ToolUse, Tool: "Ba\x1b[2Jsh", ToolID: "1"}, {Kind: ToolResult, ToolID: "1", Text: "private result"},
		{Kind: Unknown, Text: "private line"}, {Kind: Done, Text: "private answer"},
	} {
		see(e)
	}
	a.setExited("clean exit")
	feed.Watch(Progress{Live: Live{Lifecycle: a.lifecycle, State: a.state, Reason: a.reason}})
	see(Event{Kind: TextDelta, Text: "after the end"})
	readNew()
	want := "session, state working thinking, text, state working responding, tool_use Ba [2Jsh, state working running_tool, " +
		"tool_result, state working thinking, done, state idle idle, state killed idle"
	if all := strings.Join(got, ", "); all != want {
		t.Errorf("got  %s\nwant %s", all, want)
	}
	text, err := os.ReadFile(filepath.Join(dir, feedName))
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range texts {
		if s != "" && strings.Contains(string(text), s) {
			t.Errorf("%q is in the feed:\n%s", s, text)
		}
	}
}

// TestFeedIsBounded checks that an agent that prints without end does not fill the disk, also while
// it is stopped, and that the feed shows the dropped steps and the end.
func TestFeedIsBounded(t *testing.T) {
	stopped := Live{Lifecycle: LifecycleKilled, State: StateIdle, Reason: "stopped"}
	for _, live := range []Live{{Lifecycle: LifecycleWorking, State: StateThinking}, stopped} {
		dir := t.TempDir()
		feed := NewFeed(dir)
		feed.room = 4 << 10
		for range 1000 {
			feed.Watch(Progress{Event: Event{Kind: ToolUse, Tool: strings.Repeat("x", 1000)}, Live: live})
			feed.Watch(Progress{Event: Event{Kind: ToolResult}, Live: live})
		}
		feed.Watch(Progress{Live: stopped})
		text := readFile(t, dir, feedName)
		lines := strings.Split(strings.TrimSpace(text), "\n")
		var last Step
		json.Unmarshal([]byte(lines[len(lines)-1]), &last)
		if len(text) > 8<<10 || !strings.Contains(text, `"kind":"`+string(StepDropped)) || !strings.Contains(text, `"reason":"stopped"`) || last.N != len(lines) {
			t.Errorf("%v: %d bytes, the last step is %+v", live.Lifecycle, len(text), last)
		}
		if live.Lifecycle == LifecycleWorking && last.Reason != "stopped" {
			t.Errorf("the last step is %+v", last)
		}
	}
}

// TestStepsAreDocumented compares the steps of each kind of event with docs/events.md.
func TestStepsAreDocumented(t *testing.T) {
	doc, err := os.ReadFile("../docs/events.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(doc), "\n## Steps of an agent\n")
	quoted := regexp.MustCompile("`([^`]+)`")
	head := regexp.MustCompile(`(?m)^\| event \|.*$`).FindString(table)
	documented := map[string]string{}
	for _, row := range regexp.MustCompile("(?m)^\\| (`.*?) \\|(.*?)\\|(.*)\\|$").FindAllStringSubmatch(table, -1) {
		for _, event := range quoted.FindAllStringSubmatch(row[1], -1) {
			documented[event[1]] = head + row[3]
		}
	}
	dir := t.TempDir()
	feed, seen := NewFeed(dir), map[string]bool{}
	working := Live{Lifecycle: LifecycleWorking, WaitingTools: 1, Tool: "Bash"}
	for i, state := range []State{StateThinking, StateRunningTool, StateResponding, StateIdle} {
		working.State = state
		feed.Watch(Progress{Event: []Event{
			{Kind: SessionStart, Model: "m", Session: "s"}, {Kind: ToolUse, Tool: "Bash", ToolID: "1"},
			{Kind: TextDelta, Text: "x"}, {Kind: ToolResult, ToolID: "1", Text: "x"},
		}[i], Live: working})
	}
	idle := Live{Lifecycle: LifecycleIdle, State: StateIdle}
	for _, e := range []Event{{Kind: Thinking, Text: "x"}, {Kind: Error, Text: "x"}, {Kind: Unknown, Text: "x"}, {Kind: Done, Text: "x", Failed: true, CostUSD: 1}} {
		feed.Watch(Progress{Event: e, Live: idle})
	}
	feed.room = 0
	feed.Watch(Progress{Event: Event{Kind: TextDelta}, Live: idle})
	feed.Watch(Progress{Live: Live{Lifecycle: LifecycleKilled, State: StateIdle, Reason: "clean exit"}})
	text, err := os.ReadFile(filepath.Join(dir, feedName))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		var s Step
		var fields map[string]any
		if err := errors.Join(json.Unmarshal([]byte(line), &s), json.Unmarshal([]byte(line), &fields)); err != nil {
			t.Fatal(err)
		}
		name := "step." + string(s.Kind)
		if s.Kind == StepState {
			name = "state." + s.Name()
		}
		seen[name] = true
		for field := range fields {
			if documented[name] == "" || !strings.Contains(documented[name], "`"+field+"`") {
				t.Errorf("docs/events.md has no field %q of %s: %s", field, name, documented[name])
			}
		}
	}
	for name := range documented {
		if !seen[name] {
			t.Errorf("docs/events.md has %s, and the feed writes none", name)
		}
	}
}

// TestReadDamagedFeed reads a feed that is torn, a folder, or missing.
func TestReadDamagedFeed(t *testing.T) {
	dir := t.TempDir()
	r := FeedReader{Dir: dir}
	if steps, err := r.Next(); len(steps) > 0 || err != nil {
		t.Errorf("%+v, %v", steps, err)
	}
	path := filepath.Join(dir, feedName)
	whole := `{"n":1,"kind":"text"}` + "\n"
	if err := os.WriteFile(path, []byte("garbage\n"+whole+`{"n":2,"ki`), 0o600); err != nil {
		t.Fatal(err)
	}
	if steps, err := r.Next(); len(steps) != 1 || err != nil {
		t.Errorf("%+v, %v", steps, err)
	}
	f, _ := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	f.WriteString("nd\":\"done\"}\n")
	f.Close()
	if steps, err := r.Next(); len(steps) != 1 || steps[0].Kind != StepDone || err != nil {
		t.Errorf("%+v, %v", steps, err)
	}
	os.Remove(path)
	os.Mkdir(path, 0o700)
	if _, err := r.Next(); err == nil {
		t.Error("a folder is read")
	}
}
