package react

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"agentstateloop/turn"
)

// AnthropicURL is the address of the Messages API.
const AnthropicURL = "https://api.anthropic.com"

// Messages is Anthropic's Messages API.
type Messages struct {
	http *httpClient
	url  string // "" means AnthropicURL
}

// NewMessages returns a client of the API at url, without "/v1/messages". stall is the longest
// time that the API may send nothing.
func NewMessages(url, key string, stall time.Duration) *Messages {
	return &Messages{http: newHTTPClient(key, stall), url: url}
}

// post sends the question and returns the response with the stream.
func (m *Messages) post(ctx context.Context, q Question) (*http.Response, error) {
	params, err := messageParams(q, m.from(q))
	if err != nil {
		return nil, err
	}
	header := m.header()
	header.Set("Accept", "application/json")
	return m.http.post(ctx, m.endpoint("messages"), params, q.Shape, header)
}

// endpoint returns the address of a resource of the API.
func (m *Messages) endpoint(name string) string {
	return strings.TrimSuffix(cmp.Or(m.url, AnthropicURL), "/") + "/v1/" + name
}

// header returns the header that each request has.
func (m *Messages) header() http.Header {
	return http.Header{"X-Api-Key": {m.http.key}, "Anthropic-Version": {messagesVersion}}
}

// from returns the address and model that kept members go back to.
func (m *Messages) from(q Question) string { return cmp.Or(m.url, AnthropicURL) + " " + q.Model }

// Answer implements Model.
func (m *Messages) Answer(ctx context.Context, q Question, say func(string)) (Answer, error) {
	res, err := m.post(ctx, q)
	if whole := wholeAnswer(err); whole != nil && context.Cause(ctx) == nil {
		return m.readWhole(whole, q, say)
	}
	if err != nil {
		return Answer{}, m.http.fault(ctx, err)
	}
	defer res.Body.Close()
	events := newEventReader(res.Body, maxEventLine)
	var b blocks
	for {
		var e messageEvent
		if e, err = m.nextEvent(events); err != nil {
			break
		}
		b.take(e, say)
		if b.size > maxAnswer {
			b.answer.Stop = StopLength
			break
		}
	}
	b.finish(m.from(q))
	switch {
	case b.answer.Stop != "":
		return b.answer, nil // only useless events follow the stop reason
	case errors.Is(err, io.EOF) && context.Cause(ctx) == nil:
		return b.answer, errBrokenOff
	default:
		return b.answer, m.http.fault(ctx, err)
	}
}

// nextEvent returns the next event of the answer. It skips others, such as "ping", without parsing
// their data. An "error" event is a *Fault.
func (m *Messages) nextEvent(events eventReader) (messageEvent, error) {
	for {
		name, data, err := events.next()
		if err != nil {
			return messageEvent{}, err
		}
		switch name {
		case "message_start", "message_delta", "message_stop", "content_block_start", "content_block_delta", "content_block_stop",
			"message", "completion":
			return readMessageEvent(data)
		case "error":
			return messageEvent{}, m.http.streamFault(data)
		}
	}
}

// readWhole reads the answer of a server that does not stream.
func (m *Messages) readWhole(data []byte, q Question, say func(string)) (Answer, error) {
	r := &chunkReader{}
	top, ok := firstObject(data)
	if !ok || isNull(top["content"]) {
		return Answer{}, m.http.notStream(data)
	}
	var b blocks
	b.setUsage(messageUsage(top["usage"]))
	for _, block := range r.list("content", top["content"]) {
		event, _ := json.Marshal(map[string]any{"type": "content_block_start", "content_block": block}) // it was made from JSON
		if e, err := readMessageEvent(event); err == nil {
			b.take(e, say)
		}
	}
	b.answer.Stop, b.answer.Word = messageStop(r.text("stop_reason", top["stop_reason"]))
	b.take(messageEvent{Type: "message_stop"}, say)
	b.finish(m.from(q))
	if b.answer.Stop == "" {
		return b.answer, m.http.notStream(data)
	}
	return b.answer, nil
}

// messageParams returns q as a request of the API.
func messageParams(q Question, from string) (messagesRequest, error) {
	params := messagesRequest{Model: q.Model, MaxTokens: q.MaxOutput, Stream: true}
	if q.Shape.Effort != "" {
		params.OutputConfig = &outputConfig{Effort: q.Shape.Effort}
	}
	if q.System != "" {
		params.System = []messageBlock{textBlock(q.System)}
		params.System[0].markCached()
	}
	for _, t := range q.Tools {
		tool, err := newMessageTool(t)
		if err != nil {
			return params, err
		}
		params.Tools = append(params.Tools, tool)
	}
	for _, msg := range q.Messages {
		params.Messages = append(params.Messages, messageOf(msg, from))
	}
	// The next call pays a tenth of the price for everything up to here.
	last := params.Messages[len(params.Messages)-1].Content
	last[len(last)-1].markCached()
	return params, nil
}

