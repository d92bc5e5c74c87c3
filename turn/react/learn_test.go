package react_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"agentstateloop/turn"
	"agentstateloop/turn/react"
)

const (
	hi    = `{"choices":[{"index":0,"delta":{"content":"hi"},"finish_reason":"stop"}]}`
	count = `{"choices":[],"usage":{"prompt_tokens":%d,"completion_tokens":2}}`
)

// memory keeps lessons during a test.
type memory map[string]react.Lesson

func (m memory) Of(model string) react.Lesson { return m[model] }

func (m memory) Learn(model string, l react.Lesson) error {
	m[model] = m[model].With(l)
	return nil
}

// newFixtureOn returns a loop that asks a server.
func newFixtureOn(t *testing.T, s *server, api string) *fixture {
	b := newFixture(t, api)
	b.Model, b.Deadline = s.model(api), time.Now().Add(5*time.Second)
	return b
}

// notes returns the notes to the operator at the end of the answer.
func (b *fixture) notes() (all []string) {
	for _, e := range b.events {
		if e.Kind == turn.Note {
			all = append(all, e.Text)
		}
	}
	return all
}

// A refused member of a request is dropped or renamed, for later turns, too.
func TestLessonsFromRefusedMembers(t *testing.T) {
	for _, c := range []struct {
		name, api string
		status    int
		refusal   string
		gone, has string
	}{
		{"OpenAI", "openai", 400, `{"error":{"message":"Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.","type":"invalid_request_error","param":"max_tokens"}}`, "max_tokens", "max_completion_tokens"},
		{"vLLM", "openai", 400, `{"object":"error","message":"[{'type': 'extra_forbidden', 'loc': ('body', 'stream_options'), 'msg': 'Extra inputs are not permitted'}]","code":400}`, "stream_options", "max_tokens"},
		{"FastAPI", "openai", 422, `{"detail":[{"type":"extra_forbidden","loc":["body","stream_options"],"msg":"Extra inputs are not permitted: stream_options"}]}`, "stream_options", "max_tokens"},
		{"by param alone", "openai", 400, `{"error":{"message":"Unknown parameter","param":"reasoning_effort"}}`, "reasoning_effort", "max_tokens"},
		{"of the user", "openai", 400, `{"error":{"message":"temperature: only 1 is allowed for this model"}}`, "temperature", "max_tokens"},
		{"a Messages API", "anthropic", 400, `{"type":"error","error":{"type":"invalid_request_error","message":"messages.0.content.0.text.cache_control: Extra inputs are not permitted"}}`, "cache_control", "max_tokens"},
		{"no effort", "anthropic", 400, `{"type":"error","error":{"type":"invalid_request_error","message":"output_config: Extra inputs are not permitted"}}`, "output_config", "cache_control"},
		{"no tools", "openai", 400, `{"error":{"message":"registry.ollama.ai/library/gemma:2b does not support tools","type":"api_error"}}`, "tools", "max_tokens"},
	} {
		t.Run(c.name, func(t *testing.T) {
			good := chat(hi, done)
			if c.api == "anthropic" {
				good = messages(`{"type":"content_block_start","content_block":{"type":"text","text":"hi"}}`, `{"type":"message_stop"}`)
			}
			s := newServer(t, errorReply(c.status, c.refusal), streamReply(good))
			known := memory{}
			for turns := range 2 {
				b := newFixtureOn(t, s, c.api)
				b.Lessons, b.Shape = known, react.Shape{Effort: "low", Extra: map[string]any{"temperature": 0.2}, Omit: []string{"never"}}
				if err := b.run("hello", false); err != nil || b.done().Text != "hi" {
					t.Fatalf("%v, %+v", err, b.done())
				}
				if len(s.bodies) != 2+turns {
					t.Fatalf("%d requests after turn %d", len(s.bodies), turns+1)
				}
				last, _ := json.Marshal(s.bodies[1+turns])
				if strings.Contains(string(last), `"`+c.gone+`":`) || !strings.Contains(string(last), `"`+c.has+`":`) {
					t.Errorf("asked %s", last)
				}
			}
		})
	}
}

