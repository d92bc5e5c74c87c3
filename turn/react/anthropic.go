package react

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/anthropics/anthropic-sdk-go/packages/ssestream"

	"agentstateloop/turn"
)

// AnthropicURL is the address of the Messages API.
const AnthropicURL = "https://api.anthropic.com"

// Messages is Anthropic's Messages API.
type Messages struct {
	http *httpClient
	url  string // "" means AnthropicURL
}

// NewMessages returns a client of the API at url, which does not include
// "/v1/messages". stall is how long the API may send nothing.
func NewMessages(url, key string, stall time.Duration) *Messages {
	return &Messages{http: newHTTPClient(key, stall), url: url}
}

// stream asks, and returns the answer as it comes.
func (m *Messages) stream(ctx context.Context, q Question) (*ssestream.Stream[messageEvent], error) {
	params, err := messageParams(q)
	if err != nil {
		return nil, err
	}
	body, err := json.Marshal(params)
	if err != nil {
		return nil, err
	}
	url := strings.TrimSuffix(cmp.Or(m.url, AnthropicURL), "/") + "/v1/messages"
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return nil, m.http.redactError(err)
	}
	r.Header = http.Header{
		"X-Api-Key": {m.http.key}, "Anthropic-Version": {messagesVersion}, "User-Agent": {"agentStateLoop"},
		"Content-Type": {"application/json"}, "Accept": {"application/json"},
	}
	res, err := m.http.Do(r)
	if err != nil {
		return nil, err
	}
	return ssestream.NewStream[messageEvent](ssestream.NewDecoder(res), nil), nil
}

// Answer implements Model.
func (m *Messages) Answer(ctx context.Context, q Question, say func(string)) (Answer, error) {
	stream, err := m.stream(ctx, q)
	if cause := context.Cause(ctx); err != nil && cause != nil {
		return Answer{}, cause
	}
	if err != nil {
		return Answer{}, err
	}
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
func messageParams(q Question) (messagesRequest, error) {
	params := messagesRequest{Model: q.Model, MaxTokens: q.MaxOutput, Stream: true}
	if q.System != "" {
		params.System = []messageBlock{textBlock(q.System)}
		params.System[0].cached()
	}
	for _, t := range q.Tools {
		tool, err := newMessageTool(t)
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
	last[len(last)-1].cached()
	return params, nil
}

// newMessageTool returns a tool in the form of the API, which takes the schemas of objects.
func newMessageTool(t Tool) (messageTool, error) {
	schema := map[string]any{}
	if err := json.Unmarshal(t.Schema, &schema); err != nil {
		return messageTool{}, fmt.Errorf("tool %s: schema: %w", t.Name, err)
	}
	schema["type"] = "object"
	return messageTool{Name: t.Name, Description: t.Description, InputSchema: schema}, nil
}

// messageOf puts the results of calls first, as the API requires.
func messageOf(m Message) messageTurn {
	said := messageTurn{Role: "user"}
	for _, r := range m.Results {
		said.Content = append(said.Content, toolResultBlock(r.ID, cmp.Or(r.Text, "(nothing)"), r.Failed))
	}
	for _, s := range m.Shown {
		said.Content = append(said.Content, textBlock(s.line()), shownBlock(s))
	}
	if strings.TrimSpace(m.Text) != "" {
		said.Content = append(said.Content, textBlock(m.Text))
	}
	for _, c := range m.Calls {
		said.Content = append(said.Content, toolUseBlock(c))
	}
	if m.Model {
		said.Role = "assistant"
	}
	return said
}

// blocks gathers an answer from the events of its stream.
type blocks struct {
	answer Answer
	text   strings.Builder
	args   strings.Builder
}

func (b *blocks) size() int { return b.answer.size() + b.text.Len() + b.args.Len() }

func (b *blocks) take(e messageEvent, say func(string)) {
	switch e.Type {
	case "message_start":
		b.answer.Model = e.Message.Model
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
		b.answer.Stop, b.answer.Word = messageStop(e.Delta.StopReason)
		b.counted(e.Usage)
	}
}

// counted takes the totals of message_delta, which repeat or complete those of
// message_start.
func (b *blocks) counted(u messageUsage) {
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
	switch word {
	case "":
		return "", ""
	case "tool_use":
		return StopTools, word
	case "max_tokens", "model_context_window_exceeded":
		return StopLength, word
	case "refusal":
		return StopRefusal, word
	case "pause_turn":
		return StopPause, word
	}
	return StopEnd, word
}
