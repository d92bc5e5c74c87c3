package react

import (
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"agentstateloop/turn"
)

// OpenAIURL is the address of OpenAI's chat completions API.
const OpenAIURL = "https://api.openai.com/v1"

// Chat is the chat completions API: OpenAI's own, or that of a compatible server such as
// Ollama, vLLM or OpenRouter.
type Chat struct {
	http *httpClient
	url  string
}

// NewChat returns a client of the API at url, without "/chat/completions". The key may be empty
// if the server does not need one. stall is the longest time that the API may send nothing.
func NewChat(url, key string, stall time.Duration) *Chat {
	return &Chat{http: newHTTPClient(key, stall), url: strings.TrimSuffix(cmp.Or(url, OpenAIURL), "/")}
}

// Answer implements Model.
func (c *Chat) Answer(ctx context.Context, q Question, say func(string)) (Answer, error) {
	header := c.header()
	header.Set("Accept", "text/event-stream")
	res, err := c.http.post(ctx, c.url+"/chat/completions", chatBody(q, c.from(q)), q.Shape, header)
	if whole := wholeAnswer(err); whole != nil {
		return c.readWhole(whole, q, say)
	}
	if err != nil {
		return Answer{}, c.http.fault(ctx, err)
	}
	defer res.Body.Close()
	events := newEventReader(res.Body, maxBody+1) // the body has a limit of its own
	d := deltas{from: c.from(q)}
	for {
		var data []byte
		if data, err = events.nextData(); err != nil {
			break
		}
		chunk, unread := readChunk(data)
		if unread != nil {
			d.answer.addUnread([]string{"an event: " + string(data[:min(len(data), maxUnread)])})
			continue
		}
		ended := d.answer.Stop != ""
		d.take(chunk, say)
		if f := c.chunkFault(chunk); f != nil && !ended { // a fault after the end leaves the answer whole
			d.answer.Stop = ""
			return d.finish(), f
		}
		if d.size > maxAnswer {
			d.answer.Stop = StopLength
			break
		}
	}
	if errors.Is(err, errDone) && d.answer.Stop == "" && !d.isEmpty() {
		d.answer.Stop = StopEnd // some servers send no reason
	}
	a := d.finish()
	switch {
	case a.Stop != "":
		return a, nil // only the usage can be missing
	case errors.Is(err, errDone) && len(a.Unread) > 0:
		return a, &Fault{Status: http.StatusOK, Text: "cannot parse the answer: " + c.http.clean(strings.Join(a.Unread, "; "))}
	case errors.Is(err, errDone):
		return a, &Fault{Text: "the answer is empty"}
	case errors.Is(err, io.EOF):
		return a, errBrokenOff
	default:
		return a, c.http.fault(ctx, err)
	}
}

// from returns the address and model that kept members go back to.
func (c *Chat) from(q Question) string { return c.url + " " + q.Model }

// header returns the header that each request has.
func (c *Chat) header() http.Header {
	if c.http.key == "" {
		return http.Header{}
	}
	return http.Header{"Authorization": {"Bearer " + c.http.key}}
}

// readWhole reads the answer of a server that does not stream.
func (c *Chat) readWhole(data []byte, q Question, say func(string)) (Answer, error) {
	d := deltas{from: c.from(q)}
	chunk, err := readChunk(data)
	if err != nil {
		return Answer{}, c.http.notStream(data)
	}
	d.take(chunk, say)
	if f := c.chunkFault(chunk); f != nil {
		return d.finish(), f
	}
	if d.answer.Stop == "" && !d.isEmpty() {
		d.answer.Stop = StopEnd
	}
	if d.answer.Stop == "" {
		return d.finish(), c.http.notStream(data)
	}
	return d.finish(), nil
}

// chatBody returns q as a request of the API. from is the address and model whose kept members
// go back.
func chatBody(q Question, from string) chatRequest {
	r := chatRequest{Model: q.Model, Stream: true, StreamOptions: &streamOptions{IncludeUsage: true}, ReasoningEffort: q.Shape.Effort}
	if turn.Thinks(q.Model) {
		r.MaxCompletionTokens = q.MaxOutput
	} else {
		r.MaxTokens = q.MaxOutput // the only name that all servers accept
	}
	if q.System != "" {
		r.Messages = append(r.Messages, chatMessage{Role: "system", Content: q.System})
	}
	for _, m := range q.Messages {
		r.Messages = append(r.Messages, chatMessages(m, from)...)
	}
	for _, t := range q.Tools {
		r.Tools = append(r.Tools, chatTool{Type: "function", Function: chatToolText{Name: t.Name, Description: t.Description, Parameters: t.Schema}})
	}
	return r
}

// chatMessages returns one message for each result, and one for the rest.
func chatMessages(m Message, from string) []chatMessage {
	var all []chatMessage
	for _, r := range m.Results {
		text := cmp.Or(r.Text, "(nothing)")
		if r.Failed {
			text = "error: " + text
		}
		all = append(all, chatMessage{Role: "tool", ToolCallID: r.ID, Content: text})
	}
	own := chatMessage{Role: "user"}
	if m.Text != "" {
		own.Content = m.Text
	}
	if m.Model {
		own.Role = "assistant"
		kept := m.Extras.forServer(from)
		own.extras = kept.Message
		for i, c := range m.Calls {
			call := chatCall{ID: c.ID, Type: "function", Function: chatFunction{Name: c.Name, Arguments: string(c.input())}}
			if i < len(kept.Calls) {
				call.extras, call.Function.extras = kept.Calls[i].Call, kept.Calls[i].Function
			}
			own.ToolCalls = append(own.ToolCalls, call)
		}
	}
	if len(m.Shown) > 0 {
		own.Content = shownParts(m)
	}
	if own.Content != nil || len(own.ToolCalls) > 0 {
		all = append(all, own)
	}
	return all
}

