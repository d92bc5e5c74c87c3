package react_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"agentstateloop/turn"
	"agentstateloop/turn/react"
	"agentstateloop/turn/react/scripted"
)

// What broke off was paid for all the same, whether or not it was counted.
func TestBrokenAnswersCost(t *testing.T) {
	long := strings.Repeat("word ", 600)
	for api, stream := range map[string]string{
		"openai": chat(`{"choices":[{"index":0,"delta":{"content":"` + long + `"}}]}`),
		"anthropic": messages(`{"type":"message_start","message":{"id":"m","type":"message","role":"assistant","model":"m","content":[],"usage":{"input_tokens":10,"output_tokens":1}}}`,
			`{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}`,
			`{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"`+long+`"}}`),
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			io.WriteString(w, stream)
		}))
		b := newBench(t, api)
		b.Model = react.NewChat(server.URL+"/v1", "sk-wire", 30*time.Second)
		if api == "anthropic" {
			b.Model = react.NewMessages(server.URL, "sk-wire", 30*time.Second)
		}
		b.Deadline = time.Now() // no second try
		_ = b.run(strings.Repeat("read this ", 300), false)
		server.Close()
		if len(b.spent) != 1 || b.spent[0].Usage.Output < 500 || b.spent[0].Usage.Input < 10 {
			t.Errorf("%s: spent %+v", api, b.spent)
		}
	}
}

// Figures that cannot be are not believed: what was used is reckoned instead.
func TestAbsurdUsage(t *testing.T) {
	for _, usage := range []string{`{"prompt_tokens":-5,"completion_tokens":-7}`, `{"prompt_tokens":1000000000000000000,"completion_tokens":3}`} {
		a := chat(`{"choices":[{"index":0,"delta":{"content":"hi"}}]}`, chatStops, `{"choices":[],"usage":`+usage+`}`, done)
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			io.WriteString(w, a)
		}))
		b := newBench(t, "openai")
		b.Model = react.NewChat(server.URL+"/v1", "sk-wire", 30*time.Second)
		err := b.run(strings.Repeat("read this ", 300), false)
		server.Close()
		if u := b.spent[0].Usage; err != nil || u.Input < 900 || u.Input > 5000 || u.Output < 0 || u.Output > 100 || u == (turn.Usage{}) {
			t.Errorf("%s: %v, %+v", usage, err, b.spent)
		}
	}
}

// What there is to know, the money above all, is looked at before each request:
// one that is made again, and one after a summary, too.
func TestLookBeforeEachRequest(t *testing.T) {
	eachAPI(t, func(t *testing.T, api string) {
		for name, replies := range map[string][]scripted.Reply{
			"again":   {{Status: 500, Fault: "oops"}, {Text: "never asked"}},
			"summary": {{Calls: []scripted.Call{notch("c1", "here")}, In: 950_000}, {Text: "Goal: none."}, {Text: "never asked"}},
		} {
			b := newBench(t, api, replies...)
			b.Window = 1_000_000
			b.Check = func(context.Context) (react.Outlook, error) {
				if len(b.server.Asked()) == len(replies)-1 {
					return react.Outlook{Over: "the budget is used up"}, nil
				}
				return react.Outlook{}, nil
			}
			if err := b.run("hello", false); err != nil {
				t.Fatal(name, err)
			}
			if d := b.done(); d.Cut != "the budget is used up" {
				t.Errorf("%s: %+v", name, d)
			}
			if n := len(b.server.Asked()); n != len(replies)-1 {
				t.Errorf("%s: %d requests", name, n)
			}
		}
	})
}

// A summary outside of a wake is asked for again where that makes sense, and its
// bill is at the end, reckoned where the API does not count.
func TestSummaryAlone(t *testing.T) {
	for api, stream := range map[string]string{
		"openai":    chat(`{"choices":[{"index":0,"delta":{"content":"Goal: none."}}]}`, chatStops, done),
		"anthropic": messages(`{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}`, `{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"Goal: none."}}`, `{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":0}}`),
	} {
		requests := 0
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			if requests++; requests == 1 {
				w.WriteHeader(http.StatusServiceUnavailable)
				return
			}
			w.Header().Set("Content-Type", "text/event-stream")
			io.WriteString(w, stream)
		}))
		b := newBench(t, api)
		b.Model = react.NewChat(server.URL+"/v1", "sk-wire", 30*time.Second)
		if api == "anthropic" {
			b.Model = react.NewMessages(server.URL, "sk-wire", 30*time.Second)
		}
		err := b.Summary(t.Context(), strings.Repeat("said this and that ", 100))
		server.Close()
		if d := b.done(); err != nil || d.Text != "Goal: none." || d.Failed || d.Usage.Input < 500 || requests != 2 {
			t.Errorf("%s: %v, %+v after %d requests", api, err, d, requests)
		}
	}
}
