package turn

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"agentstateloop/internal/osfile"
	"agentstateloop/internal/plain"
)

const (
	feedName = "feed.jsonl"

	// maxFeed bounds the feed of an attempt, in bytes. Its writer stops earlier.
	maxFeed = 1 << 20

	// maxStepName bounds the name and the id of a tool in the feed, in bytes.
	maxStepName = 128
)

// StepKind is the kind of a Step.
type StepKind string

// The kinds of steps. Text and thinking make one step each, at their beginning.
const (
	StepSession    StepKind = "session"
	StepThinking   StepKind = "thinking"
	StepText       StepKind = "text"
	StepToolUse    StepKind = "tool_use"
	StepToolResult StepKind = "tool_result"
	StepError      StepKind = "error"
	StepDone       StepKind = "done"
	StepState      StepKind = "state"   // the lifecycle or the state has changed
	StepDropped    StepKind = "dropped" // the feed is full: the steps until the end are missing
)

// Step is one line of the feed of an attempt, for live observers. It contains the names of tools,
// sizes and times, but no text of the agent.
type Step struct {
	N     int       `json:"n"` // starts at 1
	At    time.Time `json:"at"`
	Kind  StepKind  `json:"kind"`
	Tool  string    `json:"tool,omitempty"`
	ID    string    `json:"tool_id,omitempty"`
	Bytes int       `json:"bytes,omitempty"` // size of the text of a tool result, an error or a Done
	Model string    `json:"model,omitempty"`
	Fails bool      `json:"failed,omitempty"` // a Done that reports a failure

	// The state of the agent after the step.
	Lifecycle    Lifecycle `json:"lifecycle"`
	State        State     `json:"state"`
	WaitingTools int       `json:"waiting_tool_count,omitempty"`
	Reason       string    `json:"reason,omitempty"` // why the agent is killed
	CostUSD      float64   `json:"cost_usd,omitempty"`
}

// Name returns the state of a working agent. If the agent is idle or not working, it returns the
// lifecycle.
func (s Step) Name() string {
	if s.Lifecycle != LifecycleWorking || s.State == StateIdle {
		return s.Lifecycle.String()
	}
	return s.State.String()
}

// Feed writes the steps of one attempt. The feed only informs observers: steps that cannot be
// written are dropped.
type Feed struct {
	path     string
	file     *os.File // nil before the first step, or if it cannot be created
	room     int
	n        int
	last     EventKind // kind of the previous event
	lastLive Live      // the lifecycle and state that the feed shows
	closed   bool
}

// NewFeed returns the feed of the attempt in dir. The first step creates its file.
func NewFeed(dir string) *Feed {
	return &Feed{path: filepath.Join(dir, feedName), room: maxFeed - 4096}
}

// Watch writes the steps of p. It is a watch function for Answer.
func (f *Feed) Watch(p Progress) {
	if f.closed {
		return
	}
	for _, s := range f.steps(p) {
		f.write(s)
	}
	if p.Live.Lifecycle == LifecycleKilled && p.Event.Kind == "" {
		f.close()
	}
}

// steps returns the steps for an event and the state after it.
func (f *Feed) steps(p Progress) (steps []Step) {
	e, same := p.Event, p.Event.Kind == f.last
	f.last = e.Kind
	s := Step{Tool: shortName(e.Tool), ID: shortName(e.ToolID), Model: shortName(e.Model), CostUSD: e.CostUSD, Fails: e.Failed}
	switch e.Kind {
	case SessionStart:
		s.Kind = StepSession
	case Thinking:
		s.Kind = StepThinking
	case TextDelta:
		s.Kind = StepText
	case ToolUse:
		s.Kind = StepToolUse
	case ToolResult:
		s.Kind, s.Bytes = StepToolResult, len(e.Text)
	case Error:
		s.Kind, s.Bytes = StepError, len(e.Text)
	case Done:
		s.Kind, s.Bytes = StepDone, len(e.Text)
	}
	if s.Kind != "" && !(same && (e.Kind == Thinking || e.Kind == TextDelta)) {
		steps = append(steps, s)
	}
	if p.Live.Lifecycle != f.lastLive.Lifecycle || p.Live.State != f.lastLive.State {
		steps = append(steps, Step{Kind: StepState, Reason: p.Live.Reason, Tool: shortName(p.Live.Tool)})
	}
	f.lastLive = p.Live
	return steps
}

// write writes one step. In a full feed it writes a StepDropped instead of the first step that
// does not fit, and drops the others. The step that reports the agent's end always fits, once.
func (f *Feed) write(s Step) {
	s.Lifecycle, s.State, s.WaitingTools = f.lastLive.Lifecycle, f.lastLive.State, f.lastLive.WaitingTools
	if f.room <= 0 && (s.Kind != StepState || s.Lifecycle != LifecycleKilled) {
		if f.room < 0 {
			return
		}
		f.room = -1
		s = Step{Kind: StepDropped, Lifecycle: s.Lifecycle, State: s.State}
	}
	f.n++
	s.N, s.At = f.n, time.Now().UTC()
	b, err := json.Marshal(s)
	if err == nil && f.file == nil {
		f.file, err = os.OpenFile(f.path, os.O_WRONLY|os.O_CREATE|os.O_EXCL|os.O_APPEND, 0o600)
	}
	if err == nil {
		_, err = f.file.Write(append(b, '\n'))
	}
	if err != nil {
		f.close()
		return
	}
	if f.room > 0 {
		f.room = max(0, f.room-len(b)-1)
	}
}

func (f *Feed) close() {
	f.closed = true
	if f.file != nil {
		f.file.Close()
	}
}

// shortName shortens a name from the agent and makes it fit to show.
func shortName(s string) string { return plain.Line(plain.Cut(s, maxStepName)) }

// FeedReader reads the feed of an attempt as it grows.
type FeedReader struct {
	Dir    string // of the attempt
	offset int64
}

// Next returns the steps that were written since the last call, or nil if the attempt has no
// feed. It skips lines that do not parse.
func (r *FeedReader) Next() ([]Step, error) {
	f, err := osfile.OpenAtMost(filepath.Join(r.Dir, feedName), maxFeed)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read steps: %w", err)
	}
	defer f.Close()
	b, err := io.ReadAll(io.NewSectionReader(f, r.offset, maxFeed))
	if err != nil {
		return nil, fmt.Errorf("read steps: %w", err)
	}
	b = b[:bytes.LastIndexByte(b, '\n')+1]
	r.offset += int64(len(b))
	var steps []Step
	for line := range bytes.Lines(b) {
		var s Step
		if json.Unmarshal(line, &s) == nil && s.Kind != "" {
			steps = append(steps, s)
		}
	}
	return steps, nil
}
