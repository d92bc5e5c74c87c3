package turn

// EventKind says what an agent did.
type EventKind string

// The kinds of events, the same for every agent.
const (
	SessionStart EventKind = "session_start" // Session
	Thinking     EventKind = "thinking"      // Text
	TextDelta    EventKind = "text_delta"    // Text: a piece of the answer
	ToolUse      EventKind = "tool_use"      // Tool, ToolID
	ToolResult   EventKind = "tool_result"   // ToolID
	Done         EventKind = "done"          // Text: the whole answer, or why it failed; Failed, CostUSD, Usage
	Error        EventKind = "error"         // Text: a fault that may pass
	Unknown      EventKind = "unknown"       // Text: what was not understood, cut
)

// String gives the label, which is stable.
func (k EventKind) String() string { return string(k) }

// Event is one thing that an agent did, as its stream tells it.
type Event struct {
	Kind    EventKind `json:"kind"`
	Text    string    `json:"text,omitempty"`
	Tool    string    `json:"tool,omitempty"`
	ToolID  string    `json:"tool_id,omitempty"`
	Session string    `json:"session,omitempty"`
	Failed  bool      `json:"failed,omitempty"`
	CostUSD float64   `json:"cost_usd,omitempty"`
	Usage   Usage     `json:"usage,omitzero"`
}

// Progress is what Run tells its caller after each event.
type Progress struct {
	Event Event
	Live  Live
}
