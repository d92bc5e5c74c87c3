package react

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/sashabaranov/go-openai"

	"agentstateloop/turn"
)

// OpenAIURL is the address of OpenAI's chat completions API.
const OpenAIURL = "https://api.openai.com/v1"

// Chat is the chat completions API: OpenAI's own, and that of compatible servers
// such as Ollama, vLLM and OpenRouter.
type Chat struct {
	client *openai.Client
	http   *httpClient
	url    string
}

// NewChat returns a client of the API at url, which does not include
// "/chat/completions". The key may be empty if the server needs none. stall is how
// long the API may send nothing.
func NewChat(url, key string, stall time.Duration) *Chat {
	c := &Chat{http: newHTTPClient(key, stall), url: strings.TrimSuffix(cmp.Or(url, OpenAIURL), "/")}
	config := openai.DefaultConfig(key)
	config.BaseURL = c.url
	config.HTTPClient = c.http
	config.EmptyMessagesLimit = maxBody // comments that keep a connection alive count too
	c.client = openai.NewClientWithConfig(config)
	return c
}

// Answer implements Model.
func (c *Chat) Answer(ctx context.Context, q Question, say func(string)) (Answer, error) {
	stream, err := c.client.CreateChatCompletionStream(ctx, chatRequest(q))
	if err != nil {
		return Answer{}, c.fault(ctx, err)
	}
	defer stream.Close()
	var d deltas
	for err == nil {
		var line []byte
		if line, err = stream.RecvRaw(); err != nil {
			break
		}
		var chunk chatChunk
		if json.Unmarshal(line, &chunk) != nil {
			continue // the missing stop reason shows it
		}
		d.take(chunk, say)
		if f := c.broke(chunk, line); f != nil {
			d.answer.Stop = ""
			return d.finish(), f
		}
		if d.size > maxAnswer {
			d.answer.Stop = StopLength
			break
		}
	}
	switch a := d.finish(); {
	case a.Stop != "":
		return a, nil // only the usage can be missing
	case errors.Is(err, io.EOF):
		return a, errBrokenOff
	default:
		return a, c.fault(ctx, err)
	}
}

// fault returns an error of the library as one of ours.
func (c *Chat) fault(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	if f, ok := errors.AsType[*Fault](err); ok {
		return f
	}
	if said, ok := errors.AsType[*openai.APIError](err); ok { // in the middle of the stream
		f := &Fault{Type: said.Type, Text: c.http.clean(said.Message)}
		f.coded(said.Code)
		return f
	}
	return c.http.redactError(err)
}

// chatRequest returns q in the form of the API.
func chatRequest(q Question) openai.ChatCompletionRequest {
	r := openai.ChatCompletionRequest{
		Model:         q.Model,
		Stream:        true,
		StreamOptions: &openai.StreamOptions{IncludeUsage: true},
	}
	if turn.Thinks(q.Model) {
		r.MaxCompletionTokens = q.MaxOutput
	} else {
		//lint:ignore SA1019 the only name that all servers accept
		r.MaxTokens = q.MaxOutput
	}
	if q.System != "" {
		r.Messages = append(r.Messages, openai.ChatCompletionMessage{Role: openai.ChatMessageRoleSystem, Content: q.System})
	}
	for _, m := range q.Messages {
		r.Messages = append(r.Messages, chatMessages(m)...)
	}
	for _, t := range q.Tools {
		r.Tools = append(r.Tools, openai.Tool{
			Type:     openai.ToolTypeFunction,
			Function: &openai.FunctionDefinition{Name: t.Name, Description: t.Description, Parameters: t.Schema},
		})
	}
	return r
}

// chatMessages returns a message for each result, and one for the rest.
func chatMessages(m Message) []openai.ChatCompletionMessage {
	var all []openai.ChatCompletionMessage
	for _, r := range m.Results {
		text := cmp.Or(r.Text, "(nothing)")
		if r.Failed {
			text = "error: " + text
		}
		all = append(all, openai.ChatCompletionMessage{Role: openai.ChatMessageRoleTool, ToolCallID: r.ID, Content: text})
	}
	own := openai.ChatCompletionMessage{Role: openai.ChatMessageRoleUser, Content: m.Text}
	if m.Model {
		own.Role = openai.ChatMessageRoleAssistant
		for _, c := range m.Calls {
			own.ToolCalls = append(own.ToolCalls, openai.ToolCall{
				ID: c.ID, Type: openai.ToolTypeFunction,
				Function: openai.FunctionCall{Name: c.Name, Arguments: string(c.input())},
			})
		}
	}
	if len(m.Shown) > 0 {
		own.Content, own.MultiContent = "", shownParts(m)
	}
	if own.Content != "" || len(own.ToolCalls) > 0 || len(own.MultiContent) > 0 {
		all = append(all, own)
	}
	return all
}

// shownParts returns a message with the pictures that it shows. The API has no place for
// other files.
func shownParts(m Message) (parts []openai.ChatMessagePart) {
	text := func(s string) {
		if strings.TrimSpace(s) != "" {
			parts = append(parts, openai.ChatMessagePart{Type: openai.ChatMessagePartTypeText, Text: s})
		}
	}
	for _, s := range m.Shown {
		text(s.line())
		url := "data:" + s.Type + ";base64," + base64.StdEncoding.EncodeToString(s.data)
		parts = append(parts, openai.ChatMessagePart{Type: openai.ChatMessagePartTypeImageURL, ImageURL: &openai.ChatMessageImageURL{URL: url}})
	}
	text(m.Text)
	return parts
}

