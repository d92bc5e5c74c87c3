package scripted

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
)

// anthropic is the Messages API, version 2023-06-01.
type anthropic struct{}

func (anthropic) authorized(r *http.Request) bool {
	return r.Header.Get("X-Api-Key") == Key || r.Header.Get("Authorization") == "Bearer "+Key
}

type messagesRequest struct {
	Model     string             `json:"model"`
	MaxTokens int                `json:"max_tokens"`
	System    json.RawMessage    `json:"system"`
	Stream    bool               `json:"stream"`
	Messages  []messagesMessage  `json:"messages"`
	Tools     []messagesTool     `json:"tools"`
	Choice    *map[string]string `json:"tool_choice"`
}

type messagesMessage struct {
	Role    string          `json:"role"`
	Content json.RawMessage `json:"content"`
}

type messagesTool struct {
	Name        string          `json:"name"`
	Description string          `json:"description"`
	Schema      json.RawMessage `json:"input_schema"`
	Cache       *cacheControl   `json:"cache_control"`
}

type cacheControl struct {
	Type string `json:"type"`
	TTL  string `json:"ttl"`
}

type messagesBlock struct {
	Type      string          `json:"type"`
	Text      *string         `json:"text"`
	ID        string          `json:"id"`
	Name      string          `json:"name"`
	Input     json.RawMessage `json:"input"`
	ToolUseID string          `json:"tool_use_id"`
	Content   json.RawMessage `json:"content"`
	IsError   bool            `json:"is_error"`
	Source    *messagesSource `json:"source"`
	Cache     *cacheControl   `json:"cache_control"`
}

// messagesSource is the content of a block of type image or document.
type messagesSource struct {
	Type      string `json:"type"`
	MediaType string `json:"media_type"`
	Data      string `json:"data"`
}

func (anthropic) read(r *http.Request, body []byte, lenient bool) (Request, error) {
	var m messagesRequest
	if err := decode(body, &m, lenient); err != nil {
		return Request{}, err
	}
	q := Request{API: "anthropic", Model: m.Model}
	switch {
	case r.Header.Get("Anthropic-Version") != "2023-06-01":
		return q, errors.New("anthropic-version: header is required")
	case m.Model == "":
		return q, errors.New("model: field required")
	case m.MaxTokens < 1:
		return q, errors.New("max_tokens: must be at least 1")
	case !m.Stream && !lenient:
		return q, errors.New("stream: only streams are scripted")
	case len(m.Messages) == 0:
		return q, errors.New("messages: at least one message is required")
	}
	caches := 0
	system, err := readBlocks(m.System, lenient, &caches)
	if err != nil {
		return q, fmt.Errorf("system: %w", err)
	}
	for _, b := range system {
		if b.Type != "text" {
			return q, fmt.Errorf("system: a block of type %q is not allowed here", b.Type)
		}
		q.System += *b.Text
	}
	seen := map[string]bool{}
	for _, t := range m.Tools {
		if err := checkTool(t.Name, t.Schema, seen); err != nil && !lenient {
			return q, err
		}
		q.Tools = append(q.Tools, t.Name)
	}
	if err := q.readMessages(m, lenient, &caches); err != nil {
		return q, err
	}
	if caches > 4 && !lenient {
		return q, errors.New("a maximum of 4 blocks with cache_control may be provided")
	}
	return q, nil
}

func (q *Request) readMessages(m messagesRequest, lenient bool, caches *int) error {
	var calls []Call
	ids := map[string]bool{}
	for i, msg := range m.Messages {
		if msg.Role == "system" && lenient {
			continue // sent by the claude CLI
		}
		if msg.Role != "user" && msg.Role != "assistant" {
			return fmt.Errorf(`messages.%d.role: %q is neither "user" nor "assistant"`, i, msg.Role)
		}
		if i == 0 && msg.Role != "user" {
			return errors.New(`messages: the first message must be of role "user"`)
		}
		blocks, err := readBlocks(msg.Content, lenient, caches)
		if err != nil {
			return fmt.Errorf("messages.%d: %w", i, err)
		}
		if len(blocks) == 0 {
			return fmt.Errorf("messages.%d: all messages must have non-empty content", i)
		}
		said, err := blocksMessage(msg.Role, blocks, lenient)
		if err != nil {
			return fmt.Errorf("messages.%d: %w", i, err)
		}
		for _, c := range said.Calls {
			if ids[c.ID] {
				return fmt.Errorf("messages.%d: tool_use ids must be unique, and %q is not", i, c.ID)
			}
			ids[c.ID] = true
		}
		if err := answered(i, calls, said.Results); err != nil {
			return err
		}
		calls = said.Calls
		if (len(said.Calls) > 0 || len(said.Results) > 0) && len(m.Tools) == 0 {
			return errors.New("requests which include tool_use or tool_result blocks must define tools")
		}
		q.Messages = append(q.Messages, said)
	}
	if last := q.Last(); last.Role == "assistant" {
		return errors.New("this model does not support assistant message prefill")
	}
	return nil
}

