package turn

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"agentstateloop/internal/lazy"
	"agentstateloop/internal/plain"
)

// maxLine bounds a line of a JSON stream, in bytes.
const maxLine = 4 << 20

// maxUnknown bounds the text that an event keeps of an unrecognized line, in bytes.
const maxUnknown = 4 << 10

// streamText emits plain output as it arrives, until EOF. It does not split a character, because an
// event is stored as JSON, which would corrupt the halves.
func streamText(r io.Reader, emit func(Event)) {
	buf := make([]byte, 32<<10)
	held := 0
	for {
		n, err := r.Read(buf[held:])
		text := buf[:held+n]
		if err == nil {
			text = plain.TrimPartial(text)
		}
		if len(text) > 0 {
			emit(Event{Kind: TextDelta, Text: string(text)})
		}
		held = copy(buf, buf[len(text):held+n])
		if err != nil {
			return
		}
	}
}

// readLines emits the events of a stream of JSON lines, until EOF. A line longer than maxLine
// becomes an Error event and is not kept in memory. The last line needs no newline.
func readLines(r io.Reader, parse parser, emit func(Event)) {
	br := bufio.NewReaderSize(r, 64<<10)
	var line []byte
	size := 0
	flush := func() {
		switch {
		case size > maxLine:
			emit(Event{Kind: Error, Text: fmt.Sprintf("skipped an output line of %d bytes: the limit is %d", size, maxLine)})
		case len(bytes.TrimSpace(line)) > 0:
			for _, e := range parse(bytes.TrimSpace(line)) {
				emit(e)
			}
		}
		if cap(line) > 1<<20 {
			line = nil
		}
		line, size = line[:0], 0
	}
	for {
		part, err := br.ReadSlice('\n')
		size += len(part)
		if size <= maxLine {
			line = append(line, part...)
		}
		if err == nil {
			flush()
		} else if !errors.Is(err, bufio.ErrBufferFull) {
			flush()
			return
		}
	}
}

// parser returns the events of one line of an agent's stream. An unrecognized line becomes an
// Unknown event.
type parser func(line []byte) []Event

// unknownEvent returns the event for an unrecognized line.
func unknownEvent(line []byte) []Event {
	return []Event{{Kind: Unknown, Text: plain.Cut(clean(string(line[:min(len(line), maxUnknown)])), maxUnknown)}}
}

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

// Self-hosted models print their thoughts before the answer, in a block that their server should
// have converted. Such a block is never mailed or sent back.
var (
	thoughtBegins = lazy.NewRegexp(`^\s*(?:<(think|thinking|thought|thoughts|reasoning|reflection|seed:think|ant:thinking)>|(◁think▷)|(\[THINK\]))`)
	thoughtEnds   = lazy.NewRegexp(`(?m)^\s*(?:</(?:think|thinking|thought|reasoning|seed:think)>|◁/think▷|\[/THINK\])[ \t]*$`)
)

// longestTag is the length of the longest opening tag, in bytes.
const longestTag = len("<ant:thinking>")

// AfterThoughts returns the text after the thoughts at its beginning. undecided is true if
// further text could make it a thought, or end one.
func AfterThoughts(text string) (rest string, undecided bool) {
	for {
		m := thoughtBegins.Get().FindStringSubmatchIndex(text)
		if m == nil {
			begins := strings.TrimLeft(text, " \t\r\n")
			return text, len(begins) < longestTag && mayBegin(begins)
		}
		end := closingTag(text, m)
		at := strings.Index(text[m[1]:], end)
		if at < 0 {
			return "", true
		}
		text = strings.TrimLeft(text[m[1]+at+len(end):], " \t\r\n")
	}
}

// closingTag returns the closing tag for a match of thoughtBegins.
func closingTag(text string, m []int) string {
	switch {
	case m[2] >= 0:
		return "</" + text[m[2]:m[3]] + ">"
	case m[4] >= 0:
		return "◁/think▷"
	}
	return "[/THINK]"
}

// mayBegin reports whether text could be the start of an opening tag.
func mayBegin(text string) bool {
	for _, tag := range []string{"<think>", "<thinking>", "<thought>", "<thoughts>", "<reasoning>", "<reflection>", "<seed:think>", "<ant:thinking>", "◁think▷", "[THINK]"} {
		if strings.HasPrefix(tag, text) {
			return true
		}
	}
	return false
}

// withoutThoughts returns a whole text without the thoughts at its beginning, closed or not.
func withoutThoughts(text string) string {
	if !thoughtBegins.Get().MatchString(text) {
		return text
	}
	rest, _ := AfterThoughts(text)
	return rest
}

// WithoutThoughts does the same for the answer of a model whose server may have dropped the
// opening tag. In that case a closing tag on a line of its own ends the thought.
func WithoutThoughts(text string) string {
	m := thoughtEnds.Get().FindStringIndex(text)
	if m == nil || thoughtBegins.Get().MatchString(text) || strings.Contains(text[:m[0]], "<think") {
		return withoutThoughts(text)
	}
	return strings.TrimLeft(text[m[1]:], " \t\r\n")
}

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
		a.removeTool(e.ToolID)
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

// removeTool removes the tool with this id. An agent without ids uses the empty id everywhere,
// so its oldest tool is removed.
func (a *activity) removeTool(id string) {
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

// setExited records that the agent's process has ended, or is being ended, and why. The first
// reason stays.
func (a *activity) setExited(reason string) {
	if a.lifecycle == LifecycleKilled {
		return
	}
	a.lifecycle, a.state, a.tools, a.reason = LifecycleKilled, StateIdle, nil, reason
}
