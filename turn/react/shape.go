package react

import (
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strings"

	"agentstateloop/turn"
)

// Shape is how the requests to one model differ from the usual ones: by settings of the user,
// and by refusals of the server.
type Shape struct {
	Omit    []string          // members to omit
	Rename  map[string]string // new names of members
	Extra   map[string]any    // members to add or replace
	Headers map[string]string
	Effort  string // how much the model should think, in the API's words; "" is its default
}

// Members of requests that some servers do not accept.
const (
	memberMaxTokens     = "max_tokens"
	memberMaxCompletion = "max_completion_tokens"
	memberTools         = "tools"
)

// refusable are the members to omit if a server refuses them. The other members are required.
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
			omitMember(body[list], name)
		}
	}
	return json.Marshal(body)
}

// omitMember removes a member from the objects of a list, and from their contents and calls. It
// does not look into the arguments of a call or the schema of a tool, which are not the API's.
func omitMember(list any, name string) {
	objects, _ := list.([]any)
	for _, o := range objects {
		object, _ := o.(map[string]any)
		delete(object, name)
		if function, ok := object["function"].(map[string]any); ok {
			delete(function, name)
		}
		omitMember(object["content"], name)
		omitMember(object["tool_calls"], name)
	}
}

func (s Shape) addHeaders(h http.Header) {
	for name, value := range s.Headers {
		h.Set(name, value)
	}
}

// withLesson returns the shape changed by a lesson about a model.
func (s Shape) withLesson(l Lesson) Shape {
	s.Omit = slices.Concat(s.Omit, l.Omit)
	if len(l.Rename) > 0 {
		s.Rename = maps.Clone(l.Rename)
	}
	return s
}

// lesson returns the lesson from a server's refusal of q: a member to rename or to omit. what
// describes the change in words. ok is false if the fault names no such member.
func (s Shape) lesson(f *Fault, q Question) (l Lesson, what string, ok bool) {
	if f.Status != http.StatusBadRequest && f.Status != http.StatusUnprocessableEntity {
		return l, "", false
	}
	words := strings.ToLower(f.Type + " " + f.Text + " " + f.Param)
	for from, to := range map[string]string{memberMaxTokens: memberMaxCompletion, memberMaxCompletion: memberMaxTokens} {
		sent := from == memberMaxTokens != turn.Thinks(q.Model) // under its own name
		if sent && containsMember(words, from) && len(s.Rename) == 0 && !s.omits(from) {
			return Lesson{Rename: map[string]string{from: to}}, "retrying with " + to + " instead of " + from, true
		}
	}
	candidates := slices.Concat(refusable, slices.Sorted(maps.Keys(s.Extra)), q.extraNames())
	for _, name := range candidates {
		if containsMember(words, strings.ToLower(name)) && !s.omits(name) {
			return Lesson{Omit: []string{name}}, "retrying without " + name, true
		}
	}
	if len(q.Tools) > 0 && !s.omits(memberTools) && strings.Contains(words, "support") && (strings.Contains(words, "tool") || strings.Contains(words, "function call")) {
		return Lesson{Omit: []string{memberTools}}, "retrying without tools", true
	}
	return l, "", false
}

func (s Shape) omits(name string) bool { return slices.Contains(s.Omit, name) }

// containsMember reports whether words contain member as a whole name, not only as part of a longer
// one.
func containsMember(words, member string) bool {
	for rest := words; ; {
		at := strings.Index(rest, member)
		if at < 0 {
			return false
		}
		end := at + len(member)
		if (at == 0 || !isMemberByte(rest[at-1])) && (end == len(rest) || !isMemberByte(rest[end])) {
			return true
		}
		rest = rest[end:]
	}
}

func isMemberByte(b byte) bool { return b == '_' || b >= 'a' && b <= 'z' || b >= '0' && b <= '9' }

// Lesson is knowledge about a model at an address, learned from its answers.
type Lesson struct {
	Omit   []string          `json:"omit,omitempty"`
	Rename map[string]string `json:"rename,omitempty"`

	// Window is a number of tokens that fits; 0 if unknown. Cut is set if the server has
	// silently cut a question.
	Window int  `json:"window,omitempty"`
	Cut    bool `json:"cut,omitempty"`
}

// With returns l combined with more.
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