// readBlocks reads a string or an array of blocks.
func readBlocks(raw json.RawMessage, lenient bool, caches *int) ([]messagesBlock, error) {
	if len(raw) == 0 {
		return nil, nil
	}
	var text string
	if json.Unmarshal(raw, &text) == nil {
		if text == "" {
			return nil, nil
		}
		return []messagesBlock{{Type: "text", Text: &text}}, nil
	}
	var blocks []messagesBlock
	if err := decode(raw, &blocks, lenient); err != nil {
		return nil, err
	}
	for i, b := range blocks {
		if b.Type == "text" && (b.Text == nil || strings.TrimSpace(*b.Text) == "") {
			return nil, fmt.Errorf("content.%d: text content blocks must contain non-whitespace text", i)
		}
		if b.Cache == nil {
			continue
		}
		*caches++
		if b.Cache.Type != "ephemeral" {
			return nil, fmt.Errorf("content.%d: cache_control.type must be ephemeral", i)
		}
	}
	return blocks, nil
}

// blocksMessage converts a message of blocks to a Message of a Request.
func blocksMessage(role string, blocks []messagesBlock, lenient bool) (Message, error) {
	m := Message{Role: role}
	other := false
	for i, b := range blocks {
		switch {
		case b.Type == "text":
			m.Text += *b.Text
			other = true
		case (b.Type == "image" || b.Type == "document") && role == "user" && b.Source != nil && b.Source.Type == "base64":
			shown, err := readShown(b.Source.MediaType, b.Source.Data, b.Type == "document")
			if err != nil {
				return m, fmt.Errorf("content.%d: %w", i, err)
			}
			m.Shown = append(m.Shown, shown)
			other = true
		case b.Type == "tool_use" && role == "assistant":
			if !validName(b.ID, 256) || !validName(b.Name, 64) || !isObject(b.Input) {
				return m, fmt.Errorf("content.%d: a tool_use needs an id, a name and an object as input", i)
			}
			m.Calls = append(m.Calls, Call{ID: b.ID, Name: b.Name, Args: string(b.Input)})
		case b.Type == "tool_result" && role == "user":
			if other && !lenient {
				return m, fmt.Errorf("content.%d: tool_result blocks must come first", i)
			}
			var inner int
			blocks, err := readBlocks(b.Content, lenient, &inner)
			if err != nil {
				return m, err
			}
			text := ""
			for _, t := range blocks {
				if t.Text != nil {
					text += *t.Text
				}
			}
			m.Results = append(m.Results, Result{ID: b.ToolUseID, Text: text})
		case lenient:
		default:
			return m, fmt.Errorf("content.%d: a block of type %q is not allowed here", i, b.Type)
		}
	}
	return m, nil
}

func (anthropic) error(status int, text string) object {
	kind := map[int]string{
		400: "invalid_request_error", 401: "authentication_error", 403: "permission_error", 404: "not_found_error",
		413: "request_too_large", 429: "rate_limit_error", 529: "overloaded_error",
	}[status]
	return object{"type": "error", "error": object{"type": cmp.Or(kind, "api_error"), "message": text}, "request_id": "req_scripted"}
}

func (a anthropic) midway(text string) string {
	return "event: error\ndata: " + marshal(a.error(529, text)) + "\n\n"
}

func (anthropic) events(q Request, r Reply) []string {
	var all []string
	event := func(name string, data object) {
		data["type"] = name
		all = append(all, "event: "+name+"\ndata: "+marshal(data)+"\n\n")
	}
	usage := func(out int) object {
		return object{"input_tokens": r.In - r.CacheRead, "output_tokens": out, "cache_read_input_tokens": r.CacheRead, "cache_creation_input_tokens": 0}
	}
	event("message_start", object{"message": object{
		"id": fmt.Sprintf("msg_%d", q.Number), "type": "message", "role": "assistant", "model": q.Model,
		"content": []any{}, "stop_reason": nil, "stop_sequence": nil, "usage": usage(1)}})
	event("ping", object{})
	index := 0
	block := func(start object, kind, field, text string, more ...object) {
		event("content_block_start", object{"index": index, "content_block": start})
		for _, p := range pieces(text, r.Piece) {
			event("content_block_delta", object{"index": index, "delta": object{"type": kind, field: p}})
		}
		for _, delta := range more {
			event("content_block_delta", object{"index": index, "delta": delta})
		}
		event("content_block_stop", object{"index": index})
		index++
	}
	if r.Thinking != "" {
		block(object{"type": "thinking", "thinking": "", "signature": ""}, "thinking_delta", "thinking", r.Thinking,
			object{"type": "signature_delta", "signature": "c2ln"})
	}
	if r.Text != "" {
		block(object{"type": "text", "text": ""}, "text_delta", "text", r.Text)
	}
	for _, c := range r.Calls {
		block(object{"type": "tool_use", "id": c.ID, "name": c.Name, "input": object{}}, "input_json_delta", "partial_json", c.Args)
	}
	stop := "end_turn"
	if len(r.Calls) > 0 {
		stop = "tool_use"
	}
	event("message_delta", object{"delta": object{"stop_reason": cmp.Or(r.Stop, stop), "stop_sequence": nil}, "usage": usage(r.Out)})
	event("message_stop", object{})
	return all
}
