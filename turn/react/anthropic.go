package react

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/anthropics/anthropic-sdk-go"
	"github.com/anthropics/anthropic-sdk-go/option"

	"agentstateloop/turn"
)

// AnthropicURL is the address of the Messages API.
const AnthropicURL = "https://api.anthropic.com"

// Messages is Anthropic's Messages API.
type Messages struct {
	service anthropic.MessageService
	http    *httpClient
	url     string // "" means AnthropicURL
}

// NewMessages returns a client of the API at url, which does not include
// "/v1/messages". stall is how long the API may send nothing.
func NewMessages(url, key string, stall time.Duration) *Messages {
	m := &Messages{http: newHTTPClient(key, stall), url: url}
	// anthropic.NewClient would link every other service and read the environment.
	m.service = anthropic.NewMessageService(
		option.WithBaseURL(cmp.Or(url, AnthropicURL)),
		option.WithAPIKey(key),
		option.WithHTTPClient(m.http),
		option.WithMaxRetries(0),
	)
	return m
}

// Answer implements Model.
func (m *Messages) Answer(ctx context.Context, q Question, say func(string)) (Answer, error) {
	params, err := messageParams(q)
	if err != nil {
		return Answer{}, err
	}
	stream := m.service.NewStreaming(ctx, params)
	defer stream.Close()
	var b blocks
	for stream.Next() {
		b.take(stream.Current(), say)
		if b.size() > maxAnswer {
			b.answer.Stop = StopLength
			break
		}
	}
	b.finish()
	switch err := stream.Err(); {
	case b.answer.Stop != "":
		return b.answer, nil // nothing of use comes after the stop reason
	case context.Cause(ctx) != nil:
		return b.answer, context.Cause(ctx)
	case err == nil:
		return b.answer, errBrokenOff
	default:
		return b.answer, m.fault(err)
	}
}

// inStream is the text that the library writes before the data of an error event, for which
// it has no type.
const inStream = "received error while streaming: "

// fault returns an error of the library as one of ours.
func (m *Messages) fault(err error) error {
	if data, ok := strings.CutPrefix(err.Error(), inStream); ok {
		return m.http.streamFault([]byte(data))
	}
	if f, ok := errors.AsType[*Fault](err); ok {
		return f
	}
	return m.http.redactError(err)
}

// messageParams returns q in the form of the API.
func messageParams(q Question) (anthropic.MessageNewParams, error) {
	params := anthropic.MessageNewParams{Model: anthropic.Model(q.Model), MaxTokens: int64(q.MaxOutput)}
	if q.System != "" {
		params.System = []anthropic.TextBlockParam{{Text: q.System, CacheControl: anthropic.NewCacheControlEphemeralParam()}}
	}
	for _, t := range q.Tools {
		tool, err := messageTool(t)
		if err != nil {
			return params, err
		}
		params.Tools = append(params.Tools, tool)
	}
	for _, msg := range q.Messages {
		params.Messages = append(params.Messages, messageOf(msg))
	}
	// The next call pays a tenth for everything up to here.
	last := params.Messages[len(params.Messages)-1].Content
	if at := last[len(last)-1].GetCacheControl(); at != nil {
		*at = anthropic.NewCacheControlEphemeralParam()
	}
	return params, nil
}

func messageTool(t Tool) (anthropic.ToolUnionParam, error) {
	var schema struct {
		Type       string          `json:"type"`
		Properties json.RawMessage `json:"properties"`
		Required   []string        `json:"required"`
	}
	var rest map[string]any
	if err := errors.Join(json.Unmarshal(t.Schema, &schema), json.Unmarshal(t.Schema, &rest)); err != nil {
		return anthropic.ToolUnionParam{}, fmt.Errorf("tool %s: schema: %w", t.Name, err)
	}
	for _, known := range []string{"type", "properties", "required"} {
		delete(rest, known)
	}
	tool := anthropic.ToolParam{
		Name:        t.Name,
		Description: anthropic.String(t.Description),
		InputSchema: anthropic.ToolInputSchemaParam{Required: schema.Required, ExtraFields: rest},
	}
	if len(schema.Properties) > 0 {
		tool.InputSchema.Properties = schema.Properties
	}
	return anthropic.ToolUnionParam{OfTool: &tool}, nil
}

