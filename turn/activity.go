package turn

import (
	"slices"
	"sync"
	"time"
)

// Lifecycle is how far the agent's process has come.
type Lifecycle string

// The lifecycles.
const (
	LifecycleSpawning Lifecycle = "spawning" // started, nothing heard yet
	LifecycleWorking  Lifecycle = "working"
	LifecycleIdle     Lifecycle = "idle"   // said that it is done
	LifecycleKilled   Lifecycle = "killed" // ended by us
)

// String gives the label, which is stable.
func (l Lifecycle) String() string { return string(l) }

// State is what the agent is doing.
type State string

// The states.
const (
	StateIdle        State = "idle"
	StateThinking    State = "thinking"
	StateRunningTool State = "running_tool"
	StateResponding  State = "responding"
)

// String gives the label, which is stable.
func (s State) String() string { return string(s) }

// Activity follows one agent through its events, for people to look at and for
// the countdowns. It is lenient: an event that it does not know, or that does
// not fit, keeps the state and still counts as a sign of life. It may be used
// by several goroutines.
type Activity struct {
	now func() time.Time

	mu        sync.Mutex
	lifecycle Lifecycle
	state     State
	tools     []Event // called and not yet answered, in order
	last      time.Time
}

// NewActivity returns a Machine that is spawning and idle. A nil clock is time.Now.
func NewActivity(now func() time.Time) *Activity {
	if now == nil {
		now = time.Now
	}
	return &Activity{now: now, lifecycle: LifecycleSpawning, state: StateIdle, last: now()}
}

// Apply takes one event in. After Done only Thinking, ToolUse and TextDelta
// mean that the agent is at work again; after MarkKilled nothing does.
func (m *Activity) Apply(e Event) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.lifecycle == LifecycleKilled {
		return
	}
	m.last = m.now()

	switch e.Kind {
	case SessionStart:
		if m.lifecycle == LifecycleSpawning {
			m.enter(StateThinking)
		}
	case Thinking:
		m.enter(StateThinking)
	case TextDelta:
		m.enter(StateResponding)
	case ToolUse:
		m.tools = append(m.tools, e)
		m.enter(StateRunningTool)
	case ToolResult:
		m.toolAnswered(e.ToolID)
	case Done:
		m.tools = nil
		m.lifecycle, m.state = LifecycleIdle, StateIdle
	}
}

// enter notes the new state; text between two tools does not hide that a tool
// still runs.
func (m *Activity) enter(s State) {
	m.lifecycle = LifecycleWorking
	if len(m.tools) > 0 {
		s = StateRunningTool
	}
	m.state = s
}

// toolAnswered strikes out the tool with this id, or the oldest one if the agent
// gives no ids.
func (m *Activity) toolAnswered(id string) {
	i := slices.IndexFunc(m.tools, func(e Event) bool { return e.ToolID == id })
	if i < 0 {
		return
	}
	m.tools = slices.Delete(m.tools, i, i+1)
	if len(m.tools) == 0 {
		m.state = StateThinking
	}
}

// Current is what the agent is doing.
func (m *Activity) Current() State {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.state
}

// Lifecycle is how far the agent's process has come.
func (m *Activity) Lifecycle() Lifecycle {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.lifecycle
}

// LastActive is when the agent last gave a sign of life.
func (m *Activity) LastActive() time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.last
}

// Tools gives the name of the tool called last, and how many tools were called
// and have not answered.
func (m *Activity) Tools() (last string, waiting int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.tools) == 0 {
		return "", 0
	}
	return m.tools[len(m.tools)-1].Tool, len(m.tools)
}

// Touch notes a sign of life that is no event, such as a line on stderr.
func (m *Activity) Touch() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.lifecycle != LifecycleKilled {
		m.last = m.now()
	}
}

// MarkSpawning begins anew; it alone revives a killed Machine.
func (m *Activity) MarkSpawning() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.lifecycle, m.state, m.tools, m.last = LifecycleSpawning, StateIdle, nil, m.now()
}

// MarkIdle notes that the agent rests. It keeps LastActive, and a killed
// Machine stays killed.
func (m *Activity) MarkIdle() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.lifecycle == LifecycleKilled {
		return
	}
	m.lifecycle, m.state, m.tools = LifecycleIdle, StateIdle, nil
}

// MarkKilled notes that the agent was ended.
func (m *Activity) MarkKilled() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.lifecycle, m.state, m.tools = LifecycleKilled, StateIdle, nil
}
