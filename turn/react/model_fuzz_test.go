package react_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"agentstateloop/turn/react"
)

// fuzzStream checks that any stream gives either an answer with a stop reason or an error, and that
// the answer has exactly the text that was passed to say.
func fuzzStream(f *testing.F, model func(url string) react.Model, seeds ...string) {
	body := ""
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "text/event-stream")
		io.WriteString(w, body)
	}))
	f.Cleanup(api.Close)
	m := model(api.URL)
	for _, s := range seeds {
		f.Add(s)
		f.Add(s[:len(s)/2])
	}
	f.Add("data: [DONE]\n\n")
	f.Add("a: {}\n\nevent: error\ndataR {\"error\":null}\n\n")
	f.Add("data: {}\n\nevent: error\ndata: {\"error\":null}\n\n")
	f.Fuzz(func(t *testing.T, stream string) {
		body = stream
		said := ""
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		a, err := m.Answer(ctx, react.Question{
			Model: "m", MaxOutput: 100, Messages: []react.Message{{Text: "hello"}},
		}, func(text string) { said += text })
		if errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("%q was never at its end", stream)
		}
		if err != nil {
			if strings.TrimSpace(err.Error()) == "" {
				t.Errorf("%q: an error without a word", stream)
			}
			return
		}
		if !slices.Contains([]react.Stop{react.StopEnd, react.StopTools, react.StopLength, react.StopRefusal}, a.Stop) {
			t.Errorf("%q: it stopped for %q", stream, a.Stop)
		}
		if a.Text != said {
			t.Errorf("%q: said %q, answered %q", stream, said, a.Text)
		}
		for _, c := range a.Calls {
			if c.Args == "" {
				t.Errorf("%q: a call without arguments: %+v", stream, c)
			}
		}
	})
}

func FuzzMessages(f *testing.F) {
	fuzzStream(f, func(url string) react.Model { return react.NewMessages(url, "key", 10*time.Second) },
		`event: message_start
data: {"type":"message_start","message":{"id":"m1","type":"message","role":"assistant","model":"claude-x","content":[],"usage":{"input_tokens":12,"output_tokens":1}}}

event: content_block_start
data: {"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}

event: content_block_delta
data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"I look."}}

event: content_block_stop
data: {"type":"content_block_stop","index":0}

event: content_block_start
data: {"type":"content_block_start","index":1,"content_block":{"type":"tool_use","id":"c1","name":"read","input":{}}}

event: content_block_delta
data: {"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","partial_json":"{\"path\":\"a\"}"}}

event: content_block_stop
data: {"type":"content_block_stop","index":1}

event: message_delta
data: {"type":"message_delta","delta":{"stop_reason":"tool_use","stop_sequence":null},"usage":{"output_tokens":20}}

event: message_stop
data: {"type":"message_stop"}

`, "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"Overloaded\"}}\n\n")
}

func FuzzChat(f *testing.F) {
	fuzzStream(f, func(url string) react.Model { return react.NewChat(url, "key", 10*time.Second) },
		`data: {"id":"1","object":"chat.completion.chunk","model":"gpt-x","choices":[{"index":0,"delta":{"role":"assistant","content":"I look."}}]}

: keep-alive

data: {"id":"1","choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"c1","type":"function","function":{"name":"read","arguments":"{\"path\":"}}]}}]}

data: {"id":"1","choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"\"a\"}"}}]},"finish_reason":"tool_calls"}]}

data: {"id":"1","choices":[],"usage":{"prompt_tokens":12,"completion_tokens":20,"cost":0.01,"prompt_tokens_details":{"cached_tokens":4}}}

data: [DONE]

`, "data: {\"error\":{\"message\":\"overloaded\",\"type\":\"server_error\",\"code\":500}}\n\n")
}
