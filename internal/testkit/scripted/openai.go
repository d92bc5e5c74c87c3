package scripted

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
)

// openai is the chat completions API.
type openai struct{}

func (openai) authorized(r *http.Request) bool { return r.Header.Get("Authorization") == "Bearer "+Key }

type chatRequest struct {
	Model               string        `json:"model"`
	Messages            []chatMessage `json:"messages"`
	Tools               []chatTool    `json:"tools"`
	Stream              bool          `json:"stream"`
	MaxTokens           *int          `json:"max_tokens"`
	MaxCompletionTokens *int          `json:"max_completion_tokens"`
	StreamOptions       *struct {
		IncludeUsage bool `json:"include_usage"`
	} `json:"stream_options"`
}

type chatMessage struct {
	Role       string          `json:"role"`
	Parts      json.RawMessage `json:"content"` // a text, or []chatPart
	ToolCalls  []chatCall      `json:"tool_calls"`
	ToolCallID string          `json:"tool_call_id"`
}

// chatPart is a part of the content of a message.
type chatPart struct {
	Type  string `json:"type"`
	Text  string `json:"text"`
	Image *struct {
		URL    string `json:"url"`
		Detail string `json:"detail"`
	} `json:"image_url"`
}

// content returns the text of a message and its pictures. The text is nil if the message has no
// content.
func (m chatMessage) content(lenient bool) (text *string, shown []Shown, err error) {
	if len(m.Parts) == 0 || string(m.Parts) == "null" {
		return nil, nil, nil
	}
	if json.Unmarshal(m.Parts, &text) == nil {
		return text, nil, nil
	}
	var parts []chatPart
	if err := decode(m.Parts, &parts, lenient); err != nil {
		return nil, nil, err
	}
	text = new(string)
	for i, p := range parts {
		switch {
		case p.Type == "text" && p.Text != "":
			*text += p.Text
		case p.Type == "image_url" && p.Image != nil && m.Role == "user":
			kind, encoded, ok := strings.Cut(strings.TrimPrefix(p.Image.URL, "data:"), ";base64,")
			if !ok {
				return nil, nil, fmt.Errorf("content.%d: only data URLs are scripted", i)
			}
			s, err := readShown(kind, encoded, false)
			if err != nil {
				return nil, nil, fmt.Errorf("content.%d: %w", i, err)
			}
			shown = append(shown, s)
		default:
			return nil, nil, fmt.Errorf("content.%d: a part of type %q is not allowed here", i, p.Type)
		}
	}
	return text, shown, nil
}

type chatCall struct {
	ID       string `json:"id"`
	Type     string `json:"type"`
	Function struct {
		Name      string `json:"name"`
		Arguments string `json:"arguments"`
	} `json:"function"`
}

type chatTool struct {
	Type     string `json:"type"`
	Function struct {
		Name        string          `json:"name"`
		Description string          `json:"description"`
		Parameters  json.RawMessage `json:"parameters"`
	} `json:"function"`
}

func (openai) read(_ *http.Request, body []byte, lenient bool) (Request, error) {
	var m chatRequest
	if err := decode(body, &m, lenient); err != nil {
		return Request{}, err
	}
	q := Request{API: "openai", Model: m.Model}
	switch {
	case m.Model == "":
		return q, errors.New("you must provide a model parameter")
	case !m.Stream:
		return q, errors.New("stream: only streams are scripted")
	case m.MaxTokens != nil && m.MaxCompletionTokens != nil:
		return q, errors.New("max_tokens and max_completion_tokens cannot both be set")
	case len(m.Messages) == 0:
		return q, errors.New("messages: too short")
	}
	for _, limit := range []*int{m.MaxTokens, m.MaxCompletionTokens} {
		if limit != nil && *limit < 1 {
			return q, errors.New("max_tokens: must be at least 1")
		}
	}
	seen := map[string]bool{}
	for _, t := range m.Tools {
		if t.Type != "function" {
			return q, fmt.Errorf("tools: type %q is not supported", t.Type)
		}
		if err := checkTool(t.Function.Name, t.Function.Parameters, seen); err != nil {
			return q, err
		}
		q.Tools = append(q.Tools, t.Function.Name)
	}
	return q, q.readChat(m.Messages, lenient)
}