// newMessageTool returns a tool in the form of the API, which accepts only schemas of objects.
func newMessageTool(t Tool) (messageTool, error) {
	schema := map[string]any{}
	if err := json.Unmarshal(t.Schema, &schema); err != nil {
		return messageTool{}, fmt.Errorf("tool %s: schema: %w", t.Name, err)
	}
	schema["type"] = "object"
	return messageTool{Name: t.Name, Description: t.Description, InputSchema: schema}, nil
}

// messageOf returns a message in the form of the API, which requires tool results first.
func messageOf(m Message, from string) messageTurn {
	out := messageTurn{Role: "user"}
	for _, b := range m.Extras.forServer(from).Blocks {
		out.Content = append(out.Content, messageBlock{raw: b})
	}
	for _, r := range m.Results {
		text := []messageBlock{textBlock(cmp.Or(r.Text, "(nothing)"))}
		out.Content = append(out.Content, messageBlock{Type: "tool_result", ToolUseID: r.ID, Content: text, IsError: &r.Failed})
	}
	for _, s := range m.Shown {
		out.Content = append(out.Content, textBlock(s.line()), shownBlock(s))
	}
	if strings.TrimSpace(m.Text) != "" {
		out.Content = append(out.Content, textBlock(m.Text))
	}
	for _, c := range m.Calls {
		out.Content = append(out.Content, messageBlock{Type: "tool_use", ID: c.ID, Name: c.Name, Input: c.input()})
	}
	if m.Model {
		out.Role = "assistant"
	}
	return out
}

// blocks collects an answer from the events of its stream.
type blocks struct {
	answer Answer
	text   strings.Builder
	args   strings.Builder

	extras Extras
	block  memberPieces // the current block, if it is kept
	size   int
}

func (b *blocks) take(e messageEvent, say func(string)) {
	b.answer.addUnread(e.unread)
	switch e.Type {
	case "message_start":
		b.answer.Model = e.Model
		b.answer.Usage = e.Usage
	case "content_block_start":
		b.close()
		switch {
		case e.Block == nil:
		case e.Kind == "tool_use":
			b.answer.Calls = append(b.answer.Calls, Call{ID: e.ID, Name: e.Name, Args: callInput(e.Input)})
		case e.Kind == "text":
			b.say(e.Text, say)
		default: // thoughts of the model, or an unknown type of block
			b.block.add(e.Block)
		}
	case "content_block_delta":
		b.delta(e, say)
	case "content_block_stop":
		b.close()
	case "message_delta":
		if e.Stop != "" {
			b.answer.Stop, b.answer.Word = messageStop(e.Stop)
		}
		b.setUsage(e.Usage)
	case "message_stop":
		if b.answer.Stop == "" && !b.isEmpty() {
			b.answer.Stop = StopEnd // some servers send no reason
			if len(b.answer.Calls) > 0 {
				b.answer.Stop = StopTools
			}
		}
	}
}

// isEmpty reports whether no text and no call has arrived yet.
func (b *blocks) isEmpty() bool { return b.text.Len() == 0 && len(b.answer.Calls) == 0 }

func (b *blocks) say(text string, say func(string)) {
	if text == "" {
		return
	}
	b.size += len(text)
	b.text.WriteString(text)
	say(text)
}

// delta adds a piece to the current block.
func (b *blocks) delta(e messageEvent, say func(string)) {
	switch {
	case e.Kind == "text_delta":
		b.say(e.Text, say)
	case e.Kind == "input_json_delta":
		b.size += len(e.PartialJSON)
		b.args.WriteString(e.PartialJSON)
	case b.block != nil:
		piece := otherMembers(e.Block, "type")
		for _, value := range piece {
			b.size += len(value)
		}
		b.block.add(piece)
	}
}

// setUsage takes the token counts of message_delta, which repeat or complete those of
// message_start.
func (b *blocks) setUsage(u turn.Usage) {
	into := &b.answer.Usage
	into.Input = cmp.Or(max(0, u.Input), into.Input)
	into.Output = cmp.Or(max(0, u.Output), into.Output)
	into.CacheRead = cmp.Or(max(0, u.CacheRead), into.CacheRead)
	into.CacheWrite = cmp.Or(max(0, u.CacheWrite), into.CacheWrite)
}

// close completes the current block: the arguments of a call, or a kept block.
func (b *blocks) close() {
	if n := len(b.answer.Calls); n > 0 && b.args.Len() > 0 {
		b.answer.Calls[n-1].Args = b.args.String()
	}
	b.args.Reset()
	if b.block != nil {
		block, _ := json.Marshal(b.block.join()) // it was made from JSON
		b.extras.Blocks = append(b.extras.Blocks, block)
	}
	b.block = nil
}

func (b *blocks) finish(from string) {
	b.close()
	if len(b.answer.Calls) > 0 {
		b.answer.Extras = b.extras.fromServer(from)
	}
	b.answer.Text = b.text.String()
	b.answer.fillIn()
}

// callInput returns the input of a call from servers that send it with the start of the call,
// as an object or as a string. Anthropic sends an empty object there.
func callInput(input json.RawMessage) string {
	var text string
	if json.Unmarshal(input, &text) == nil {
		return text
	}
	var object members
	if json.Unmarshal(input, &object) != nil || len(object) == 0 {
		return ""
	}
	return string(input)
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
