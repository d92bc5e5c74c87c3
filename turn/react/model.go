package react

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"agentstateloop/turn"
)

// Model is an inference API.
type Model interface {
	// Answer asks one question in one request, without a retry. It passes each
	// piece of the answer's text to say as it arrives. The error is a *Fault if
	// the API sent an error response. With an error the Answer holds what had
	// arrived; only its Usage is of use.
	Answer(ctx context.Context, q Question, say func(text string)) (Answer, error)
}

// Question is one request to a model.
type Question struct {
	Model     string // its name for the API
	System    string // "" for none
	Messages  []Message
	Tools     []Tool
	MaxOutput int // tokens
	Shape     Shape
}

// thinks reports whether the model takes the limit of an answer as max_completion_tokens.
func (q Question) thinks() bool { return turn.Thinks(q.Model) }

// keptNames returns the names of the members that go back to the server.
func (q Question) keptNames() (all []string) {
	add := func(m members) {
		for _, name := range slices.Sorted(maps.Keys(m)) {
			if !slices.Contains(all, name) {
				all = append(all, name)
			}
		}
	}
	for _, m := range q.Messages {
		if m.Kept == nil {
			continue
		}
		add(m.Kept.Message)
		for _, c := range m.Kept.Calls {
			add(c.Call)
			add(c.Function)
		}
	}
	return all
}

// size returns the length of the question in bytes.
func (q Question) size() int {
	n := len(q.System)
	for _, m := range q.Messages {
		n += len(m.Text) + m.Kept.size()
		for _, c := range m.Calls {
			n += len(c.Name) + len(c.Args)
		}
		for _, r := range m.Results {
			n += len(r.Text)
		}
		for _, s := range m.Shown {
			n += s.Tokens * bytesPerToken
		}
	}
	for _, t := range q.Tools {
		n += len(t.Name) + len(t.Description) + len(t.Schema)
	}
	return n
}

// Message is one entry of a conversation. The model's messages have a text, calls or
// both. The others have results of its calls, files that it is shown, and a text.
type Message struct {
	Model   bool // said by the model
	Text    string
	Calls   []Call
	Results []Result
	Shown   []Shown
	Kept    *Kept // of a message of the model with calls
}

// Call is a tool call as the model wrote it.
type Call struct {
	ID   string `json:"id"`
	Name string `json:"name"`
	Args string `json:"args"` // JSON, if the model wrote it correctly
}

// valid reports whether the arguments are a JSON object. Only such arguments may be
// sent back to an API.
func (c Call) valid() bool {
	var object map[string]json.RawMessage
	return json.Unmarshal([]byte(c.Args), &object) == nil && object != nil
}

// input returns the arguments in the form that an API takes back. Arguments that are
// not an object are left out; the result of the call reports them.
func (c Call) input() json.RawMessage {
	if !c.valid() {
		return json.RawMessage("{}")
	}
	return json.RawMessage(c.Args)
}

// Result is the result of one call.
type Result struct {
	ID     string
	Text   string
	Failed bool
}

// Answer is a model's answer to one question.
type Answer struct {
	Text  string `json:"text,omitempty"`
	Calls []Call `json:"calls,omitempty"`
	Stop  Stop   `json:"stop"`
	Word  string `json:"word,omitempty"`  // the API's own name of Stop
	Model string `json:"model,omitempty"` // the name that it has for itself

	// Usage counts each token once: Input are those that no cache held. It is
	// zero if the API did not report it. CostUSD is the API's own figure; 0 if
	// it has none.
	Usage   turn.Usage `json:"usage,omitzero"`
	CostUSD float64    `json:"cost_usd,omitempty"`

	// Reported is Usage before what is missing was estimated.
	Reported turn.Usage `json:"-"`

	Kept *Kept `json:"kept,omitempty"`

	// Unread are the members that could not be read, in words.
	Unread []string `json:"unread,omitempty"`
}

// empty reports whether the answer has neither text nor calls.
func (a Answer) empty() bool { return strings.TrimSpace(a.Text) == "" && len(a.Calls) == 0 }

// fillIn sets the arguments of calls that came without any. It leaves out the last
// call of a truncated answer, which may have lost its arguments.
func (a *Answer) fillIn() {
	for i, c := range a.Calls {
		if c.Args == "" && (a.Stop != StopLength || i < len(a.Calls)-1) {
			a.Calls[i].Args = "{}"
		}
	}
}

// size returns the length of the text and the arguments in bytes.
func (a Answer) size() int {
	n := len(a.Text) + a.Kept.size()
	for _, c := range a.Calls {
		n += len(c.Name) + len(c.Args)
	}
	return n
}

// Stop is why a model stopped.
type Stop string

// The stops.
const (
	StopEnd     Stop = "end"     // it is done
	StopTools   Stop = "tools"   // its calls are to be run
	StopLength  Stop = "length"  // the answer is longer than it may be
	StopRefusal Stop = "refusal" // it, or a filter, refused to go on
	StopPause   Stop = "pause"   // it is to be asked to go on
)

// maxAnswer is where an answer is truncated, in bytes. Package turn keeps no more.
const maxAnswer = turn.DefaultMaxOutput
