package react_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"agentstateloop/turn"
	"agentstateloop/turn/react"
)

// exchange is one request to a server and its response.
type exchange struct {
	status int
	header map[string]string
	body   string
}

func streamReply(body string) exchange { return exchange{body: body} }

func errorReply(status int, body string) exchange { return exchange{status: status, body: body} }

// server plays exchanges in order and repeats the last one. It records the requests.
type server struct {
	url string

	mu     sync.Mutex
	bodies []map[string]any
}

func newServer(t *testing.T, exchanges ...exchange) *server {
	t.Helper()
	s := &server{}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		data, _ := io.ReadAll(r.Body)
		var body map[string]any
		_ = json.Unmarshal(data, &body)
		s.mu.Lock()
		x := exchanges[min(len(s.bodies), len(exchanges)-1)]
		s.bodies = append(s.bodies, body)
		s.mu.Unlock()
		w.Header().Set("Content-Type", "text/event-stream")
		if x.status != 0 {
			w.Header().Set("Content-Type", "application/json")
		}
		for name, value := range x.header {
			w.Header().Set(name, value)
		}
		if x.status != 0 {
			w.WriteHeader(x.status)
		}
		io.WriteString(w, x.body)
	}))
	t.Cleanup(srv.Close)
	s.url = srv.URL
	return s
}

func (s *server) model(api string) react.Model {
	if api == "anthropic" {
		return react.NewMessages(s.url, "sk-wire", 30*time.Second)
	}
	return react.NewChat(s.url+"/v1", "sk-wire", 30*time.Second)
}

