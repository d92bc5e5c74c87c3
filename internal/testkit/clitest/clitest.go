// Package clitest drives the real agents in tests through an inference service with scripted
// answers.
package clitest

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"agentstateloop/internal/testkit/scripted"
)

// Answer is the provider's scripted answer to one request.
type Answer struct {
	Thinking  string
	Text      string
	Tool      string         // name of a tool to call
	Namespace string         // of the tool, for codex
	Args      map[string]any // its arguments
	Status    int            // an HTTP error instead
	Fault     string         // its message
	Cut       bool           // break the stream off after the text

	// Header and body of an HTTP error. Body replaces the default body with Fault.
	Header map[string]string
	Body   any
}

// Limit returns the answer of a runner's service to an account that has exhausted its usage limit
// until a time. The times have the form that the real services send.
func Limit(runner string, until time.Time) Answer {
	a := Answer{Status: http.StatusTooManyRequests}
	switch runner {
	case "claude":
		a.Header = map[string]string{
			"Anthropic-Ratelimit-Unified-Status": "rejected", "Anthropic-Ratelimit-Unified-Reset": strconv.FormatInt(until.Unix(), 10),
			"Anthropic-Ratelimit-Unified-Representative-Claim": "five_hour", "X-Should-Retry": "false",
		}
		a.Body = object{"type": "error", "error": object{"type": "rate_limit_error", "message": "This request would exceed your account's rate limit. Please try again later."}}
	case "codex":
		a.Header = map[string]string{"X-Codex-Primary-Used-Percent": "100", "X-Codex-Primary-Window-Minutes": "300"}
		a.Body = object{"error": object{"type": "usage_limit_reached", "message": "The usage limit has been reached", "plan_type": "plus", "resets_at": until.Unix()}}
	case "gemini":
		a.Body = object{"error": object{"code": 429, "status": "RESOURCE_EXHAUSTED", "message": "You exceeded your current quota, please check your plan and billing details.",
			"details": []any{
				object{"@type": "type.googleapis.com/google.rpc.QuotaFailure", "violations": []any{object{"quotaId": "GenerateRequestsPerDayPerProjectPerModel-FreeTier"}}},
				object{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": fmt.Sprintf("%ds", int(time.Until(until).Seconds()))},
			}}}
	}
	return a
}

// T is the part of *testing.T that New needs.
type T interface{ Cleanup(func()) }

// Provider is an inference service on loopback that speaks the three APIs. Requests that offer
// tools are the agent's own and get the answers in order. Other requests of a CLI (titles,
// routing) get a plain word.
type Provider struct {
	*httptest.Server

	mu      sync.Mutex
	answers []Answer
	asked   []string // bodies of the requests that got a scripted answer
	models  []string // the models that these requests name
}

// New starts the service; the end of t stops it.
func New(t T, answers ...Answer) *Provider {
	p := &Provider{answers: answers}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/messages", p.messages)
	mux.HandleFunc("POST /v1/responses", p.responses)
	mux.HandleFunc("POST /v1beta/models/{call}", p.generate)
	p.Server = httptest.NewServer(mux)
	t.Cleanup(func() {
		p.CloseClientConnections() // a killed CLI leaves some open
		p.Close()
	})
	return p
}

// next returns the answer to a request, and the request's number and model. It repeats the last answer.
func (p *Provider) next(r *http.Request) (Answer, scripted.Request) {
	body, _ := io.ReadAll(r.Body)
	var ask struct {
		Tools []any  `json:"tools"`
		Model string `json:"model"`
	}
	json.Unmarshal(body, &ask)
	model, _, _ := strings.Cut(r.PathValue("call"), ":") // Google's API names the model in the path
	model = cmp.Or(ask.Model, model)
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(ask.Tools) == 0 || len(p.answers) == 0 {
		return Answer{Text: "ok"}, scripted.Request{Model: model}
	}
	p.asked, p.models = append(p.asked, string(body)), append(p.models, model)
	a := p.answers[0]
	if len(p.answers) > 1 {
		p.answers = p.answers[1:]
	}
	return a, scripted.Request{Number: len(p.asked), Model: model}
}

// Saw reports whether any request of the agent contained the words.
func (p *Provider) Saw(words string) bool {
	return strings.Contains(strings.Join(p.Asked(), "\n"), words)
}

// Asked returns the bodies of the requests that got a scripted answer.
func (p *Provider) Asked() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.asked)
}

// Models returns the models that these requests name.
func (p *Provider) Models() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.models)
}

// event writes one server-sent event.
func event(w http.ResponseWriter, name string, data any) {
	b, _ := json.Marshal(data)
	if name != "" {
		fmt.Fprintf(w, "event: %s\n", name)
	}
	fmt.Fprintf(w, "data: %s\n\n", b)
	w.(http.Flusher).Flush()
}

type object = map[string]any

// fault answers with an HTTP error if the script has one, and reports whether it did.
func fault(w http.ResponseWriter, a Answer, body object) bool {
	if a.Status == 0 {
		w.Header().Set("Content-Type", "text/event-stream")
		return false
	}
	w.Header().Set("Content-Type", "application/json")
	for name, value := range a.Header {
		w.Header().Set(name, value)
	}
	w.WriteHeader(a.Status)
	if a.Body == nil {
		a.Body = body
	}
	json.NewEncoder(w).Encode(a.Body)
	return true
}

