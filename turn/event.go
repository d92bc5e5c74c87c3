package turn

import "time"

// EventKind is the kind of an Event.
type EventKind string

// The kinds of events, the same for every agent.
const (
	SessionStart EventKind = "session_start" // Session, Model
	Thinking     EventKind = "thinking"      // Text
	TextDelta    EventKind = "text_delta"    // Text: a piece of the answer
	ToolUse      EventKind = "tool_use"      // Tool, ToolID
	ToolResult   EventKind = "tool_result"   // ToolID
	Done         EventKind = "done"          // Text: the whole answer, or why it failed. Failed, Cut, CostUSD, Usage, Context, Window
	Error        EventKind = "error"         // Text: an error that may pass
	Note         EventKind = "note"          // Text: what the operator should hear at the end of the answer
	Refused      EventKind = "refused"       // Tool, Text: what the agent was not permitted to do
	Permission   EventKind = "permission"    // Tool: its kind; ToolID: what identifies the request; Text: how it was decided; Question
	Unknown      EventKind = "unknown"       // Text: the line that was not understood, truncated
)

// String returns the label. Labels do not change between versions.
func (k EventKind) String() string { return string(k) }

// Event is one thing that an agent did, as its stream reports it.
type Event struct {
	Kind    EventKind `json:"kind"`
	Text    string    `json:"text,omitempty"`
	Tool    string    `json:"tool,omitempty"`
	ToolID  string    `json:"tool_id,omitempty"`
	Session string    `json:"session,omitempty"`
	Model   string    `json:"model,omitempty"`
	Failed  bool      `json:"failed,omitempty"`

	// Limited says that the account, or with Overload the provider, can answer later; at
	// Until, if that is not zero.
	Limited  bool      `json:"limited,omitempty"`
	Overload bool      `json:"overload,omitempty"`
	Until    time.Time `json:"until,omitzero"`

	// Obstacle says that something on this machine, or in its configuration, prevents the turn.
	Obstacle bool `json:"obstacle,omitempty"`

	Cut     string  `json:"cut,omitempty"` // why the answer is not whole
	CostUSD float64 `json:"cost_usd,omitempty"`
	Usage   Usage   `json:"usage,omitzero"`
	// Question is the id of the question that was put to the operator.
	Question string `json:"question,omitempty"`

	Context int64 `json:"context,omitempty"` // tokens that its session holds, if it reports them
	Window  int64 `json:"window,omitempty"`  // tokens that its model can hold, if it reports them
}

// Progress is passed by Run to its caller after each event.
type Progress struct {
	Event Event
	Live  Live
}