// A message that is longer than the model takes is made shorter, and not paid for twice. The
// window is remembered.
func TestMessageTooLong(t *testing.T) {
	for name, refused := range map[string]string{
		"said":        `{"error":{"message":"the input is longer than the context length of the model"}}`,
		"not said":    `{"error":{"message":"invalid argument"}}`,
		"or by a 413": "",
	} {
		t.Run(name, func(t *testing.T) {
			status := 400
			if refused == "" {
				status = 413
			}
			answers := []exchange{errorReply(status, refused), errorReply(status, refused), streamReply(chat(hi, done))}
			if name == "not said" { // then one retry is made
				answers = answers[1:]
			}
			s, known := newServer(t, answers...), memory{}
			b := newFixtureOn(t, s, "openai")
			b.Lessons, b.Window, b.MaxOutput = known, 16_384, 1000
			asked := 0
			b.Shorter = func(bytes int) (string, error) {
				asked = bytes
				return "the question, with less of the past", nil
			}
			long := strings.Repeat("what was said before ", 1700) + "the question"
			if err := b.run(long, false); err != nil || b.done().Text != "hi" {
				t.Fatalf("%v, %+v", err, b.done())
			}
			if last, _ := json.Marshal(s.bodies[len(s.bodies)-1]); !strings.Contains(string(last), "the question, with less of the past") || asked == 0 {
				t.Errorf("asked %s", last)
			}
			if known["usual"].Window > 8192 || known["usual"].Window == 0 && name != "not said" {
				t.Errorf("known: %+v", known)
			}
		})
	}
}

// If a server refuses a conversation above half the window with an unknown error, the loop tries
// one summary.
func TestVagueRefusalCausesSummary(t *testing.T) {
	for status, words := range map[int]string{400: "Bad Request", 413: "", 422: "unprocessable"} {
		t.Run(fmt.Sprint(status), func(t *testing.T) {
			big := calls(`{"index":0,"id":"c1","function":{"name":"notch","arguments":"{\"text\":\"` + strings.Repeat("x ", 12_000) + `\"}"}}`)
			s := newServer(t, streamReply(chat(big, chatCalls, done)), errorReply(status, `{"error":{"message":"`+words+`"}}`), streamReply(chat(`{"choices":[{"index":0,"delta":{"content":"Goal: to say hi."},"finish_reason":"stop"}]}`, done)), streamReply(chat(hi, done)))
			b := newFixtureOn(t, s, "openai")
			b.Window, b.MaxOutput = 12_000, 500
			if err := b.run("hello", false); err != nil || b.done().Text != "hi" || len(s.bodies) != 4 {
				t.Errorf("%v after %d requests, %+v", err, len(s.bodies), b.done())
			}
		})
	}
	s := newServer(t, errorReply(400, `{"error":{"message":"Bad Request"}}`))
	b := newFixtureOn(t, s, "openai")
	if err := b.run("hello", false); err == nil || len(s.bodies) != 1 {
		t.Errorf("a short conversation: %v after %d requests", err, len(s.bodies))
	}
}

// A server that has read less than it was sent, and does not say so, is told about once.
func TestSilentTruncation(t *testing.T) {
	s := newServer(t, streamReply(chat(hi, fmt.Sprintf(count, 2048), done)))
	known := memory{}
	long := strings.Repeat("what was said before ", 3000)
	for turns := range 2 {
		b := newFixtureOn(t, s, "openai")
		b.Lessons = known
		if err := b.run(long, false); err != nil {
			t.Fatal(err)
		}
		if n := len(b.notes()); n != 1-turns {
			t.Errorf("turn %d: %q", turns+1, b.notes())
		}
	}
	if !known["usual"].Cut {
		t.Errorf("known: %+v", known)
	}
	s = newServer(t, streamReply(chat(hi, fmt.Sprintf(count, 16_000), done)))
	b := newFixtureOn(t, s, "openai")
	if err := b.run(long, false); err != nil || len(b.notes()) > 0 {
		t.Errorf("a server that has read all: %v, %q", err, b.notes())
	}
}