// What servers send that call themselves compatible: a text, a call, two calls at once, and the
// end, each in its own way. The streams are written after their documentation and public
// reports.
func TestServers(t *testing.T) {
	const readX, listY = `{"path":"x"}`, `{"path":"y"}`
	for _, c := range []struct {
		server, api  string
		text         string // a stream with "hi"
		tool         string // one with read_file of x
		parallel     string // one with list of y after that
		kept         string // a member that must come back with the call; "" for none
		cached, paid int64  // of the usage of text
	}{
		{server: "OpenAI", api: "openai", paid: 9, cached: 3,
			text: chat(`{"model":"gpt","choices":[{"index":0,"delta":{"role":"assistant","content":"","refusal":null},"finish_reason":null}],"usage":null,"obfuscation":"x"}`,
				`{"choices":[{"index":0,"delta":{"content":"hi"},"finish_reason":null}]}`, chatStops,
				`{"choices":[],"usage":{"prompt_tokens":12,"completion_tokens":2,"prompt_tokens_details":{"cached_tokens":3}}}`, done),
			tool: chat(calls(`{"index":0,"id":"call_1","type":"function","function":{"name":"read_file","arguments":""}}`), calls(`{"index":0,"function":{"arguments":"{\"path\":\"x\"}"}}`), chatCalls, done),
			parallel: chat(calls(`{"index":0,"id":"call_1","type":"function","function":{"name":"read_file","arguments":"{\"path\":\"x\"}"}}`),
				calls(`{"index":1,"id":"call_2","type":"function","function":{"name":"list","arguments":"{\"path\":\"y\"}"}}`), chatCalls, done)},
		{server: "Ollama", api: "openai", paid: 26,
			text: chat(`{"id":"chatcmpl-1","object":"chat.completion.chunk","model":"qwen3","choices":[{"index":0,"delta":{"role":"assistant","content":"hi"},"finish_reason":null}]}`,
				`{"choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":"stop"}]}`, `{"choices":[],"usage":{"prompt_tokens":26,"completion_tokens":2,"total_tokens":28}}`, done),
			tool:     chat(calls(`{"id":"call_1","index":0,"type":"function","function":{"name":"read_file","arguments":"{\"path\":\"x\"}"}}`), chatStops, done),
			parallel: chat(calls(`{"id":"call_1","index":0,"function":{"name":"read_file","arguments":"{\"path\":\"x\"}"}},{"id":"call_2","index":0,"function":{"name":"list","arguments":"{\"path\":\"y\"}"}}`), chatStops, done)},
		{server: "llama.cpp: arguments as an object", api: "openai",
			text:     chat(`{"choices":[{"index":0,"delta":{"content":"hi"},"finish_reason":null}],"timings":{"prompt_n":1}}`, chatStops, done),
			tool:     chat(calls(`{"index":0,"id":"","type":"function","function":{"name":"read_file","arguments":{"path":"x"}}}`), chatCalls, done),
			parallel: chat(calls(`{"index":0,"function":{"name":"read_file","arguments":{"path":"x"}}}`), calls(`{"index":1,"function":{"name":"list","arguments":{"path":"y"}}}`), chatCalls, done)},
		{server: "vLLM", api: "openai", paid: 10, kept: "reasoning_content",
			text: chat(`{"choices":[{"index":0,"delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null}]}`, `{"choices":[{"index":0,"delta":{"reasoning_content":"hm"},"finish_reason":null}]}`,
				`{"choices":[{"index":0,"delta":{"content":"hi"},"finish_reason":null,"stop_reason":null}]}`, `{"choices":[{"index":0,"delta":{"content":""},"finish_reason":"stop","stop_reason":null}]}`, `{"choices":[],"usage":{"prompt_tokens":10,"total_tokens":12,"completion_tokens":2}}`, done),
			tool: chat(`{"choices":[{"index":0,"delta":{"reasoning_content":"I "}}]}`, `{"choices":[{"index":0,"delta":{"reasoning_content":"look"}}]}`,
				calls(`{"id":"chatcmpl-tool-1","type":"function","index":0,"function":{"name":"read_file"}}`), calls(`{"index":0,"function":{"arguments":"{\"path\": \"x\"}"}}`), chatCalls, done),
			parallel: chat(calls(`{"id":"a","index":0,"function":{"name":"read_file","arguments":"{\"path\":\"x\"}"}}`), calls(`{"id":"b","index":1,"function":{"name":"list","arguments":"{\"path\":\"y\"}"}}`), chatCalls, done)},
		{server: "LM Studio: an index as text, and no reason at the end", api: "openai",
			text:     chat(`{"choices":[{"index":"0","delta":{"role":"assistant","content":"hi"},"finish_reason":null}]}`, done),
			tool:     chat(calls(`{"index":"0","id":"365174485","type":"function","function":{"name":"read_file","arguments":""}}`), calls(`{"index":"0","function":{"arguments":"{\"path\":\"x\"}"}}`), done),
			parallel: chat(calls(`{"index":"0","id":"1","function":{"name":"read_file","arguments":"{\"path\":\"x\"}"}}`), calls(`{"index":"1","id":"2","function":{"name":"list","arguments":"{\"path\":\"y\"}"}}`), done)},
		{server: "OpenRouter", api: "openai", kept: "reasoning_details", paid: 5,
			text: ": OPENROUTER PROCESSING\n\n" + chat(`{"provider":"X","choices":[{"index":0,"delta":{"role":"assistant","content":"hi","reasoning":null},"finish_reason":null,"native_finish_reason":null}]}`,
				`{"choices":[{"index":0,"delta":{"content":""},"finish_reason":"stop","native_finish_reason":"STOP"}],"usage":{"prompt_tokens":5,"completion_tokens":1,"cost":0.01}}`, done),
			tool: chat(`{"choices":[{"index":0,"delta":{"content":"","reasoning":"I","reasoning_details":[{"type":"reasoning.text","index":0,"text":"I"}]}}]}`,
				`{"choices":[{"index":0,"delta":{"content":"","reasoning_details":[{"type":"reasoning.text","index":0,"text":" look","signature":"sig"}]}}]}`,
				calls(`{"index":0,"id":"tool_0","type":"function","function":{"name":"read_file","arguments":"{\"path\":\"x\"}"}}`), chatCalls, done),
			parallel: chat(calls(`{"index":0,"id":"t0","function":{"name":"read_file","arguments":"{\"path\":\"x\"}"}}`), calls(`{"index":1,"id":"t1","function":{"name":"list","arguments":"{\"path\":\"y\"}"}}`), chatCalls, done)},
		{server: "Mistral: content as an array", api: "openai",
			text: chat(`{"choices":[{"index":0,"delta":{"role":"assistant","content":[{"type":"thinking","thinking":[{"type":"text","text":"secret plan"}]}]},"finish_reason":null}]}`,
				`{"choices":[{"index":0,"delta":{"content":[{"type":"text","text":"hi"}]},"finish_reason":null}]}`, chatStops, done),
			tool:     chat(`{"choices":[{"index":0,"delta":{"content":"","tool_calls":[{"id":"D681PevKs","function":{"name":"read_file","arguments":"{\"path\": \"x\"}"},"index":0}]},"finish_reason":"tool_calls"}]}`, done),
			parallel: chat(`{"choices":[{"index":0,"delta":{"content":[],"tool_calls":[{"id":"a","function":{"name":"read_file","arguments":{"path":"x"}},"index":0},{"id":"b","function":{"name":"list","arguments":{"path":"y"}},"index":1}]},"finish_reason":"tool_calls"}]}`, done)},
		{server: "DeepSeek", api: "openai", kept: "reasoning_content", paid: 6, cached: 4,
			text: chat(`{"choices":[{"index":0,"delta":{"role":"assistant","content":null,"reasoning_content":"hm"},"finish_reason":null}]}`, `{"choices":[{"index":0,"delta":{"content":"hi","reasoning_content":null}}]}`,
				`{"choices":[{"index":0,"delta":{"content":""},"finish_reason":"stop"}],"usage":{"prompt_tokens":10,"completion_tokens":2,"prompt_cache_hit_tokens":4,"prompt_cache_miss_tokens":6}}`, done),
			tool:     chat(`{"choices":[{"index":0,"delta":{"content":null,"reasoning_content":"I look"}}]}`, calls(`{"index":0,"id":"call_00_x","type":"function","function":{"name":"read_file","arguments":""}}`), calls(`{"index":0,"function":{"arguments":"{\"path\":\"x\"}"}}`), chatCalls, done),
			parallel: chat(calls(`{"index":0,"id":"a","function":{"name":"read_file","arguments":"{\"path\":\"x\"}"}}`), calls(`{"index":1,"id":"b","function":{"name":"list","arguments":"{\"path\":\"y\"}"}}`), chatCalls, done)},
		{server: "Kimi", api: "openai", kept: "reasoning_content",
			text:     chat(`{"choices":[{"index":0,"delta":{"content":"◁think▷ secret plan ◁/think▷hi"}}]}`, chatStops, done),
			tool:     chat(`{"choices":[{"index":0,"delta":{"reasoning_content":"I look"}}]}`, calls(`{"index":0,"id":"functions.read_file:0","type":"function","function":{"name":"read_file","arguments":"{\"path\":\"x\"}"}}`), chatCalls, done),
			parallel: chat(calls(`{"index":0,"id":"functions.read_file:0","function":{"name":"read_file","arguments":"{\"path\":\"x\"}"}}`), calls(`{"index":1,"id":"functions.list:1","function":{"name":"list","arguments":"{\"path\":\"y\"}"}}`), chatCalls, done)},
		{server: "Gemini's OpenAI form", api: "openai", kept: "extra_content", paid: 8,
			text:     chat(`{"choices":[{"delta":{"content":"hi","role":"assistant"},"finish_reason":"stop","index":0}],"usage":{"completion_tokens":2,"prompt_tokens":8,"total_tokens":10}}`, done),
			tool:     chat(`{"choices":[{"delta":{"role":"assistant","tool_calls":[{"extra_content":{"google":{"thought_signature":"sig=="}},"function":{"arguments":"{\"path\":\"x\"}","name":"read_file"},"id":"","index":0,"type":"function"}]},"finish_reason":"stop","index":0}]}`, done),
			parallel: chat(`{"choices":[{"delta":{"tool_calls":[{"function":{"arguments":"{\"path\":\"x\"}","name":"read_file"},"id":"f1","index":0,"type":"function"},{"function":{"arguments":"{\"path\":\"y\"}","name":"list"},"id":"f2","index":0,"type":"function"}]},"finish_reason":"tool_calls","index":0}]}`, done)},
		{server: "Groq", api: "openai", kept: "reasoning",
			text:     chat(`{"choices":[{"index":0,"delta":{"role":"assistant","content":"hi"},"logprobs":null,"finish_reason":null}],"x_groq":{"id":"req"}}`, `{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}],"x_groq":{"usage":{"prompt_tokens":1}}}`, done),
			tool:     chat(`{"choices":[{"index":0,"delta":{"reasoning":"I look","channel":"analysis"}}]}`, calls(`{"id":"fc_1","type":"function","function":{"name":"read_file","arguments":"{\"path\":\"x\"}"},"index":0}`), chatCalls, done),
			parallel: chat(calls(`{"id":"fc_1","function":{"name":"read_file","arguments":"{\"path\":\"x\"}"},"index":0},{"id":"fc_2","function":{"name":"list","arguments":"{\"path\":\"y\"}"},"index":1}`), chatCalls, done)},
		{server: "Azure: an event without choices first", api: "openai",
			text:     chat(`{"choices":[],"created":0,"id":"","model":"","object":"","prompt_filter_results":[{"prompt_index":0,"content_filter_results":{}}]}`, `{"choices":[{"index":0,"delta":{"content":"hi"},"content_filter_results":{},"finish_reason":null}]}`, chatStops, done),
			tool:     chat(`{"choices":[],"prompt_filter_results":[]}`, calls(`{"index":0,"id":"call_1","type":"function","function":{"name":"read_file","arguments":"{\"path\":\"x\"}"}}`), chatCalls, done),
			parallel: chat(calls(`{"index":0,"id":"c1","function":{"name":"read_file","arguments":"{\"path\":\"x\"}"}}`), calls(`{"index":1,"id":"c2","function":{"name":"list","arguments":"{\"path\":\"y\"}"}}`), chatCalls, done)},
		{server: "a gateway to Bedrock: no stream", api: "openai", paid: 3,
			text:     `{"choices":[{"index":0,"message":{"role":"assistant","content":[{"text":"hi"}]},"finish_reason":"end_turn"}],"usage":{"prompt_tokens":"3","completion_tokens":1.0}}`,
			tool:     `{"choices":{"message":{"content":null,"tool_calls":{"id":"t","function":{"name":"read_file","input":{"path":"x"}}}},"finish_reason":"tool_use"}}`,
			parallel: `{"choices":[{"message":{"tool_calls":[{"id":1,"function":{"name":"read_file","arguments":{"path":"x"}}},{"id":2,"function":{"name":"list","arguments":{"path":"y"}}}]},"finish_reason":"tool_calls"}]}`},
		{server: "Anthropic", api: "anthropic", paid: 7, cached: 2, kept: "signature",
			text: messages(`{"type":"message_start","message":{"model":"claude","usage":{"input_tokens":7,"cache_read_input_tokens":2,"output_tokens":1}}}`, `{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}`,
				`{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"hi"}}`, `{"type":"content_block_stop","index":0}`, `{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":2}}`, `{"type":"message_stop"}`),
			tool: messages(`{"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":"","signature":""}}`, `{"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"I "}}`,
				`{"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"look"}}`, `{"type":"content_block_delta","index":0,"delta":{"type":"signature_delta","signature":"sig=="}}`, `{"type":"content_block_stop","index":0}`,
				`{"type":"content_block_start","index":1,"content_block":{"type":"tool_use","id":"toolu_1","name":"read_file","input":{}}}`, `{"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","partial_json":"{\"path\":\"x\"}"}}`,
				`{"type":"content_block_stop","index":1}`, `{"type":"message_delta","delta":{"stop_reason":"tool_use"}}`, `{"type":"message_stop"}`),
			parallel: messages(`{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"toolu_1","name":"read_file","input":{"path":"x"}}}`, `{"type":"content_block_stop","index":0}`,
				`{"type":"content_block_start","index":1,"content_block":{"type":"tool_use","id":"toolu_2","name":"list","input":{"path":"y"}}}`, `{"type":"message_delta","delta":{"stop_reason":"tool_use"}}`, `{"type":"message_stop"}`)},
		{server: "a Messages API without reasons, and with numbers at the end", api: "anthropic", paid: 4, cached: 1,
			text:     messages(`{"type":"message_start","message":{"usage":{"input_tokens":"many"}}}`, `{"type":"content_block_start","index":0,"content_block":{"type":"text","text":"hi"}}`, `{"type":"content_block_stop","index":0}`, `{"type":"message_delta","delta":{"stop_reason":null},"usage":{"input_tokens":4,"cache_read_input_tokens":1}}`, `{"type":"message_stop"}`),
			tool:     messages(`{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"t","name":"read_file","input":"{\"path\":\"x\"}"}}`, `{"type":"content_block_stop","index":0}`, `{"type":"message_stop"}`),
			parallel: `{"type":"message","content":[{"type":"tool_use","id":"a","name":"read_file","input":{"path":"x"}},{"type":"tool_use","id":"b","name":"list","input":{"path":"y"}}],"stop_reason":"tool_use","usage":{"input_tokens":1}}`},
	} {
		t.Run(c.server, func(t *testing.T) {
			q := react.Question{Model: "m", Messages: []react.Message{{Text: "hello"}}, MaxOutput: 100}
			answer := func(stream string) react.Answer {
				t.Helper()
				a, err := newServer(t, streamReply(stream)).model(c.api).Answer(t.Context(), q, func(string) {})
				if err != nil || len(a.Unread) > 0 {
					t.Errorf("%v, %q", err, a.Unread)
				}
				return a
			}
			if a := answer(c.text); turn.WithoutThoughts(a.Text) != "hi" || a.Stop != react.StopEnd || a.Usage.Input != c.paid || a.Usage.CacheRead != c.cached {
				t.Errorf("text: %+v", a)
			}
			if a := answer(c.parallel); len(a.Calls) != 2 || a.Stop != react.StopTools || a.Calls[0].Args != readX || a.Calls[1].Args != listY || a.Calls[1].Name != "list" {
				t.Errorf("two calls: %+v", a)
			}
			a := answer(c.tool)
			if len(a.Calls) != 1 || a.Stop != react.StopTools || a.Calls[0].Name != "read_file" || strings.ReplaceAll(a.Calls[0].Args, " ", "") != readX {
				t.Fatalf("a call: %+v", a)
			}
			// The extra members of a call are sent back with it, only to this model at this
			// address.
			s := newServer(t, streamReply(c.tool), streamReply(c.text))
			first, err := s.model(c.api).Answer(t.Context(), q, func(string) {})
			if err != nil {
				t.Fatal(err)
			}
			later := q
			later.Messages = []react.Message{{Text: "hello"}, {Model: true, Calls: first.Calls, Extras: first.Extras}, {Results: []react.Result{{ID: first.Calls[0].ID, Text: "ok"}}}}
			if _, err := s.model(c.api).Answer(t.Context(), later, func(string) {}); err != nil {
				t.Fatal(err)
			}
			other := later
			other.Model = "another"
			if _, err := s.model(c.api).Answer(t.Context(), other, func(string) {}); err != nil {
				t.Fatal(err)
			}
			back, _ := json.Marshal(s.bodies[1])
			strange, _ := json.Marshal(s.bodies[2])
			if c.kept != "" && (!strings.Contains(string(back), `"`+c.kept+`"`) || strings.Contains(string(strange), `"`+c.kept+`"`)) {
				t.Errorf("back went %s\nto another model %s", back, strange)
			}
			if c.kept == "" && strings.Contains(string(back), "timings") {
				t.Errorf("back went %s", back)
			}
		})
	}
}

