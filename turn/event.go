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
	Done         EventKind = "done"          // Text: the whole answer, or the reason of a failure. Failed, Cut, CostUSD, Usage, Context, Window
	Error        EventKind = "error"         // Text: an error that may be transient
	Note         EventKind = "note"          // Text: a remark to the operator for the end of the answer
	Refused      EventKind = "refused"       // Tool, Text: an action that the agent was denied
	Permission   EventKind = "permission"    // Tool: its kind; ToolID: the request's identity; Text: the decision; Question
	Unknown      EventKind = "unknown"       // Text: the unrecognized line, truncated
)

// String returns the label. Labels do not change between versions.
func (k EventKind) String() string { return string(k) }

// Event is one step of an agent, as its stream reports it.
type Event struct {
	Kind    EventKind `json:"kind"`
	Text    string    `json:"text,omitempty"`
	Tool    string    `json:"tool,omitempty"`
	ToolID  string    `json:"tool_id,omitempty"`
	Session string    `json:"session,omitempty"`
	Model   string    `json:"model,omitempty"`
	Failed  bool      `json:"failed,omitempty"`

	// Limited means that the account has reached a limit, Overload that the provider is
	// overloaded. Either ends at Until, or at an unknown time if Until is zero.
	Limited  bool      `json:"limited,omitempty"`
	Overload bool      `json:"overload,omitempty"`
	Until    time.Time `json:"until,omitzero"`

	// Obstacle means that this machine or its configuration prevents the turn.
	Obstacle bool `json:"obstacle,omitempty"`

	Cut     string  `json:"cut,omitempty"` // why the answer is incomplete
	CostUSD float64 `json:"cost_usd,omitempty"`
	Usage   Usage   `json:"usage,omitzero"`
	// Question is the id of the question to the operator.
	Question string `json:"question,omitempty"`

	Context int64 `json:"context,omitempty"` // tokens in the agent's session, if it reports them
	Window  int64 `json:"window,omitempty"`  // the model's context window in tokens, if the agent reports it
}

// Progress is the report that Run passes to its caller after each event.
type Progress struct {
	Event Event
	Live  Live
}
