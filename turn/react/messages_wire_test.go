package react_test

import (
	"cmp"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"reflect"
	"testing"
	"time"

	"agentstateloop/turn/react"
)

// TestMessagesRequest checks the requests to the Messages API. The expected texts were recorded
// from Anthropic's own client (v1.34.0) for the same questions.
func TestMessagesRequest(t *testing.T) {
	var path, body string
	var header http.Header
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		data, _ := io.ReadAll(r.Body)
		path, header, body = r.Method+" "+r.RequestURI, r.Header, string(data)
	}))
	defer server.Close()
	tools := []react.Tool{
		{Name: "one", Description: "does", Schema: json.RawMessage(`{"type":"object","properties":{"a":{"type":"string"}},"required":["a"],"additionalProperties":false}`)},
		{Name: "two", Schema: json.RawMessage(`{"type":"object"}`)},
	}
	for _, test := range []struct {
		question react.Question
		want     string
	}{
		{react.Question{Model: "m", System: "sys <b>", MaxOutput: 77, Tools: tools, Shape: react.Shape{Headers: map[string]string{"accept": "text/plain"}}, Messages: []react.Message{
			{Text: "hello"},
			{Model: true, Text: "I call", Calls: []react.Call{{ID: "c1", Name: "one", Args: `{"a":"x"}`}, {ID: "c2", Name: "two"}}},
			{Results: []react.Result{{ID: "c1", Text: "ok"}, {ID: "c2", Failed: true}}, Text: "and?"},
		}}, `{"max_tokens":77,"messages":[
			{"content":[{"text":"hello","type":"text"}],"role":"user"},
			{"content":[{"text":"I call","type":"text"},{"id":"c1","input":{"a":"x"},"name":"one","type":"tool_use"},{"id":"c2","input":{},"name":"two","type":"tool_use"}],"role":"assistant"},
			{"content":[{"tool_use_id":"c1","is_error":false,"content":[{"text":"ok","type":"text"}],"type":"tool_result"},
				{"tool_use_id":"c2","is_error":true,"content":[{"text":"(nothing)","type":"text"}],"type":"tool_result"},
				{"text":"and?","cache_control":{"type":"ephemeral"},"type":"text"}],"role":"user"}],
			"model":"m","system":[{"text":"sys \u003cb\u003e","cache_control":{"type":"ephemeral"},"type":"text"}],
			"tools":[{"input_schema":{"properties":{"a":{"type":"string"}},"required":["a"],"type":"object","additionalProperties":false},"name":"one","description":"does"},
				{"input_schema":{"type":"object"},"name":"two","description":""}],"stream":true}`},
		{react.Question{Model: "m", MaxOutput: 77, Messages: []react.Message{{Results: []react.Result{{ID: "c1", Text: "ok"}}}}},
			`{"max_tokens":77,"messages":[{"content":[{"tool_use_id":"c1","is_error":false,"cache_control":{"type":"ephemeral"},"content":[{"text":"ok","type":"text"}],"type":"tool_result"}],"role":"user"}],"model":"m","stream":true}`},
	} {
		if _, err := react.NewMessages(server.URL+"/base/", "key", time.Minute).Answer(t.Context(), test.question, func(string) {}); err == nil {
			t.Error("an empty answer was taken")
		}
		var got, want any
		if json.Unmarshal([]byte(body), &got) != nil || json.Unmarshal([]byte(test.want), &want) != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("sent %s\nwant %s", body, test.want)
		}
		accept := cmp.Or(test.question.Shape.Headers["accept"], "application/json")
		if header.Get("Accept") != accept || header.Get("User-Agent") != "agentStateLoop" {
			t.Errorf("want Accept %s: %v", accept, header)
		}
		if path != "POST /base/v1/messages" || header.Get("X-Api-Key") != "key" || header.Get("Anthropic-Version") != "2023-06-01" || header.Get("Content-Type") != "application/json" {
			t.Errorf("%s %v", path, header)
		}
	}
}

// TestMessagesOfImitators checks that a server may send members of other types than the API
// promises, where nothing of ours depends on them.
func TestMessagesOfImitators(t *testing.T) {
	stream := messages(
		`{"type":"message_start","message":{"model":7,"usage":{"input_tokens":"ten","output_tokens":3}}}`,
		`{"type":"content_block_start","index":0,"content_block":{"type":"text","text":null,"input":"x"}}`,
		`{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"hello","partial_json":{}}}`,
		`{"type":"content_block_start","index":1,"content_block":{"type":"tool_use","id":"a","name":"read_file","input":{"path":"a"}}}`,
		`{"type":"content_block_start","index":2,"content_block":{"type":"tool_use","id":"b","name":"list","input":{}}}`,
		`{"type":"message_delta","delta":{"stop_reason":"tool_use","text":[]},"usage":null}`)
	a, err := ask(t, "anthropic", stream)
	if err != nil || a.Text != "hello" || a.Stop != react.StopTools || len(a.Calls) != 2 || a.Calls[0].Args != `{"path":"a"}` || a.Calls[1].Args != "{}" || a.Usage.Output != 3 {
		t.Errorf("%+v, %v", a, err)
	}
}