// TestRefusalsOfServers checks that the reaction to a refusal does not depend on its format.
func TestRefusalsOfServers(t *testing.T) {
	const limit, overload, login, long, stays = "limit", "overload", "login", "too long", "stays"
	soon := func(seconds float64) time.Duration { return time.Duration(seconds * float64(time.Second)) }
	for _, c := range []struct {
		server, api, kind string
		x                 exchange
		says              string
		wait              time.Duration // about how long it is to be left alone; 0: unknown
	}{
		{"OpenAI", "openai", limit, exchange{429, map[string]string{"Retry-After": "1200"}, `{"error":{"message":"Rate limit reached for gpt-5. Please try again in 20m.","type":"tokens","param":null,"code":"rate_limit_exceeded"}}`}, "Rate limit reached", soon(1200)},
		{"OpenAI, in its headers", "openai", limit, exchange{429, map[string]string{"X-Ratelimit-Reset-Requests": "20m0s", "X-Ratelimit-Remaining-Requests": "0", "X-Ratelimit-Reset-Tokens": "5h0m0s", "X-Ratelimit-Remaining-Tokens": "120"}, `{"error":{"message":"Rate limit reached","type":"requests"}}`}, "Rate limit", soon(1200)},
		{"OpenAI, in its words", "openai", limit, errorReply(429, `{"error":{"message":"Rate limit reached. Please try again in 20m0s.","type":"tokens"}}`), "Rate limit", soon(1200)},
		{"OpenAI, out of credit", "openai", login, errorReply(429, `{"error":{"message":"You exceeded your current quota, please check your plan and billing details.","type":"insufficient_quota","code":"insufficient_quota"}}`), "quota", 0},
		{"OpenAI, too long", "openai", long, errorReply(400, `{"error":{"message":"This model's maximum context length is 8192 tokens. However, your messages resulted in 9000 tokens.","type":"invalid_request_error","param":"messages","code":"context_length_exceeded"}}`), "maximum context length", 0},
		{"Gemini, in an array", "openai", limit, errorReply(429, `[{"error":{"code":429,"message":"You exceeded your current quota, please check your plan and billing details.","status":"RESOURCE_EXHAUSTED","details":[{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"1500s"}]}}]`), "exceeded your current quota", soon(1500)},
		{"Gemini, overloaded", "openai", overload, errorReply(503, `[{"error":{"code":503,"message":"The model is overloaded. Please try again later.","status":"UNAVAILABLE"}}]`), "overloaded", 0},
		{"Gemini, a bad key", "openai", stays, errorReply(400, `[{"error":{"code":400,"message":"API key not valid. Please pass a valid API key.","status":"INVALID_ARGUMENT"}}]`), "API key not valid", 0},
		{"OpenRouter", "openai", limit, exchange{429, map[string]string{"X-Ratelimit-Reset": "9999999999999"}, `{"error":{"message":"Rate limit exceeded: free-models-per-day","code":429,"metadata":{"headers":{}}}}`}, "free-models-per-day", -1},
		{"OpenRouter, no credit", "openai", login, errorReply(402, `{"error":{"message":"Insufficient credits","code":402}}`), "Insufficient credits", 0},
		{"vLLM, too long", "openai", long, errorReply(400, `{"object":"error","message":"This model's maximum context length is 4096 tokens. However, you requested 5000 tokens.","type":"BadRequestError","param":null,"code":400}`), "maximum context length", 0},
		{"vLLM, by FastAPI", "openai", stays, errorReply(422, `{"detail":[{"type":"missing","loc":["body","x"],"msg":"Field required"}]}`), "Field required", 0},
		{"llama.cpp, too long", "openai", long, errorReply(400, `{"error":{"code":400,"message":"request (5000 tokens) exceeds the available context size (4096 tokens), try increasing it","type":"exceed_context_size_error"}}`), "exceeds the available context", 0},
		{"llama.cpp, loading", "openai", overload, errorReply(503, `{"error":{"code":503,"message":"Loading model","type":"unavailable_error"}}`), "Loading model", 0},
		{"Ollama", "openai", stays, errorReply(404, `{"error":{"message":"model \"x\" not found, try pulling it first","type":"api_error","param":null,"code":null}}`), "try pulling", 0},
		{"LM Studio, by a text", "openai", stays, errorReply(400, `{"error":"Model unloaded"}`), "Model unloaded", 0},
		{"Mistral", "openai", limit, exchange{429, map[string]string{"Ratelimitbysize-Reset": "40"}, `{"object":"error","message":"Requests rate limit exceeded","type":"rate_limited","code":"1300"}`}, "Requests rate limit exceeded", soon(40)},
		{"DeepSeek, no balance", "openai", login, errorReply(402, `{"error":{"message":"Insufficient Balance","type":"unknown_error","param":null,"code":"invalid_request_error"}}`), "Insufficient Balance", 0},
		{"Groq", "openai", limit, exchange{429, map[string]string{"Retry-After": "7.66"}, `{"error":{"message":"Rate limit reached for model. Please try again in 7.66s.","type":"tokens","code":"rate_limit_exceeded"}}`}, "Rate limit reached", soon(7.66)},
		{"Azure", "openai", limit, exchange{429, map[string]string{"Retry-After-Ms": "86400000"}, `{"error":{"code":"429","message":"Requests have exceeded call rate limit."}}`}, "exceeded call rate", soon(86400)},
		{"Azure, a bad key", "openai", login, errorReply(401, `{ "statusCode": 401, "message": "Access denied due to invalid subscription key" }`), "Access denied", 0},
		{"a gateway to Bedrock", "openai", limit, errorReply(429, `{"message":"Too many requests, please wait before trying again."}`), "Too many requests", 0},
		{"Codex's backend", "openai", limit, errorReply(429, `{"error":{"type":"usage_limit_reached","message":"The usage limit has been reached","plan_type":"plus","resets_in_seconds":7200}}`), "usage limit", soon(7200)},
		{"Anthropic", "anthropic", limit, exchange{429, map[string]string{"Retry-After": "3600"}, `{"type":"error","error":{"type":"rate_limit_error","message":"This request would exceed your account's rate limit."}}`}, "rate limit", soon(3600)},
		{"Anthropic, overloaded", "anthropic", overload, errorReply(529, `{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`), "Overloaded", 0},
		{"Anthropic, too long", "anthropic", long, errorReply(400, `{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 210000 tokens > 200000 maximum"}}`), "prompt is too long", 0},
		{"a page of HTML", "openai", stays, exchange{200, map[string]string{"Content-Type": "text/html"}, "<!DOCTYPE html><html><head><title>Welcome to nginx</title></head></html>"}, `an HTML page ("Welcome to nginx"): check base_url`, 0},
		{"a page of a proxy", "anthropic", overload, exchange{502, map[string]string{"Content-Type": "text/html"}, "<html><title>502 Bad Gateway</title></html>"}, "an HTML page", 0},
	} {
		t.Run(c.server, func(t *testing.T) {
			s := newServer(t, c.x)
			b := newFixture(t, c.api)
			b.Model, b.Deadline = s.model(c.api), time.Now().Add(time.Second/2)
			b.Window, b.MaxOutput = 2*1024, 100
			if err := b.run("hello", false); err == nil {
				t.Fatal("it succeeded")
			}
			d := b.done()
			kind := stays
			switch {
			case d.Limited:
				kind = limit
			case d.Overload:
				kind = overload
			case slices.ContainsFunc(b.events, func(e turn.Event) bool { return strings.HasPrefix(e.Text, turn.APIRefused) }):
				kind = login
			case slices.ContainsFunc(b.events, func(e turn.Event) bool { return strings.Contains(e.Text, "retrying with less history") }):
				kind = long
			}
			if kind != c.kind || !strings.Contains(d.Text, c.says) {
				t.Errorf("it %s: %s; want %s, %q", kind, d.Text, c.kind, c.says)
			}
			switch off := time.Until(d.Until) - c.wait; {
			case c.wait < 0 && d.Until.IsZero(), c.wait == 0 && !d.Until.IsZero(), c.wait > 0 && (off > time.Minute || off < -time.Minute):
				t.Errorf("until %v, want in %v", d.Until, c.wait)
			}
		})
	}
}
