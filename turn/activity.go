package turn

import "slices"

// Lifecycle is the stage of the agent's process.
type Lifecycle string

// The lifecycles.
const (
	LifecycleSpawning Lifecycle = "spawning" // started, no event yet
	LifecycleWorking  Lifecycle = "working"
	LifecycleIdle     Lifecycle = "idle"   // it reported that it is done; its process still lives
	LifecycleKilled   Lifecycle = "killed" // its process has ended, or is being ended, for a reason
)

// String returns the label. Labels do not change between versions.
func (l Lifecycle) String() string { return string(l) }

// State names what the agent is doing.
type State string

// The states.
const (
	StateIdle        State = "idle"
	StateThinking    State = "thinking"
	StateRunningTool State = "running_tool"
	StateResponding  State = "responding"
)

// String returns the label. Labels do not change between versions.
func (s State) String() string { return string(s) }

// activity tracks one agent through its events, for the live view and the deadlines. It is
// lenient: an unknown or unexpected event leaves the state as it is.
type activity struct {
	lifecycle Lifecycle
	state     State
	reason    string  // why it is killed; "" otherwise
	tools     []Event // calls without a result, in order
}

// newActivity returns an activity that is spawning and idle.
func newActivity() activity {
	return activity{lifecycle: LifecycleSpawning, state: StateIdle}
}

// apply processes one event and returns the state. The first event of any kind leaves Spawning.
// After Done, only Thinking, ToolUse and TextDelta mean that the agent works again. After exited,
// apply ignores all events.
func (a *activity) apply(e Event) State {
	if a.lifecycle == LifecycleKilled {
		return a.state
	}
	if a.lifecycle == LifecycleSpawning {
		a.lifecycle = LifecycleWorking
	}
	switch e.Kind {
	case SessionStart:
		if a.lifecycle == LifecycleWorking && a.state == StateIdle {
			a.enter(StateThinking)
		}
	case Thinking:
		a.enter(StateThinking)
	case TextDelta:
		a.enter(StateResponding)
	case ToolUse:
		a.tools = append(a.tools, e)
		a.enter(StateRunningTool)
	case ToolResult:
		a.toolAnswered(e.ToolID)
	case Done:
		a.tools = nil
		a.lifecycle, a.state = LifecycleIdle, StateIdle
	}
	return a.state
}

// enter sets the state of a working agent. Text between two tools does not hide a running tool.
func (a *activity) enter(s State) {
	a.lifecycle = LifecycleWorking
	if len(a.tools) > 0 {
		s = StateRunningTool
	}
	a.state = s
}

// toolAnswered removes the tool with this id. An agent without ids uses the empty id everywhere,
// so its oldest tool is removed.
func (a *activity) toolAnswered(id string) {
	i := slices.IndexFunc(a.tools, func(e Event) bool { return e.ToolID == id })
	if i < 0 {
		return
	}
	a.tools = slices.Delete(a.tools, i, i+1)
	if len(a.tools) == 0 {
		a.state = StateThinking
	}
}

// waitingTools returns the name of the last tool called and the number of calls without a result.
func (a *activity) waitingTools() (last string, waiting int) {
	if len(a.tools) == 0 {
		return "", 0
	}
	return a.tools[len(a.tools)-1].Tool, len(a.tools)
}

// exited records that the agent's process has ended, or is being ended, and why. The first reason
// stays.
func (a *activity) exited(reason string) {
	if a.lifecycle == LifecycleKilled {
		return
	}
	a.lifecycle, a.state, a.tools, a.reason = LifecycleKilled, StateIdle, nil, reason
}
