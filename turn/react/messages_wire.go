package react

import (
	"encoding/base64"
	"encoding/json"
	"errors"
)

// What the Messages API is sent and sends, as far as we use it (version 2023-06-01). The
// types of Anthropic's client cost ten times what is left of it here
// (docs/decisions/0056-room-in-the-binary.md).

// messagesVersion is the version of the API.
const messagesVersion = "2023-06-01"

type messagesRequest struct {
	Model     string         `json:"model"`
	MaxTokens int            `json:"max_tokens"`
	System    []messageBlock `json:"system,omitempty"`
	Tools     []messageTool  `json:"tools,omitempty"`
	Messages  []messageTurn  `json:"messages"`
	Stream    bool           `json:"stream"`
}

type messageTool struct {
	Name        string         `json:"name"`
	Description string         `json:"description"`
	InputSchema map[string]any `json:"input_schema"`
}

// messageTurn is what the user or the model says.
type messageTurn struct {
	Role    string         `json:"role"`
	Content []messageBlock `json:"content"`
}

// messageBlock is one piece of content: "text", "image", "document", "tool_use" or
// "tool_result". The fields of the other types are empty.
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
}

// messageSource holds the bytes of a picture or a PDF.
type messageSource struct {
	Type      string `json:"type"` // base64
	MediaType string `json:"media_type"`
	Data      string `json:"data"`
}

// cacheControl marks the end of what a later call may find in the cache.
type cacheControl struct {
	Type string `json:"type"` // ephemeral: for five minutes
}

func textBlock(text string) messageBlock { return messageBlock{Type: "text", Text: text} }

func toolResultBlock(id, text string, failed bool) messageBlock {
	return messageBlock{Type: "tool_result", ToolUseID: id, Content: []messageBlock{textBlock(text)}, IsError: &failed}
}

func toolUseBlock(c Call) messageBlock {
	return messageBlock{Type: "tool_use", ID: c.ID, Name: c.Name, Input: c.input()}
}

// shownBlock returns a file as the model sees it.
func shownBlock(s Shown) messageBlock {
	b := messageBlock{Type: "image", Source: &messageSource{Type: "base64", MediaType: s.Type, Data: base64.StdEncoding.EncodeToString(s.data)}}
	if pictureOf(s.Type) == PDF {
		b.Type = "document"
	}
	return b
}

// cached marks a block as the end of what a later call may find in the cache.
func (b *messageBlock) cached() { b.CacheControl = &cacheControl{Type: "ephemeral"} }

// messageEvent is one event of the stream of an answer.
type messageEvent struct {
	Type    string `json:"type"`
	Message struct {
		Model string       `json:"model"`
		Usage messageUsage `json:"usage"`
	} `json:"message"`
	ContentBlock struct {
		Type  string `json:"type"`
		ID    string `json:"id"`
		Name  string `json:"name"`
		Input any    `json:"input"`
	} `json:"content_block"`
	Delta struct {
		Type        string `json:"type"`
		Text        string `json:"text"`
		PartialJSON string `json:"partial_json"`
		StopReason  string `json:"stop_reason"`
	} `json:"delta"`
	Usage messageUsage `json:"usage"`
}

type messageUsage struct {
	InputTokens              int64 `json:"input_tokens"`
	OutputTokens             int64 `json:"output_tokens"`
	CacheReadInputTokens     int64 `json:"cache_read_input_tokens"`
	CacheCreationInputTokens int64 `json:"cache_creation_input_tokens"`
}

// UnmarshalJSON reads an event. A member of another type than the API promises is left
// out, as Anthropic's client does: a server that only speaks like Anthropic's may have
// its own.
func (e *messageEvent) UnmarshalJSON(data []byte) error {
	type plain messageEvent
	err := json.Unmarshal(data, (*plain)(e))
	if _, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		return nil
	}
	return err
}