func (p *Provider) messages(w http.ResponseWriter, r *http.Request) {
	a, q := p.next(r)
	kind := map[int]string{401: "authentication_error", 529: "overloaded_error"}[a.Status]
	if fault(w, a, object{"type": "error", "error": object{"type": cmp.Or(kind, "invalid_request_error"), "message": a.Fault}}) {
		return
	}
	reply := scripted.Reply{Thinking: a.Thinking, Text: a.Text, Piece: 1 << 20}
	if a.Tool != "" {
		args, _ := json.Marshal(a.Args)
		reply.Calls = []scripted.Call{{ID: fmt.Sprintf("toolu_%d", q.Number), Name: a.Tool, Args: string(args)}}
	}
	for _, event := range scripted.Events("anthropic", q, reply) {
		if a.Cut && strings.HasPrefix(event, "event: content_block_stop") {
			panic(http.ErrAbortHandler)
		}
		io.WriteString(w, event)
		w.(http.Flusher).Flush()
	}
}

func (p *Provider) responses(w http.ResponseWriter, r *http.Request) {
	a, q := p.next(r)
	if fault(w, a, object{"error": object{"message": a.Fault, "type": "invalid_request_error", "code": nil}}) {
		return
	}
	id := fmt.Sprintf("resp_%d", q.Number)
	event(w, "response.created", object{"type": "response.created", "response": object{"id": id}})
	item := func(i object) {
		event(w, "response.output_item.done", object{"type": "response.output_item.done", "item": i})
	}
	if a.Thinking != "" {
		item(object{"type": "reasoning", "id": "rs_" + id, "summary": []any{object{"type": "summary_text", "text": a.Thinking}}})
	}
	if a.Text != "" {
		item(object{"type": "message", "role": "assistant", "id": "msg_" + id,
			"content": []any{object{"type": "output_text", "text": a.Text}}})
	}
	if a.Cut {
		panic(http.ErrAbortHandler)
	}
	if a.Tool != "" {
		args, _ := json.Marshal(a.Args)
		call := object{"type": "function_call", "id": "fc_" + id, "call_id": "call_" + id, "name": a.Tool, "arguments": string(args)}
		if a.Namespace != "" {
			call["namespace"] = a.Namespace
		}
		item(call)
	}
	event(w, "response.completed", object{"type": "response.completed", "response": object{"id": id, "usage": object{
		"input_tokens": 100, "input_tokens_details": object{"cached_tokens": 40},
		"output_tokens": 20, "output_tokens_details": object{"reasoning_tokens": 5}, "total_tokens": 120}}})
}

func (p *Provider) generate(w http.ResponseWriter, r *http.Request) {
	a, _ := p.next(r)
	status := map[int]string{400: "INVALID_ARGUMENT", 401: "UNAUTHENTICATED", 503: "UNAVAILABLE"}[a.Status]
	if fault(w, a, object{"error": object{"code": a.Status, "message": a.Fault, "status": status}}) {
		return
	}
	chunk := func(finish any, parts ...any) object {
		return object{
			"candidates": []any{object{"index": 0, "content": object{"role": "model", "parts": parts}, "finishReason": finish}},
			"usageMetadata": object{"promptTokenCount": 100, "candidatesTokenCount": 20, "totalTokenCount": 120,
				"cachedContentTokenCount": 40},
			"modelVersion": "gemini-2.5-pro",
		}
	}
	if strings.HasSuffix(r.PathValue("call"), ":generateContent") {
		w.Header().Set("Content-Type", "application/json")
		json.NewEncoder(w).Encode(chunk("STOP", object{"text": a.Text}))
		return
	}
	if a.Thinking != "" {
		event(w, "", chunk(nil, object{"text": a.Thinking, "thought": true}))
	}
	if a.Text != "" {
		half := len(a.Text) / 2
		event(w, "", chunk(nil, object{"text": a.Text[:half]}))
		event(w, "", chunk(nil, object{"text": a.Text[half:]}))
	}
	if a.Cut {
		panic(http.ErrAbortHandler)
	}
	if a.Tool != "" {
		event(w, "", chunk(nil, object{"functionCall": object{"name": a.Tool, "args": a.Args}}))
	}
	event(w, "", chunk("STOP", object{"text": ""}))
}

// Home sets up a home for a real agent: claude, codex or gemini. There the agent knows only the
// service at url. Home returns further arguments and the environment variables that the agent
// needs.
func Home(runner, home, url string) (args []string, env map[string]string, err error) {
	env = map[string]string{"HOME": home, "TMPDIR": home, "PATH": os.Getenv("PATH")}
	switch runner {
	case "claude":
		env["ANTHROPIC_BASE_URL"] = url
		env["ANTHROPIC_API_KEY"] = "sk-test"
		env["CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC"] = "1"
		env["CLAUDE_CODE_MAX_RETRIES"] = "2"
	case "codex":
		env["TEST_KEY"] = "sk-test"
		err = write(filepath.Join(home, ".codex", "config.toml"), fmt.Sprintf(`
model = "gpt-5"
model_provider = "test"
[model_providers.test]
name = "test"
base_url = %q
env_key = "TEST_KEY"
wire_api = "responses"
request_max_retries = 1
stream_max_retries = 1
`, url+"/v1"))
	case "gemini":
		args = []string{"--model", "gemini-2.5-pro"} // "auto" asks a model which model to ask
		env["GOOGLE_GEMINI_BASE_URL"] = url
		env["GEMINI_API_KEY"] = "test"
		err = write(filepath.Join(home, ".gemini", "settings.json"), `{"security":{"auth":{"selectedType":"gemini-api-key"}}}`)
	}
	return args, env, err
}

func write(file, text string) error {
	return errors.Join(os.MkdirAll(filepath.Dir(file), 0o700), os.WriteFile(file, []byte(text), 0o600))
}