// messageOf puts the results of calls first, as the API requires.
func messageOf(m Message) anthropic.MessageParam {
	var blocks []anthropic.ContentBlockParamUnion
	for _, r := range m.Results {
		blocks = append(blocks, anthropic.NewToolResultBlock(r.ID, cmp.Or(r.Text, "(nothing)"), r.Failed))
	}
	for _, s := range m.Shown {
		blocks = append(blocks, anthropic.NewTextBlock(s.line()), shownBlock(s))
	}
	if strings.TrimSpace(m.Text) != "" {
		blocks = append(blocks, anthropic.NewTextBlock(m.Text))
	}
	for _, c := range m.Calls {
		blocks = append(blocks, anthropic.NewToolUseBlock(c.ID, c.input(), c.Name))
	}
	if m.Model {
		return anthropic.NewAssistantMessage(blocks...)
	}
	return anthropic.NewUserMessage(blocks...)
}

// shownBlock returns a file as the model sees it.
func shownBlock(s Shown) anthropic.ContentBlockParamUnion {
	encoded := base64.StdEncoding.EncodeToString(s.data)
	if pictureTypes[s.Type] == PDF {
		return anthropic.NewDocumentBlock(anthropic.Base64PDFSourceParam{Data: encoded})
	}
	return anthropic.NewImageBlockBase64(s.Type, encoded)
}

// blocks gathers an answer from the events of its stream.
type blocks struct {
	answer Answer
	text   strings.Builder
	args   strings.Builder
}

func (b *blocks) size() int { return b.answer.size() + b.text.Len() + b.args.Len() }

func (b *blocks) take(e anthropic.MessageStreamEventUnion, say func(string)) {
	switch e.Type {
	case "message_start":
		b.answer.Model = string(e.Message.Model)
		u := e.Message.Usage
		b.answer.Usage = turn.Usage{Input: u.InputTokens, Output: u.OutputTokens, CacheRead: u.CacheReadInputTokens, CacheWrite: u.CacheCreationInputTokens}
	case "content_block_start":
		b.close()
		if e.ContentBlock.Type == "tool_use" {
			b.answer.Calls = append(b.answer.Calls, Call{ID: e.ContentBlock.ID, Name: e.ContentBlock.Name, Args: wholeInput(e.ContentBlock.Input)})
		}
	case "content_block_delta":
		switch e.Delta.Type {
		case "text_delta":
			b.text.WriteString(e.Delta.Text)
			say(e.Delta.Text)
		case "input_json_delta":
			b.args.WriteString(e.Delta.PartialJSON)
		}
	case "content_block_stop":
		b.close()
	case "message_delta":
		b.answer.Stop, b.answer.Word = messageStop(string(e.Delta.StopReason))
		b.counted(e.Usage)
	}
}

// counted takes the totals of message_delta, which repeat or complete those of
// message_start.
func (b *blocks) counted(u anthropic.MessageDeltaUsage) {
	into := &b.answer.Usage
	for _, f := range []struct {
		from int64
		to   *int64
	}{{u.InputTokens, &into.Input}, {u.OutputTokens, &into.Output}, {u.CacheReadInputTokens, &into.CacheRead}, {u.CacheCreationInputTokens, &into.CacheWrite}} {
		if f.from > 0 {
			*f.to = f.from
		}
	}
}

// close ends the arguments of the open call.
func (b *blocks) close() {
	if n := len(b.answer.Calls); n > 0 && b.args.Len() > 0 {
		b.answer.Calls[n-1].Args = b.args.String()
		b.args.Reset()
	}
}

func (b *blocks) finish() {
	b.close()
	b.answer.Text = b.text.String()
	b.answer.fillIn()
}

// wholeInput returns the input that some servers send with the beginning of a call.
// Anthropic itself sends none there.
func wholeInput(input any) string {
	object, _ := input.(map[string]any)
	if len(object) == 0 {
		return ""
	}
	args, err := json.Marshal(object)
	if err != nil {
		return ""
	}
	return string(args)
}

// messageStop reads a stop_reason.
func messageStop(word string) (Stop, string) {
	switch anthropic.StopReason(word) {
	case "":
		return "", ""
	case anthropic.StopReasonToolUse:
		return StopTools, word
	case anthropic.StopReasonMaxTokens, "model_context_window_exceeded":
		return StopLength, word
	case anthropic.StopReasonRefusal:
		return StopRefusal, word
	case anthropic.StopReasonPauseTurn:
		return StopPause, word
	}
	return StopEnd, word
}
