package react

import (
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strings"
)

// Shape is how the requests to one model differ from the usual ones: by what the user sets, and
// by what its server has refused.
type Shape struct {
	Omit    []string          // members that are left out
	Rename  map[string]string // members that have another name there
	Extra   map[string]any    // members that are added, or replace ours
	Headers map[string]string
	Effort  string // how much the model is to think, in its own words; "" is its default
}

// The members of requests that some servers do not take.
const (
	memberMaxTokens     = "max_tokens"
	memberMaxCompletion = "max_completion_tokens"
	memberTools         = "tools"
)

// refusable are the members that are left out if a server refuses them. A request needs the
// others.
var refusable = []string{memberMaxCompletion, memberMaxTokens, "stream_options", "cache_control", "reasoning_effort", "output_config", "thinking"}

// apply returns a request as JSON in this shape.
func (s Shape) apply(request any) ([]byte, error) {
	data, err := json.Marshal(request)
	if err != nil || len(s.Omit) == 0 && len(s.Rename) == 0 && len(s.Extra) == 0 {
		return data, err
	}
	body := map[string]any{}
	if err := json.Unmarshal(data, &body); err != nil {
		return nil, err
	}
	for from, to := range s.Rename {
		if value, has := body[from]; has {
			delete(body, from)
			body[to] = value
		}
	}
	maps.Copy(body, s.Extra)
	for _, name := range s.Omit {
		delete(body, name)
		for _, list := range []string{"system", "messages", memberTools} {
			leaveOut(body[list], name)
		}
	}
	return json.Marshal(body)
}

// leaveOut removes a member from the objects of a list, and from those of their contents and
// calls. What is in the arguments of a call, or in the schema of a tool, is not the API's.
func leaveOut(list any, name string) {
	objects, _ := list.([]any)
	for _, o := range objects {
		object, _ := o.(map[string]any)
		delete(object, name)
		if function, ok := object["function"].(map[string]any); ok {
			delete(function, name)
		}
		leaveOut(object["content"], name)
		leaveOut(object["tool_calls"], name)
	}
}

func (s Shape) addHeaders(h http.Header) {
	for name, value := range s.Headers {
		h.Set(name, value)
	}
}

// withLesson returns the shape with what was learned about a model.
func (s Shape) withLesson(l Lesson) Shape {
	s.Omit = slices.Concat(s.Omit, l.Omit)
	if len(l.Rename) > 0 {
		s.Rename = maps.Clone(l.Rename)
	}
	return s
}

// lesson returns what a server has taught that refused the request q: a member that is to have
// another name, or to be left out. what says so in words. ok is false if its words name none.
func (s Shape) lesson(f *Fault, q Question) (l Lesson, what string, ok bool) {
	if f.Status != http.StatusBadRequest && f.Status != http.StatusUnprocessableEntity {
		return l, "", false
	}
	words := strings.ToLower(f.Type + " " + f.Text + " " + f.Param)
	for from, to := range map[string]string{memberMaxTokens: memberMaxCompletion, memberMaxCompletion: memberMaxTokens} {
		sent := from == memberMaxTokens != q.thinks() // by its own name
		if sent && names(words, from) && len(s.Rename) == 0 && !s.omits(from) {
			return Lesson{Rename: map[string]string{from: to}}, from + " is called " + to, true
		}
	}
	candidates := slices.Concat(refusable, slices.Sorted(maps.Keys(s.Extra)), q.keptNames())
	for _, name := range candidates {
		if names(words, strings.ToLower(name)) && !s.omits(name) {
			return Lesson{Omit: []string{name}}, name + " is left out", true
		}
	}
	if len(q.Tools) > 0 && !s.omits(memberTools) && strings.Contains(words, "support") && (strings.Contains(words, "tool") || strings.Contains(words, "function call")) {
		return Lesson{Omit: []string{memberTools}}, "it gets no tools", true
	}
	return l, "", false
}

func (s Shape) omits(name string) bool { return slices.Contains(s.Omit, name) }

// names reports whether words name a member, and not only one whose name holds it.
func names(words, member string) bool {
	for rest := words; ; {
		at := strings.Index(rest, member)
		if at < 0 {
			return false
		}
		end := at + len(member)
		if (at == 0 || !memberByte(rest[at-1])) && (end == len(rest) || !memberByte(rest[end])) {
			return true
		}
		rest = rest[end:]
	}
}

func memberByte(b byte) bool { return b == '_' || b >= 'a' && b <= 'z' || b >= '0' && b <= '9' }

// Lesson is what was learned about a model at an address from its answers.
type Lesson struct {
	Omit   []string          `json:"omit,omitempty"`
	Rename map[string]string `json:"rename,omitempty"`

	// Window is a number of tokens that was found to fit; 0: nothing is known. Cut is set if
	// the server has left out a part of a question without a word.
	Window int  `json:"window,omitempty"`
	Cut    bool `json:"cut,omitempty"`
}

// With returns the lesson with another one.
func (l Lesson) With(more Lesson) Lesson {
	for _, name := range more.Omit {
		if !slices.Contains(l.Omit, name) {
			l.Omit = append(slices.Clone(l.Omit), name)
		}
	}
	if len(more.Rename) > 0 {
		l.Rename = more.Rename
	}
	if more.Window > 0 && (l.Window == 0 || more.Window < l.Window) {
		l.Window = more.Window
	}
	l.Cut = l.Cut || more.Cut
	return l
}
