package react

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// The wire types of the chat completions API, as far as we use it. Servers that call themselves
// compatible send members of other types: arguments as an object, content as an array, an index
// as a string. We read each member whatever its type, or report it as unread.

type chatRequest struct {
	Model               string         `json:"model"`
	Messages            []chatMessage  `json:"messages"`
	Tools               []chatTool     `json:"tools,omitempty"`
	MaxTokens           int            `json:"max_tokens,omitempty"`
	MaxCompletionTokens int            `json:"max_completion_tokens,omitempty"`
	Stream              bool           `json:"stream"`
	StreamOptions       *streamOptions `json:"stream_options,omitempty"`
	ReasoningEffort     string         `json:"reasoning_effort,omitempty"`
}

type streamOptions struct {
	IncludeUsage bool `json:"include_usage"`
}

// chatMessage is one message. extras are further members that the server sent with it; see Extras.
type chatMessage struct {
	Role       string     `json:"role"`
	Content    any        `json:"content,omitempty"` // a string, or []chatPart
	ToolCalls  []chatCall `json:"tool_calls,omitempty"`
	ToolCallID string     `json:"tool_call_id,omitempty"`

	extras members
}

type chatCall struct {
	ID       string       `json:"id"`
	Type     string       `json:"type"`
	Function chatFunction `json:"function"`

	extras members
}

type chatFunction struct {
	Name      string `json:"name"`
	Arguments string `json:"arguments"`

	extras members
}

type chatTool struct {
	Type     string       `json:"type"`
	Function chatToolText `json:"function"`
}

type chatToolText struct {
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	Parameters  json.RawMessage `json:"parameters"`
}

// chatPart is a part of a message's content, of type "text" or "image_url".
type chatPart struct {
	Type     string     `json:"type"`
	Text     string     `json:"text,omitempty"`
	ImageURL *chatImage `json:"image_url,omitempty"`
}

type chatImage struct {
	URL string `json:"url"`
}

// members are unparsed members of an object, by name.
type members map[string]json.RawMessage

// MarshalJSON adds the kept members.
func (m chatMessage) MarshalJSON() ([]byte, error) {
	type plain chatMessage
	return withMembers(plain(m), m.extras)
}

// MarshalJSON adds the kept members.
func (c chatCall) MarshalJSON() ([]byte, error) {
	type plain chatCall
	return withMembers(plain(c), c.extras)
}

// MarshalJSON adds the kept members.
func (f chatFunction) MarshalJSON() ([]byte, error) {
	type plain chatFunction
	return withMembers(plain(f), f.extras)
}

// withMembers returns v as JSON with more members. The members of v take precedence.
func withMembers(v any, more members) ([]byte, error) {
	data, err := json.Marshal(v)
	if err != nil || len(more) == 0 {
		return data, err
	}
	own := members{}
	if err := json.Unmarshal(data, &own); err != nil {
		return nil, err
	}
	for name, value := range more {
		if _, taken := own[name]; !taken {
			own[name] = value
		}
	}
	return json.Marshal(own)
}

// chatChunk is a parsed event of the stream.
type chatChunk struct {
	model  string
	usage  *chatUsage
	fault  json.RawMessage // an error in place of an answer, or along with one
	choice *chatChoice     // the first choice, or nil

	unread []string // descriptions of unreadable members
}

type chatChoice struct {
	text    string
	refusal string
	calls   []callPiece
	extras  members // other members of the delta
	finish  string
}

type chatUsage struct {
	input, output, cached int64
	cost                  float64
}

// callPiece is a piece of a call.
type callPiece struct {
	index    int
	indexed  bool
	id, name string
	args     string

	extras, functionExtras members // other members of the call, and of its function
}

// chunkReader reads the members of one chunk and collects unreadable ones.
type chunkReader struct{ unread []string }

// readChunk reads one event. An error means that the event is not a JSON object.
func readChunk(data []byte) (chatChunk, error) {
	var top members
	if err := json.Unmarshal(data, &top); err != nil {
		var list []json.RawMessage // some servers wrap an error in an array
		if json.Unmarshal(data, &list) == nil && len(list) > 0 {
			return readChunk(list[0])
		}
		return chatChunk{}, err
	}
	r := &chunkReader{}
	c := chatChunk{model: r.text("model", top["model"])}
	if e := top["error"]; !isNull(e) {
		c.fault = e
	}
	c.usage = r.usage(top["usage"])
	if choice, ok := firstObject(top["choices"]); ok {
		c.choice = r.choice(choice)
	}
	c.unread = r.unread
	return c, nil
}

// firstObject returns the first object of an array, or data itself if it is an object.
func firstObject(data json.RawMessage) (members, bool) {
	list := new(chunkReader).list("", data)
	if len(list) == 0 {
		return nil, false
	}
	return list[0], list[0] != nil
}