// chatChunk is one event of the stream. Some servers report the cost of a call.
type chatChunk struct {
	openai.ChatCompletionStreamResponse
	Usage *struct {
		openai.Usage
		Cost float64 `json:"cost"`
	} `json:"usage"`

	// Error is why the answer breaks off here, as OpenRouter reports it. The stop
	// reason is then "error".
	Error json.RawMessage `json:"error"`
}

const stopError = "error"

// broke returns the fault with which the answer ends at this chunk, or nil.
func (c *Chat) broke(chunk chatChunk, line []byte) *Fault {
	if len(chunk.Error) > 0 && string(chunk.Error) != "null" {
		return c.http.streamFault(line)
	}
	if len(chunk.Choices) > 0 && chunk.Choices[0].FinishReason == stopError {
		return &Fault{Text: `the answer broke off; the only reason is "error"`}
	}
	return nil
}

// deltas gathers an answer from the events of its stream.
type deltas struct {
	answer  Answer
	text    strings.Builder
	refusal strings.Builder
	args    []*strings.Builder // of each call
	index   []int              // the stream's index of each call
	checked int                // bytes of arguments of which startsCall asked whether they are whole
	size    int
}

func (d *deltas) take(chunk chatChunk, say func(string)) {
	d.answer.Model = cmp.Or(chunk.Model, d.answer.Model)
	if u := chunk.Usage; u != nil {
		cached := 0
		if u.PromptTokensDetails != nil {
			cached = min(u.PromptTokensDetails.CachedTokens, u.PromptTokens)
		}
		d.answer.Usage = turn.Usage{Input: int64(u.PromptTokens - cached), Output: int64(u.CompletionTokens), CacheRead: int64(cached)}
		d.answer.CostUSD = u.Cost
	}
	if len(chunk.Choices) == 0 {
		return
	}
	choice := chunk.Choices[0]
	if text := choice.Delta.Content; text != "" {
		d.size += len(text)
		d.text.WriteString(text)
		say(text)
	}
	d.size += len(choice.Delta.Refusal)
	d.refusal.WriteString(choice.Delta.Refusal)
	for _, call := range choice.Delta.ToolCalls {
		d.call(call)
	}
	if choice.FinishReason != "" {
		d.answer.Stop, d.answer.Word = chatStop(choice.FinishReason)
	}
}

// maxCalls is how many calls of one answer are taken. Each piece is compared with
// all of them.
const maxCalls = 1000

// call takes a piece of a call.
func (d *deltas) call(piece openai.ToolCall) {
	at := len(d.answer.Calls) - 1
	if piece.Index != nil {
		for at >= 0 && d.index[at] != *piece.Index {
			at--
		}
	}
	if at < 0 || d.startsCall(at, piece) {
		if at = len(d.answer.Calls); at == maxCalls {
			return
		}
		index := at
		if piece.Index != nil {
			index = *piece.Index
		}
		d.answer.Calls = append(d.answer.Calls, Call{})
		d.args = append(d.args, &strings.Builder{})
		d.index = append(d.index, index)
	}
	c := &d.answer.Calls[at]
	c.ID = cmp.Or(c.ID, piece.ID)
	c.Name = cmp.Or(c.Name, piece.Function.Name)
	d.args[at].WriteString(piece.Function.Arguments)
	d.size += len(piece.Function.Arguments)
}

// startsCall reports whether a piece begins a new call, although its index, or its
// missing index, assigns it to the call at. The index is not enough: some servers
// send whole calls, each with the index of the first (Ollama, Gemini). The id is not
// enough either: others give each piece an id of its own (vLLM), or send it late.
func (d *deltas) startsCall(at int, piece openai.ToolCall) bool {
	known := d.answer.Calls[at]
	other := piece.ID != "" && known.ID != "" && piece.ID != known.ID
	if piece.Function.Name == "" || known.Name == "" {
		return other && piece.Index == nil
	}
	if other || piece.ID != "" {
		return other
	}
	d.checked += d.args[at].Len()
	return d.checked <= maxBody && Call{Args: d.args[at].String()}.valid()
}

func (d *deltas) finish() Answer {
	a := d.answer
	a.Text = d.text.String()
	for i := range a.Calls {
		a.Calls[i].Args = d.args[i].String()
	}
	a.fillIn()
	if len(a.Calls) > 0 && a.Stop == StopEnd {
		a.Stop = StopTools // some servers send "stop" for both
	}
	if said := d.refusal.String(); said != "" {
		a.Stop, a.Word = StopRefusal, fmt.Sprintf("refusal: %s", said)
	}
	return a
}

// chatStop reads a finish_reason.
func chatStop(reason openai.FinishReason) (Stop, string) {
	word := string(reason)
	switch reason {
	case openai.FinishReasonToolCalls, openai.FinishReasonFunctionCall:
		return StopTools, word
	case openai.FinishReasonLength:
		return StopLength, word
	case openai.FinishReasonContentFilter:
		return StopRefusal, word
	}
	return StopEnd, word
}
