package turn

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func TestMachineStory(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	m := NewActivity(func() time.Time { return now })
	apply := func(e Event) func() { return func() { m.Apply(e) } }
	for i, step := range []struct {
		do        func()
		lifecycle Lifecycle
		state     State
		bumped    bool
	}{
		{func() {}, LifecycleSpawning, StateIdle, false},
		{apply(Event{Kind: Unknown}), LifecycleSpawning, StateIdle, true},
		{apply(Event{Kind: SessionStart}), LifecycleWorking, StateThinking, true},
		{apply(Event{Kind: TextDelta}), LifecycleWorking, StateResponding, true},
		{apply(Event{Kind: "of a later version"}), LifecycleWorking, StateResponding, true},
		{apply(Event{Kind: Error}), LifecycleWorking, StateResponding, true},
		{apply(Event{Kind: ToolUse, Tool: "Bash", ToolID: "1"}), LifecycleWorking, StateRunningTool, true},
		{apply(Event{Kind: ToolUse, Tool: "Read", ToolID: "2"}), LifecycleWorking, StateRunningTool, true},
		{apply(Event{Kind: TextDelta}), LifecycleWorking, StateRunningTool, true},
		{apply(Event{Kind: ToolResult, ToolID: "2"}), LifecycleWorking, StateRunningTool, true},
		{apply(Event{Kind: ToolResult, ToolID: "nobody's"}), LifecycleWorking, StateRunningTool, true},
		{apply(Event{Kind: ToolResult, ToolID: "1"}), LifecycleWorking, StateThinking, true},
		{apply(Event{Kind: Done}), LifecycleIdle, StateIdle, true},
		{apply(Event{Kind: Unknown}), LifecycleIdle, StateIdle, true},
		{apply(Event{Kind: ToolResult}), LifecycleIdle, StateIdle, true},
		{apply(Event{Kind: SessionStart}), LifecycleIdle, StateIdle, true},
		{apply(Event{Kind: Thinking}), LifecycleWorking, StateThinking, true},
		{m.MarkIdle, LifecycleIdle, StateIdle, false},
		{apply(Event{Kind: ToolUse}), LifecycleWorking, StateRunningTool, true},
		{apply(Event{Kind: Done}), LifecycleIdle, StateIdle, true},
		{apply(Event{Kind: TextDelta}), LifecycleWorking, StateResponding, true},
		{m.MarkKilled, LifecycleKilled, StateIdle, false},
		{apply(Event{Kind: Thinking}), LifecycleKilled, StateIdle, false},
		{m.Touch, LifecycleKilled, StateIdle, false},
		{m.MarkIdle, LifecycleKilled, StateIdle, false},
		{m.MarkSpawning, LifecycleSpawning, StateIdle, true},
		{apply(Event{Kind: Thinking}), LifecycleWorking, StateThinking, true},
	} {
		before := m.LastActive()
		now = now.Add(time.Second)
		step.do()
		if m.Lifecycle() != step.lifecycle || m.Current() != step.state {
			t.Errorf("step %d: %s, %s; want %s, %s", i, m.Lifecycle(), m.Current(), step.lifecycle, step.state)
		}
		if bumped := !m.LastActive().Equal(before); bumped != step.bumped {
			t.Errorf("step %d: last active moved: %v", i, bumped)
		}
	}
}

func TestMachineTools(t *testing.T) {
	m := NewActivity(nil)
	m.Apply(Event{Kind: ToolUse, Tool: "Bash", ToolID: "1"})
	m.Apply(Event{Kind: ToolUse, Tool: "Read", ToolID: "2"})
	if name, n := m.Tools(); name != "Read" || n != 2 {
		t.Errorf("%s, %d", name, n)
	}
	m.Apply(Event{Kind: ToolResult, ToolID: "2"})
	if name, n := m.Tools(); name != "Bash" || n != 1 {
		t.Errorf("%s, %d", name, n)
	}
}

func TestMachineLabels(t *testing.T) {
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

func TestMachineNilClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := NewActivity(nil)
		began := time.Now()
		time.Sleep(time.Hour) // of the bubble's clock
		m.MarkIdle()
		if !m.LastActive().Equal(began) {
			t.Error("MarkIdle moved LastActive")
		}
		m.Apply(Event{Kind: Unknown})
		if !m.LastActive().Equal(began.Add(time.Hour)) {
			t.Error("an unknown event did not move LastActive")
		}
	})
}

func TestMachineGoroutines(t *testing.T) {
	m := NewActivity(nil)
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 200 {
				m.Apply(Event{Kind: ToolUse})
				m.Current()
				m.Tools()
				m.LastActive()
				m.Apply(Event{Kind: ToolResult})
				m.MarkIdle()
				m.MarkKilled()
				m.MarkSpawning()
				m.Lifecycle()
			}
		})
	}
	all.Wait()
}