// Only a body without a proper end counts as broken off. The same text twice is not requested a
// third time.
func TestConnectionLostTwice(t *testing.T) {
	half := `{"choices":[{"index":0,"delta":{"content":"half"},"finish_reason":null}]}`
	s := newServer(t, streamReply(chat(half)))
	b := newFixtureOn(t, s, "openai")
	b.Backoff = time.Millisecond
	if err := b.run("hello", false); err == nil || len(s.bodies) != 2 || !strings.Contains(b.done().Text, "lost twice at the same place") {
		t.Errorf("%v after %d requests: %+v", err, len(s.bodies), b.done())
	}
	s = newServer(t, streamReply(chat(half, done)))
	b = newFixtureOn(t, s, "openai")
	if err := b.run("hello", false); err != nil || len(s.bodies) != 1 || b.done().Text != "half" {
		t.Errorf("%v after %d requests: %+v", err, len(s.bodies), b.done())
	}
}

// What a model thinks before it answers is neither shown nor sent back, whether it ends or not.
func TestThoughtsAreDropped(t *testing.T) {
	say := func(text string) string {
		data, _ := json.Marshal(text)
		return `{"choices":[{"index":0,"delta":{"content":` + string(data) + `}}]}`
	}
	for _, c := range []struct {
		pieces []string
		want   string
	}{
		{[]string{"<think>The user wants secret plan X</think>\n\nHello."}, "Hello."},
		{[]string{"<thi", "nk>secret ", "plan X</th", "ink>Hel", "lo."}, "Hello."},
		{[]string{"\n<thinking>secret plan X</thinking>Hello."}, "Hello."},
		{[]string{"The user wants secret plan X\n</think>\nHello."}, "Hello."},
		{[]string{"<think>one</think><think>secret plan X</think>Hello."}, "Hello."},
		{[]string{"[THINK]secret plan X[/THINK]Hello."}, "Hello."},
		{[]string{"Write <think> before it, and </think> behind."}, "Write <think> before it, and </think> behind."},
		{[]string{"<", "b>Hello.</b>"}, "<b>Hello.</b>"},
	} {
		var stream []string
		for _, p := range c.pieces {
			stream = append(stream, say(p))
		}
		tool := append(append([]string{}, stream...), calls(`{"index":0,"id":"c1","function":{"name":"notch","arguments":"{\"text\":\"here\"}"}}`), chatCalls, done)
		s := newServer(t, streamReply(chat(tool...)), streamReply(chat(append(stream, chatStops, done)...)))
		b := newFixtureOn(t, s, "openai")
		if err := b.run("hello", false); err != nil || b.done().Text != c.want {
			t.Errorf("%q: %v, %+v", c.pieces, err, b.done())
		}
		if back, _ := json.Marshal(s.bodies[1]); strings.Contains(string(back), "secret plan") {
			t.Errorf("%q was sent back: %s", c.pieces, back)
		}
	}
	s := newServer(t, streamReply(chat(say("<think>The user wants secret plan X"), chatStops, done)))
	b := newFixtureOn(t, s, "openai")
	if err := b.run("hello", false); err != nil || strings.Contains(fmt.Sprint(b.events), "secret") {
		t.Errorf("%v, %+v", err, b.events)
	}
}

// TestOllamaWindow checks how Ollama is asked for its context window.
func TestOllamaWindow(t *testing.T) {
	for _, c := range []struct {
		name, version, ps, show string
		want                    int
		ok                      bool
	}{
		{"loaded", `{"version":"0.12.0"}`, `{"models":[{"name":"qwen3:latest","context_length":16384}]}`, `{}`, 16384, true},
		{"by its file", `{"version":"0.12.0"}`, `{"models":[]}`, `{"parameters":"stop \"x\"\nnum_ctx                        8192"}`, 8192, true},
		{"by default", `{"version":"0.12.0"}`, `{"models":[{"name":"other","context_length":16384}]}`, `{"parameters":""}`, 4096, true},
		{"another server", `<html>`, `{}`, `{}`, 0, false},
	} {
		srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			io.WriteString(w, map[string]string{"/api/version": c.version, "/api/ps": c.ps, "/api/show": c.show}[r.URL.Path])
		}))
		if got, ok := react.OllamaWindow(t.Context(), srv.URL+"/v1", "qwen3"); got != c.want || ok != c.ok {
			t.Errorf("%s: %d, %v; want %d, %v", c.name, got, ok, c.want, c.ok)
		}
		srv.Close()
	}
}
