package turn

import (
	"slices"
	"testing"
)

func TestActivitySequence(t *testing.T) {
	a := newActivity()
	apply := func(e Event) func() {
		return func() {
			if s := a.apply(e); s != a.state {
				t.Errorf("apply returned %s in state %s", s, a.state)
			}
		}
	}
	for i, step := range []struct {
		do        func()
		lifecycle Lifecycle
		state     State
	}{
		{func() {}, LifecycleSpawning, StateIdle},
		{apply(Event{Kind: Unknown}), LifecycleWorking, StateIdle},
		{apply(Event{Kind: SessionStart}), LifecycleWorking, StateThinking},
		{apply(Event{Kind: TextDelta}), LifecycleWorking, StateResponding},
		{apply(Event{Kind: "of a later version"}), LifecycleWorking, StateResponding},
		{apply(Event{Kind: Error}), LifecycleWorking, StateResponding},
		{apply(Event{Kind: ToolUse, Tool: "Bash", ToolID: "1"}), LifecycleWorking, StateRunningTool},
		{apply(Event{Kind: ToolUse, Tool: "Read", ToolID: "2"}), LifecycleWorking, StateRunningTool},
		{apply(Event{Kind: TextDelta}), LifecycleWorking, StateRunningTool},
		{apply(Event{Kind: ToolResult, ToolID: "2"}), LifecycleWorking, StateRunningTool},
		{apply(Event{Kind: ToolResult, ToolID: "never called"}), LifecycleWorking, StateRunningTool},
		{apply(Event{Kind: ToolResult, ToolID: "1"}), LifecycleWorking, StateThinking},
		{apply(Event{Kind: Done}), LifecycleIdle, StateIdle},
		{apply(Event{Kind: Unknown}), LifecycleIdle, StateIdle},
		{apply(Event{Kind: ToolResult}), LifecycleIdle, StateIdle},
		{apply(Event{Kind: SessionStart}), LifecycleIdle, StateIdle},
		{apply(Event{Kind: Thinking}), LifecycleWorking, StateThinking},
		{apply(Event{Kind: ToolUse}), LifecycleWorking, StateRunningTool},
		{apply(Event{Kind: Done}), LifecycleIdle, StateIdle},
		{apply(Event{Kind: TextDelta}), LifecycleWorking, StateResponding},
		{func() { a.setExited("exit status 1") }, LifecycleKilled, StateIdle},
		{apply(Event{Kind: Thinking}), LifecycleKilled, StateIdle},
		{func() { a.setExited("clean exit") }, LifecycleKilled, StateIdle},
	} {
		step.do()
		if a.lifecycle != step.lifecycle || a.state != step.state {
			t.Errorf("step %d: %s, %s; want %s, %s", i, a.lifecycle, a.state, step.lifecycle, step.state)
		}
	}
}

// TestActivityTable applies each kind of event in each state.
func TestActivityTable(t *testing.T) {
	bash := Event{Kind: ToolUse, Tool: "Bash", ToolID: "1"}
	done := Event{Kind: Done}
	after := func(events ...Event) activity {
		a := newActivity()
		for _, e := range events {
			a.apply(e)
		}
		return a
	}
	exited := after(Event{Kind: TextDelta})
	exited.setExited("clean exit")
	before := map[string]activity{
		"spawning": newActivity(), "unknown": after(Event{Kind: Unknown}), "thinking": after(Event{Kind: Thinking}),
		"responding": after(Event{Kind: TextDelta}), "tool": after(bash), "done": after(bash, done), "killed": exited,
	}
	kinds := []EventKind{SessionStart, Thinking, TextDelta, ToolUse, ToolResult, Done, Error, Unknown, "of a later version"}
	const (
		thinking = "working thinking"
		replying = "working responding"
		inTool   = "working running_tool"
		idle     = "idle idle"
		begun    = "working idle"
		killed   = "killed idle"
	)
	for name, want := range map[string][]string{
		"spawning":   {thinking, thinking, replying, inTool, begun, idle, begun, begun, begun},
		"unknown":    {thinking, thinking, replying, inTool, begun, idle, begun, begun, begun},
		"thinking":   {thinking, thinking, replying, inTool, thinking, idle, thinking, thinking, thinking},
		"responding": {replying, thinking, replying, inTool, replying, idle, replying, replying, replying},
		"tool":       {inTool, inTool, inTool, inTool, thinking, idle, inTool, inTool, inTool},
		"done":       {idle, thinking, replying, inTool, idle, idle, idle, idle, idle},
		"killed":     {killed, killed, killed, killed, killed, killed, killed, killed, killed},
	} {
		for i, kind := range kinds {
			a := before[name]
			a.tools = slices.Clone(a.tools)
			s := a.apply(Event{Kind: kind, Tool: "Read", ToolID: "1"})
			if got := a.lifecycle.String() + " " + a.state.String(); got != want[i] || s != a.state {
				t.Errorf("%s after %s: %s, returned %s; want %s", kind, name, got, s, want[i])
			}
			if (a.reason != "") != (a.lifecycle == LifecycleKilled) {
				t.Errorf("%s after %s: %s because %q", kind, name, a.lifecycle, a.reason)
			}
		}
	}
}

func TestActivityTools(t *testing.T) {
	a := newActivity()
	a.apply(Event{Kind: ToolUse, Tool: "Bash", ToolID: "1"})
	a.apply(Event{Kind: ToolUse, Tool: "Read", ToolID: "2"})
	if name, n := a.waitingTools(); name != "Read" || n != 2 {
		t.Errorf("%s, %d", name, n)
	}
	a.apply(Event{Kind: ToolResult, ToolID: "2"})
	if name, n := a.waitingTools(); name != "Bash" || n != 1 {
		t.Errorf("%s, %d", name, n)
	}
}

func TestActivityLabels(t *testing.T) {
	for label, v := range map[string]interface{ String() string }{
		"spawning": LifecycleSpawning, "working": LifecycleWorking, "idle": LifecycleIdle, "killed": LifecycleKilled,
		"thinking": StateThinking, "running_tool": StateRunningTool, "responding": StateResponding,
		"session_start": SessionStart, "text_delta": TextDelta, "tool_use": ToolUse, "tool_result": ToolResult,
		"done": Done, "error": Error, "unknown": Unknown,
	} {
		if v.String() != label {
			t.Errorf("%q, want %q", v.String(), label)
		}
	}
	if StateIdle.String() != "idle" || Thinking.String() != "thinking" {
		t.Error("labels")
	}
}