// readChat reads the messages. It turns tool results into a message of the user.
func (q *Request) readChat(messages []chatMessage, lenient bool) error {
	var calls []Call
	var results []Result
	settle := func(at int) error {
		err := answered(at, calls, results)
		if len(results) > 0 {
			q.Messages = append(q.Messages, Message{Role: "user", Results: results})
		}
		calls, results = nil, nil
		return err
	}
	for i, m := range messages {
		content, shown, err := m.content(lenient)
		if err != nil {
			return fmt.Errorf("messages.%d: %w", i, err)
		}
		if m.Role == "tool" {
			if content == nil || m.ToolCallID == "" {
				return fmt.Errorf("messages.%d: a message of role tool needs a content and a tool_call_id", i)
			}
			results = append(results, Result{ID: m.ToolCallID, Text: *content})
			continue
		}
		if err := settle(i); err != nil {
			return err
		}
		text := ""
		if content != nil {
			text = *content
		}
		if m.ToolCallID != "" {
			return fmt.Errorf("messages.%d: tool_call_id does not belong to role %s", i, m.Role)
		}
		switch {
		case m.Role == "system" && i == 0 && len(m.ToolCalls) == 0:
			q.System = text
			continue
		case m.Role == "user" && content != nil && len(m.ToolCalls) == 0:
		case m.Role == "assistant" && (content != nil || len(m.ToolCalls) > 0):
		default:
			return fmt.Errorf("messages.%d: role %q cannot say this here", i, m.Role)
		}
		said := Message{Role: m.Role, Text: text, Shown: shown}
		for _, c := range m.ToolCalls {
			if c.ID == "" || c.Type != "function" || !validName(c.Function.Name, 64) || !isObject([]byte(c.Function.Arguments)) {
				return fmt.Errorf("messages.%d: a tool call needs an id, a type, a name and arguments in JSON", i)
			}
			said.Calls = append(said.Calls, Call{ID: c.ID, Name: c.Function.Name, Args: c.Function.Arguments})
		}
		calls = said.Calls
		q.Messages = append(q.Messages, said)
	}
	if err := settle(len(messages)); err != nil {
		return err
	}
	if len(q.Messages) == 0 || q.Last().Role == "assistant" {
		return errors.New("messages: there is nothing to answer")
	}
	return nil
}

func (openai) error(status int, text string) object {
	kind := map[int]string{
		400: "invalid_request_error", 401: "invalid_request_error", 403: "invalid_request_error",
		404: "invalid_request_error", 429: "requests", 500: "server_error", 503: "server_error",
	}[status]
	code := map[int]any{401: "invalid_api_key", 429: "rate_limit_exceeded"}[status]
	return object{"error": object{"message": text, "type": kind, "param": nil, "code": code}}
}

func (o openai) midway(text string) string { return "data: " + marshal(o.error(500, text)) + "\n\n" }

func (openai) events(q Request, r Reply) []string {
	var all []string
	chunk := func(choices []any, usage any) {
		all = append(all, "data: "+marshal(object{
			"id": fmt.Sprintf("chatcmpl-%d", q.Number), "object": "chat.completion.chunk", "created": 1767600000,
			"model": q.Model, "choices": choices, "usage": usage})+"\n\n")
	}
	delta := func(d object, finish any) {
		chunk([]any{object{"index": 0, "delta": d, "finish_reason": finish}}, nil)
	}
	delta(object{"role": "assistant", "content": ""}, nil)
	if r.Text != "" {
		for _, p := range pieces(r.Text, r.Piece) {
			delta(object{"content": p}, nil)
		}
	}
	if r.Refusal != "" {
		delta(object{"refusal": r.Refusal}, nil)
	}
	for i, c := range r.Calls {
		delta(object{"tool_calls": []any{object{"index": i, "id": c.ID, "type": "function",
			"function": object{"name": c.Name, "arguments": ""}}}}, nil)
		for _, p := range pieces(c.Args, r.Piece) {
			delta(object{"tool_calls": []any{object{"index": i, "function": object{"arguments": p}}}}, nil)
		}
	}
	stop := "stop"
	if len(r.Calls) > 0 {
		stop = "tool_calls"
	}
	delta(object{}, cmp.Or(r.Stop, stop))
	usage := object{"prompt_tokens": r.In, "completion_tokens": r.Out, "total_tokens": r.In + r.Out,
		"prompt_tokens_details": object{"cached_tokens": r.CacheRead}}
	if r.Cost != 0 {
		usage["cost"] = r.Cost
	}
	chunk([]any{}, usage)
	return append(all, "data: [DONE]\n\n")
}
