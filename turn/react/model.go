package react

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"

	"agentstateloop/turn"
)

// Model is an inference API.
type Model interface {
	// Answer asks one question in one request, without a retry. It passes each piece of the
	// answer's text to say as it arrives. The error is a *Fault if the API sent an error
	// response. With an error the Answer holds the parts that had arrived.
	Answer(ctx context.Context, q Question, say func(text string)) (Answer, error)
}

// Question is one request to a model.
type Question struct {
	Model     string // the model's name in the API
	System    string // "" omits it
	Messages  []Message
	Tools     []Tool
	MaxOutput int // tokens
	Shape     Shape
}

// extraNames returns the names of the members that go back to the server.
func (q Question) extraNames() (all []string) {
	for _, message := range q.Messages {
		for _, m := range message.Extras.objects() {
			for _, name := range slices.Sorted(maps.Keys(m)) {
				if !slices.Contains(all, name) {
					all = append(all, name)
				}
			}
		}
	}
	return all
}

// size returns the size of the question in bytes.
func (q Question) size() int {
	n := len(q.System)
	for _, m := range q.Messages {
		n += len(m.Text) + m.Extras.size()
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

// Message is one entry of a conversation. A message of the model has a text, calls or both. A
// message to the model has results of its calls, shown files, and a text.
type Message struct {
	Model   bool // from the model
	Text    string
	Calls   []Call
	Results []Result
	Shown   []ShownFile
	Extras  *Extras // for a message of the model with calls
}

// Call is a tool call as the model wrote it.
type Call struct {
	ID   string `json:"id"`
	Name string `json:"name"`
	Args string `json:"args"` // valid JSON unless the model made a mistake
}

// valid reports whether the arguments are a JSON object. Only such arguments may go back to an
// API.
func (c Call) valid() bool {
	var object map[string]json.RawMessage
	return json.Unmarshal([]byte(c.Args), &object) == nil && object != nil
}

// input returns the arguments in a form that an API accepts back. It replaces arguments that
// are not an object by an empty one; the result of the call reports them.
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
	Word  string `json:"word,omitempty"`  // the API's word for Stop
	Model string `json:"model,omitempty"` // the model's name for itself

	// Usage counts each token once: Input excludes cached tokens. Usage is zero if the API did
	// not report it. CostUSD is the API's own figure, or 0 without one.
	Usage   turn.Usage `json:"usage,omitzero"`
	CostUSD float64    `json:"cost_usd,omitempty"`

	// Reported is Usage without estimates.
	Reported turn.Usage `json:"-"`

	Extras *Extras `json:"kept,omitempty"`

	// Unread describes the members that could not be read.
	Unread []string `json:"unread,omitempty"`
}

// addUnread adds descriptions of unreadable members, as many as an answer keeps.
func (a *Answer) addUnread(all []string) {
	for _, what := range all {
		if len(a.Unread) < maxUnread {
			a.Unread = append(a.Unread, what)
		}
	}
}

// empty reports whether the answer has no text and no calls.
func (a Answer) empty() bool { return strings.TrimSpace(a.Text) == "" && len(a.Calls) == 0 }

// fillIn sets missing arguments of calls to an empty object. It skips the last call of a
// truncated answer, which may have lost its arguments.
func (a *Answer) fillIn() {
	for i, c := range a.Calls {
		if c.Args == "" && (a.Stop != StopLength || i < len(a.Calls)-1) {
			a.Calls[i].Args = "{}"
		}
	}
}

// size returns the size of the text and the arguments in bytes.
func (a Answer) size() int {
	n := len(a.Text) + a.Extras.size()
	for _, c := range a.Calls {
		n += len(c.Name) + len(c.Args)
	}
	return n
}

// Stop is the reason why a model stopped.
type Stop string

// The reasons to stop.
const (
	StopEnd     Stop = "end"     // the model is done
	StopTools   Stop = "tools"   // the model wants its calls run
	StopLength  Stop = "length"  // the answer reached the length limit
	StopRefusal Stop = "refusal" // the model, or a filter, refused to go on
	StopPause   Stop = "pause"   // the model wants to be asked to go on
)

// maxAnswer is the size, in bytes, at which an answer is truncated. Package turn keeps no more.
const maxAnswer = turn.DefaultMaxOutput

// Models returns the names of the API's models, from one page of its list. The request is free
// of charge. The error is a *Fault if the API sent an error response.
func (m *Messages) Models(ctx context.Context) ([]string, error) {
	return m.http.models(ctx, m.endpoint("models?limit=1000"), m.header())
}

// Models returns the names of the API's models. The request is free of charge. The error is a
// *Fault if the API sent an error response. Some servers do not have this list; see
// ListUnsupported.
func (c *Chat) Models(ctx context.Context) ([]string, error) {
	return c.http.models(ctx, c.url+"/models", c.header())
}

// maxList bounds a list of models, in bytes. The longest known list has a few hundred
// kilobytes.
const maxList = 8 << 20

// models reads a list of models; both APIs use the same form.
func (w *httpClient) models(ctx context.Context, url string, header http.Header) ([]string, error) {
	res, err := w.send(ctx, http.MethodGet, url, nil, header)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	var list struct {
		Data []struct {
			ID string `json:"id"`
		} `json:"data"`
	}
	if err := json.NewDecoder(io.LimitReader(res.Body, maxList)).Decode(&list); err != nil {
		return nil, fmt.Errorf("read list of models, at most %d bytes: %w", maxList, err)
	}
	var names []string
	for _, model := range list.Data {
		names = append(names, model.ID)
	}
	return names, nil
}

// ListUnsupported reports whether an error of Models means that the API has no list of models.
// The API may work nevertheless.
func ListUnsupported(err error) bool {
	f, ok := errors.AsType[*Fault](err)
	return ok && (f.Status == http.StatusNotFound || f.Status == http.StatusMethodNotAllowed || f.Status == http.StatusNotImplemented)
}

// KeyRefused reports whether an error of Models means that the API refused the key.
func KeyRefused(err error) bool { return classify(err) == refused }

// thinkFilter passes on the text of an answer as it arrives, without the thoughts at its
// beginning.
type thinkFilter struct {
	say     func(string)
	pending string // text that is, or may be, a thought
	past    bool   // the text after the thoughts has begun
}

func (f *thinkFilter) add(text string) {
	if f.past {
		f.say(text)
		return
	}
	f.pending += text
	rest, undecided := turn.AfterThoughts(f.pending)
	if undecided {
		return
	}
	f.past, f.pending = true, ""
	if rest != "" {
		f.say(rest)
	}
}

// end passes on the held text, unless it is a thought.
func (f *thinkFilter) end() {
	if rest := turn.WithoutThoughts(f.pending); !f.past && rest != "" {
		f.say(rest)
	}
}
