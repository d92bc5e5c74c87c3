package react

import (
	"context"
	"encoding/json"
	"strings"

	"agentstateloop/turn"
)

// Model is an inference API.
type Model interface {
	// Answer asks one question, streamed: each piece of the answer's text is
	// given to say as it comes. It makes one request and no retry. Its error is
	// a *Fault where it can say more than that it failed; the Answer then holds
	// what had come, of which only Usage is of use.
	Answer(ctx context.Context, q Question, say func(text string)) (Answer, error)
}

// Question is one request to a model.
type Question struct {
	Model     string // its name
	System    string // "" leaves it out
	Messages  []Message
	Tools     []Tool
	MaxOutput int // tokens
}

// size is the length of what is put to the model, in bytes.
func (q Question) size() int {
	n := len(q.System)
	for _, m := range q.Messages {
		n += len(m.Text)
		for _, c := range m.Calls {
			n += len(c.Name) + len(c.Args)
		}
		for _, r := range m.Results {
			n += len(r.Text)
		}
	}
	for _, t := range q.Tools {
		n += len(t.Name) + len(t.Description) + len(t.Schema)
	}
	return n
}

// Message is one entry of a conversation. The model's has a text, calls or
// both; what it is told has the results of its calls, a text or both.
type Message struct {
	Model   bool // said by the model
	Text    string
	Calls   []Call
	Results []Result
}

// Call is a tool call as the model wrote it.
type Call struct {
	ID   string `json:"id"`
	Name string `json:"name"`
	Args string `json:"args"` // JSON, or what the model took for it
}

// valid says whether the arguments are a JSON object, which alone may be sent
// back to an API.
func (c Call) valid() bool {
	var object map[string]json.RawMessage
	return json.Unmarshal([]byte(c.Args), &object) == nil && object != nil
}

// input are the arguments as an API takes them back. What was no object is told
// in the call's result.
func (c Call) input() json.RawMessage {
	if !c.valid() {
		return json.RawMessage("{}")
	}
	return json.RawMessage(c.Args)
}

// Result is what one call came to.
type Result struct {
	ID     string
	Text   string
	Failed bool
}

// Answer is what a model said to one question.
type Answer struct {
	Text  string `json:"text,omitempty"`
	Calls []Call `json:"calls,omitempty"`
	Stop  Stop   `json:"stop"`
	Word  string `json:"word,omitempty"`  // the API's own for Stop
	Model string `json:"model,omitempty"` // that answered, as it names itself

	// Usage counts each token once: Input are those that no cache held. It is
	// zero if the API did not say. CostUSD is its own figure; 0 if it has none.
	Usage   turn.Usage `json:"usage,omitzero"`
	CostUSD float64    `json:"cost_usd,omitempty"`
}

// empty says that there is nothing in it.
func (a Answer) empty() bool { return strings.TrimSpace(a.Text) == "" && len(a.Calls) == 0 }

// fillIn gives calls that came without arguments none: a stream says nothing of
// them. The last call of an answer that was cut may have lost its own.
func (a *Answer) fillIn() {
	for i, c := range a.Calls {
		if c.Args == "" && (a.Stop != StopLength || i < len(a.Calls)-1) {
			a.Calls[i].Args = "{}"
		}
	}
}

// size is the length of the text and the arguments, in bytes.
func (a Answer) size() int {
	n := len(a.Text)
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
	StopTools   Stop = "tools"   // it wants its calls run
	StopLength  Stop = "length"  // the answer is longer than it may be
	StopRefusal Stop = "refusal" // it, or a filter, refused to go on
	StopPause   Stop = "pause"   // it wants to be asked to go on
)

// maxAnswer is where an answer is cut, in bytes: what package turn keeps.
const maxAnswer = turn.DefaultMaxOutput
