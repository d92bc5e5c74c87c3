package turn

import "testing"

func TestActivityStory(t *testing.T) {
	a := newActivity()
	apply := func(e Event) func() { return func() { a.apply(e) } }
	for i, step := range []struct {
		do        func()
		lifecycle Lifecycle
		state     State
	}{
		{func() {}, LifecycleSpawning, StateIdle},
		{apply(Event{Kind: Unknown}), LifecycleSpawning, StateIdle},
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
		{a.markIdle, LifecycleIdle, StateIdle},
		{apply(Event{Kind: ToolUse}), LifecycleWorking, StateRunningTool},
		{apply(Event{Kind: Done}), LifecycleIdle, StateIdle},
		{apply(Event{Kind: TextDelta}), LifecycleWorking, StateResponding},
		{a.markKilled, LifecycleKilled, StateIdle},
		{apply(Event{Kind: Thinking}), LifecycleKilled, StateIdle},
		{a.markIdle, LifecycleKilled, StateIdle},
	} {
		step.do()
		if a.lifecycle != step.lifecycle || a.state != step.state {
			t.Errorf("step %d: %s, %s; want %s, %s", i, a.lifecycle, a.state, step.lifecycle, step.state)
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