// shownParts returns the content of a message with pictures. The API does not take other files.
func shownParts(m Message) (parts []chatPart) {
	text := func(s string) {
		if strings.TrimSpace(s) != "" {
			parts = append(parts, chatPart{Type: "text", Text: s})
		}
	}
	for _, s := range m.Shown {
		text(s.line())
		url := "data:" + s.Type + ";base64," + base64.StdEncoding.EncodeToString(s.data)
		parts = append(parts, chatPart{Type: "image_url", ImageURL: &chatImage{URL: url}})
	}
	text(m.Text)
	return parts
}

const stopError = "error"

// chunkFault returns the fault that ends the answer at this chunk, or nil: OpenRouter and others
// report faults in the stream.
func (c *Chat) chunkFault(chunk chatChunk) *Fault {
	if chunk.fault != nil {
		return c.http.streamFault([]byte(`{"error":` + string(chunk.fault) + `}`))
	}
	if chunk.choice != nil && chunk.choice.finish == stopError {
		return &Fault{Text: `the answer ended with finish_reason "error"`}
	}
	return nil
}

// deltas collects an answer from the events of its stream.
type deltas struct {
	from    string
	answer  Answer
	text    strings.Builder
	refusal strings.Builder
	args    []*strings.Builder // for each call
	index   []int              // the stream's index of each call
	checked int                // bytes of arguments that startsCall has parsed
	size    int

	extras     memberPieces // other members of the message
	callExtras []callExtraPieces
}

// callExtraPieces holds the other members of a call and of its function.
type callExtraPieces struct{ call, function memberPieces }

// isEmpty reports whether no text, refusal or call has arrived yet.
func (d *deltas) isEmpty() bool {
	return d.text.Len() == 0 && d.refusal.Len() == 0 && len(d.answer.Calls) == 0
}

func (d *deltas) take(chunk chatChunk, say func(string)) {
	d.answer.Model = cmp.Or(chunk.model, d.answer.Model)
	d.answer.addUnread(chunk.unread)
	if u := chunk.usage; u != nil {
		d.answer.Usage = turn.Usage{Input: u.input - u.cached, Output: u.output, CacheRead: u.cached}
		d.answer.CostUSD = u.cost
	}
	choice := chunk.choice
	if choice == nil {
		return
	}
	if choice.text != "" {
		d.size += len(choice.text)
		d.text.WriteString(choice.text)
		say(choice.text)
	}
	d.size += len(choice.refusal)
	d.refusal.WriteString(choice.refusal)
	d.keep(&d.extras, choice.extras)
	for _, call := range choice.calls {
		d.call(call)
	}
	if choice.finish != "" {
		d.answer.Stop, d.answer.Word = chatStop(choice.finish)
	}
}

// keep adds members that go back to the server.
func (d *deltas) keep(to *memberPieces, next members) {
	for _, value := range next {
		d.size += len(value)
	}
	to.add(next)
}

// maxCalls bounds the calls that are taken from one answer. Each piece is compared with all of
// them.
const maxCalls = 1000

// call adds a piece of a call.
func (d *deltas) call(piece callPiece) {
	at := len(d.answer.Calls) - 1
	if piece.indexed {
		for at >= 0 && d.index[at] != piece.index {
			at--
		}
	}
	if at < 0 || d.startsCall(at, piece) {
		if at = len(d.answer.Calls); at == maxCalls {
			return
		}
		index := at
		if piece.indexed {
			index = piece.index
		}
		d.answer.Calls = append(d.answer.Calls, Call{})
		d.args = append(d.args, &strings.Builder{})
		d.index = append(d.index, index)
		d.callExtras = append(d.callExtras, callExtraPieces{})
	}
	c := &d.answer.Calls[at]
	c.ID = cmp.Or(c.ID, piece.id)
	c.Name = cmp.Or(c.Name, piece.name)
	d.args[at].WriteString(piece.args)
	d.size += len(piece.args)
	d.keep(&d.callExtras[at].call, piece.extras)
	d.keep(&d.callExtras[at].function, piece.functionExtras)
}

// startsCall reports whether a piece begins a new call, although its index, or its missing
// index, assigns it to the call at. The index is not enough: some servers send whole calls,
// each with the index of the first (Ollama, Gemini). The id is not enough either: others give
// each piece its own id (vLLM), or send the id late.
func (d *deltas) startsCall(at int, piece callPiece) bool {
	known := d.answer.Calls[at]
	other := piece.id != "" && known.ID != "" && piece.id != known.ID
	if piece.name == "" || known.Name == "" {
		return other && !piece.indexed
	}
	if other || piece.id != "" {
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
	if refusal := d.refusal.String(); refusal != "" {
		a.Stop, a.Word = StopRefusal, fmt.Sprintf("refusal: %s", refusal)
	}
	if len(a.Calls) > 0 {
		kept := Extras{Message: d.extras.join()}
		for _, c := range d.callExtras {
			kept.Calls = append(kept.Calls, ExtraCall{Call: c.call.join(), Function: c.function.join()})
		}
		a.Extras = kept.fromServer(d.from)
	}
	return a
}

// chatStop reads a finish_reason.
func chatStop(word string) (Stop, string) {
	switch word {
	case "tool_calls", "function_call", "tool_use":
		return StopTools, word
	case "length", "max_tokens", "model_length", "MAX_TOKENS":
		return StopLength, word
	case "content_filter", "SAFETY":
		return StopRefusal, word
	}
	return StopEnd, word
}