// choice reads a choice of a stream, or of an answer that arrived whole.
func (r *chunkReader) choice(m members) *chatChoice {
	c := &chatChoice{finish: r.text("finish_reason", m["finish_reason"])}
	delta := m["delta"]
	if isNull(delta) {
		delta = m["message"]
	}
	if isNull(delta) {
		if text := m["text"]; !isNull(text) { // the older completions API
			c.text = r.text("text", text)
		}
		return c
	}
	var d members
	if json.Unmarshal(delta, &d) != nil {
		c.text = r.text("delta", delta)
		return c
	}
	c.text, c.refusal = r.text("content", d["content"]), r.text("refusal", d["refusal"])
	for _, call := range r.list("tool_calls", d["tool_calls"]) {
		c.calls = append(c.calls, r.call(call))
	}
	if f := d["function_call"]; !isNull(f) { // older servers send one call, without an id
		c.calls = append(c.calls, r.call(members{"function": f}))
	}
	c.extras = otherMembers(d, "role", "content", "refusal", "tool_calls", "function_call", "audio", "annotations")
	return c
}

// list returns the objects of an array, or a single object as a list.
func (r *chunkReader) list(name string, data json.RawMessage) []members {
	if isNull(data) {
		return nil
	}
	var list []members
	if json.Unmarshal(data, &list) == nil {
		return list
	}
	var one members
	if json.Unmarshal(data, &one) == nil {
		return []members{one}
	}
	r.noteUnread(name, data)
	return nil
}

// call reads a piece of a call. The arguments may be a string or an object.
func (r *chunkReader) call(m members) callPiece {
	p := callPiece{id: r.text("id", m["id"])}
	if n, err := strconv.Atoi(strings.TrimSuffix(r.text("index", m["index"]), ".0")); err == nil {
		p.index, p.indexed = n, true
	}
	f := m
	if inner := m["function"]; !isNull(inner) {
		f = nil
		if json.Unmarshal(inner, &f) != nil {
			r.noteUnread("function", inner)
		}
		p.functionExtras = otherMembers(f, "name", "arguments")
	}
	p.name = r.text("name", f["name"])
	args := f["arguments"]
	if args == nil {
		args = f["input"]
	}
	if object := bytes.TrimSpace(args); len(object) > 0 && (object[0] == '{' || object[0] == '[') {
		p.args = string(object)
	} else {
		p.args = r.text("arguments", args)
	}
	p.extras = otherMembers(m, "index", "id", "type", "function", "name", "arguments", "input")
	return p
}

// usage reads the token counts.
func (r *chunkReader) usage(data json.RawMessage) *chatUsage {
	if isNull(data) {
		return nil
	}
	var m, details members
	if json.Unmarshal(data, &m) != nil {
		r.noteUnread("usage", data)
		return nil
	}
	u := &chatUsage{input: r.count("prompt_tokens", m), output: r.count("completion_tokens", m), cost: r.number("cost", m["cost"])}
	if json.Unmarshal(m["prompt_tokens_details"], &details) == nil {
		u.cached = r.count("cached_tokens", details)
	}
	if u.cached == 0 {
		u.cached = r.count("prompt_cache_hit_tokens", m) // DeepSeek
	}
	u.cached = min(u.cached, u.input)
	return u
}

func (r *chunkReader) count(name string, m members) int64 { return int64(r.number(name, m[name])) }

// number reads a number, also from a string.
func (r *chunkReader) number(name string, data json.RawMessage) float64 {
	text := r.text(name, data)
	if text == "" {
		return 0
	}
	n, err := strconv.ParseFloat(text, 64)
	if err != nil {
		r.noteUnread(name, data)
	}
	return n
}

// text reads a string, number or boolean as text, and joins the texts of an array of parts. It
// skips the thoughts of a model.
func (r *chunkReader) text(name string, data json.RawMessage) string {
	if isNull(data) {
		return ""
	}
	var s string
	if json.Unmarshal(data, &s) == nil {
		return s
	}
	var parts []json.RawMessage
	if json.Unmarshal(data, &parts) == nil {
		var b strings.Builder
		for _, part := range parts {
			b.WriteString(r.text(name, part))
		}
		return b.String()
	}
	var part members
	if json.Unmarshal(data, &part) == nil {
		return r.part(name, data, part)
	}
	return string(data) // a number or a boolean
}

// part reads the text of one part of the content.
func (r *chunkReader) part(name string, data json.RawMessage, part members) string {
	kind := r.text("type", part["type"])
	switch {
	case strings.Contains(kind, "think") || strings.Contains(kind, "reason"):
		return ""
	case part["text"] != nil:
		return r.text(name, part["text"])
	case part["content"] != nil:
		return r.text(name, part["content"])
	case part["refusal"] != nil:
		return r.text(name, part["refusal"])
	}
	r.noteUnread(name, data)
	return ""
}

// maxUnread bounds, in bytes, the quotation of an unreadable member. It also bounds how many of
// them an answer keeps.
const maxUnread = 100

func (r *chunkReader) noteUnread(name string, data json.RawMessage) {
	r.unread = append(r.unread, fmt.Sprintf("%s: %s", name, data[:min(len(data), maxUnread)]))
}

func isNull(data json.RawMessage) bool { return len(data) == 0 || string(data) == "null" }

// otherMembers returns the members of an object except those named and empty ones.
func otherMembers(m members, names ...string) members {
	var kept members
	for name, value := range m {
		switch string(value) {
		case "null", `""`, "[]", "{}":
			continue
		}
		if slices.Contains(names, name) {
			continue
		}
		if kept == nil {
			kept = members{}
		}
		kept[name] = value
	}
	return kept
}
