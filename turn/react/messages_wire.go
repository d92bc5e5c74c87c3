package react

import (
	"encoding/base64"
	"encoding/json"

	"agentstateloop/turn"
)

// The wire types of the Messages API, version 2023-06-01, as far as we use it. The types of
// Anthropic's client would take ten times the space in the binary
// (docs/decisions/0056-binary-size.md).

// messagesVersion is the version of the API.
const messagesVersion = "2023-06-01"

type messagesRequest struct {
	Model     string         `json:"model"`
	MaxTokens int            `json:"max_tokens"`
	System    []messageBlock `json:"system,omitempty"`
	Tools     []messageTool  `json:"tools,omitempty"`
	Messages  []messageTurn  `json:"messages"`
	Stream    bool           `json:"stream"`

	OutputConfig *outputConfig `json:"output_config,omitempty"`
}

type outputConfig struct {
	Effort string `json:"effort"`
}

type messageTool struct {
	Name        string         `json:"name"`
	Description string         `json:"description"`
	InputSchema map[string]any `json:"input_schema"`
}

// messageTurn is a message of the user or the model.
type messageTurn struct {
	Role    string         `json:"role"`
	Content []messageBlock `json:"content"`
}

// messageBlock is one piece of content: "text", "image", "document", "tool_use" or
// "tool_result". Fields of other types are empty.
type messageBlock struct {
	Type         string         `json:"type"`
	Text         string         `json:"text,omitempty"`
	ID           string         `json:"id,omitempty"`
	Name         string         `json:"name,omitempty"`
	Input        any            `json:"input,omitempty"`
	ToolUseID    string         `json:"tool_use_id,omitempty"`
	Content      []messageBlock `json:"content,omitempty"`
	IsError      *bool          `json:"is_error,omitempty"`
	Source       *messageSource `json:"source,omitempty"`
	CacheControl *cacheControl  `json:"cache_control,omitempty"`

	raw json.RawMessage // if set, replaces the other fields: a kept block that goes back unchanged
}

// MarshalJSON writes the block, or raw if it is set.
func (b messageBlock) MarshalJSON() ([]byte, error) {
	if b.raw != nil {
		return b.raw, nil
	}
	type plain messageBlock
	return json.Marshal(plain(b))
}

// messageSource holds the bytes of a picture or a PDF.
type messageSource struct {
	Type      string `json:"type"` // base64
	MediaType string `json:"media_type"`
	Data      string `json:"data"`
}

// cacheControl marks the end of the part of a request that the API caches for later calls.
type cacheControl struct {
	Type string `json:"type"` // ephemeral: for five minutes
}

func textBlock(text string) messageBlock { return messageBlock{Type: "text", Text: text} }

// shownBlock returns the block that shows a file to the model.
func shownBlock(s ShownFile) messageBlock {
	b := messageBlock{Type: "image", Source: &messageSource{Type: "base64", MediaType: s.Type, Data: base64.StdEncoding.EncodeToString(s.data)}}
	if imageKind(s.Type) == PDF {
		b.Type = "document"
	}
	return b
}

// markCached marks a block as the end of the cached part.
func (b *messageBlock) markCached() { b.CacheControl = &cacheControl{Type: "ephemeral"} }

// messageEvent is a parsed event of an answer's stream. Block is a new block or a piece of one,
// and Kind is its type.
type messageEvent struct {
	Type  string
	Model string
	Usage turn.Usage

	Block       members
	Kind        string
	ID, Name    string
	Text        string
	Input       json.RawMessage
	PartialJSON string
	Stop        string // of message_delta

	unread []string // descriptions of unreadable members
}

// readMessageEvent reads an event. Servers that imitate Anthropic's may send members of other
// types.
func readMessageEvent(data []byte) (messageEvent, error) {
	var top members
	if err := json.Unmarshal(data, &top); err != nil {
		return messageEvent{}, err
	}
	r := &chunkReader{}
	e := messageEvent{Type: r.text("type", top["type"]), Usage: messageUsage(top["usage"])}
	var message members
	if json.Unmarshal(top["message"], &message) == nil {
		e.Model = r.text("model", message["model"])
		e.Usage = messageUsage(message["usage"])
	}
	for _, name := range []string{"content_block", "delta"} {
		if isNull(top[name]) {
			continue
		}
		if json.Unmarshal(top[name], &e.Block) != nil {
			r.noteUnread(name, top[name])
			continue
		}
		e.Kind = r.text("type", e.Block["type"])
		e.Stop = r.text("stop_reason", e.Block["stop_reason"])
		switch e.Kind {
		case "text", "text_delta":
			e.Text = r.text("text", e.Block["text"])
		case "tool_use":
			e.ID, e.Name, e.Input = r.text("id", e.Block["id"]), r.text("name", e.Block["name"]), e.Block["input"]
		case "input_json_delta":
			e.PartialJSON = r.text("partial_json", e.Block["partial_json"])
		}
	}
	e.unread = r.unread
	return e, nil
}

// messageUsage reads the token counts. An unreadable count does not change the answer, so it is
// ignored.
func messageUsage(data json.RawMessage) turn.Usage {
	var m members
	if isNull(data) || json.Unmarshal(data, &m) != nil {
		return turn.Usage{}
	}
	quiet := &chunkReader{}
	return turn.Usage{
		Input: quiet.count("input_tokens", m), Output: quiet.count("output_tokens", m),
		CacheRead: quiet.count("cache_read_input_tokens", m), CacheWrite: quiet.count("cache_creation_input_tokens", m),
	}
}
