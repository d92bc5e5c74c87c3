package react_test

import (
	"strings"
	"testing"

	"agentstateloop/turn/react"
)

// ask sends one question to a server that answers with this stream.
func ask(t *testing.T, api, stream string) (react.Answer, error) {
	t.Helper()
	q := react.Question{Model: "m", Messages: []react.Message{{Text: "hello"}}, MaxOutput: 100}
	return newServer(t, streamReply(stream)).model(api).Answer(t.Context(), q, func(string) {})
}

// chat is a stream of chat completions: each line is an event.
func chat(lines ...string) string {
	return "data: " + strings.Join(lines, "\n\ndata: ") + "\n\n"
}

// messages is a stream of the Messages API: each line is the data of an event.
func messages(lines ...string) string {
	var b strings.Builder
	for _, line := range lines {
		_, kind, _ := strings.Cut(line, `"type":"`)
		kind, _, _ = strings.Cut(kind, `"`)
		b.WriteString("event: " + kind + "\ndata: " + line + "\n\n")
	}
	return b.String()
}

const (
	chatCalls = `{"choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]}`
	chatStops = `{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`
	done      = `[DONE]`
)

func calls(pieces string) string {
	return `{"choices":[{"index":0,"delta":{"tool_calls":[` + pieces + `]}}]}`
}

// How servers split tool calls into pieces, in other ways than OpenAI's own does.
func TestCallPieces(t *testing.T) {
	two := []react.Call{{ID: "a", Name: "read_file", Args: `{"path":"x"}`}, {ID: "b", Name: "list", Args: `{"path":"y"}`}}
	one := two[:1]
	nameless := []react.Call{{Name: "read_file", Args: `{"path":"x"}`}, {Name: "list", Args: `{"path":"y"}`}}
	for _, c := range []struct {
		name   string
		stream string
		want   []react.Call
	}{
		{"by the book", chat(
			calls(`{"index":0,"id":"a","type":"function","function":{"name":"read_file","arguments":""}}`),
			calls(`{"index":0,"function":{"arguments":"{\"path\":"}}`), calls(`{"index":0,"function":{"arguments":"\"x\"}"}}`),
			calls(`{"index":1,"id":"b","type":"function","function":{"name":"list","arguments":""}}`),
			calls(`{"index":1,"function":{"arguments":"{\"path\":\"y\"}"}}`), chatCalls, done), two},
		{"Ollama: whole calls, all of index 0", chat(
			calls(`{"index":0,"id":"a","type":"function","function":{"name":"read_file","arguments":"{\"path\":\"x\"}"}},{"index":0,"id":"b","type":"function","function":{"name":"list","arguments":"{\"path\":\"y\"}"}}`),
			chatStops, done), two},
		{"whole calls, all of index 0, without ids", chat(
			calls(`{"index":0,"function":{"name":"read_file","arguments":"{\"path\":\"x\"}"}}`),
			calls(`{"index":0,"function":{"name":"list","arguments":"{\"path\":\"y\"}"}}`), chatCalls, done), nameless},
		{"no index", chat(
			calls(`{"id":"a","function":{"name":"read_file","arguments":"{\"path\":"}}`), calls(`{"function":{"arguments":"\"x\"}"}}`),
			calls(`{"id":"b","function":{"name":"list","arguments":"{\"path\":\"y\"}"}}`), chatCalls, done), two},
		{"no index and no id", chat(
			calls(`{"function":{"name":"read_file","arguments":"{\"path\":\"x\"}"}}`),
			calls(`{"function":{"name":"list","arguments":"{\"path\":\"y\"}"}}`), chatCalls, done), nameless},
		{"an id that comes late, with an index", chat(
			calls(`{"index":0,"function":{"name":"read_file","arguments":"{\"path\":"}}`), calls(`{"index":0,"id":"a","function":{"arguments":"\"x\"}"}}`),
			chatCalls, done), one},
		{"an id that comes late, without one", chat(
			calls(`{"function":{"name":"read_file","arguments":"{\"path\":"}}`), calls(`{"id":"a","function":{"arguments":"\"x\"}"}}`),
			chatCalls, done), one},
		{"vLLM: an id of its own for each piece", chat(
			calls(`{"index":0,"id":"a","function":{"name":"read_file"}}`), calls(`{"index":0,"id":"p2","function":{"arguments":"{\"path\":"}}`),
			calls(`{"index":0,"id":"p3","function":{"arguments":"\"x\"}"}}`), chatCalls, done), one},
		{"the name in each piece", chat(
			calls(`{"index":0,"id":"a","function":{"name":"read_file","arguments":"{\"path\":"}}`),
			calls(`{"index":0,"id":"a","function":{"name":"read_file","arguments":"\"x\"}"}}`), chatCalls, done), one},
		{"null for what is not there", chat(
			calls(`{"index":0,"id":"a","function":{"name":"read_file","arguments":null}}`),
			calls(`{"index":0,"id":null,"function":{"name":null,"arguments":"{\"path\":\"x\"}"}}`), chatCalls, done), one},
	} {
		a, err := ask(t, "openai", c.stream)
		if err != nil || a.Stop != react.StopTools {
			t.Errorf("%s: %v, %+v", c.name, err, a)
			continue
		}
		if len(a.Calls) != len(c.want) {
			t.Errorf("%s: %+v", c.name, a.Calls)
			continue
		}
		for i, call := range a.Calls {
			if call != c.want[i] {
				t.Errorf("%s: %+v, want %+v", c.name, call, c.want[i])
			}
		}
	}
}

// TestStreams checks other variants in the streams of real servers.
func TestStreams(t *testing.T) {
	const (
		start = `{"type":"message_start","message":{"id":"m","type":"message","role":"assistant","model":"m","content":[],"usage":{"input_tokens":10,"output_tokens":1}}}`
		text  = `{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}`
		hi    = `{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"hi"}}`
		stop  = `{"type":"content_block_stop","index":0}`
	)
	ends := func(why string) string {
		return `{"type":"message_delta","delta":{"stop_reason":"` + why + `"},"usage":{"output_tokens":5}}`
	}
	const said = `{"choices":[{"index":0,"delta":{"content":"hi"}}]}`
	whole := messages(start, text, hi, stop, ends("end_turn"))
	replaced := func(pairs ...string) string { return strings.NewReplacer(pairs...).Replace(whole) }
	for _, c := range []struct {
		name, api, stream string
		want              react.Stop
		word              string // in the error; "" if there must be none
	}{
		{"no [DONE]", "openai", chat(said, chatStops), react.StopEnd, ""},
		{"comments that keep it alive", "openai", ": OPENROUTER PROCESSING\n\n: OPENROUTER PROCESSING\n\n" + chat(said) + ": OPENROUTER PROCESSING\n\n" + chat(chatStops, done), react.StopEnd, ""},
		{"no space behind the colon, and CRLF", "openai", "data:" + said + "\r\n\r\ndata:" + chatStops + "\r\n\r\ndata:[DONE]\r\n\r\n", react.StopEnd, ""},
		{"no blank lines, and an indented one", "openai", " data: " + said + "\ndata: " + chatStops + "\ndata: [DONE]\n", react.StopEnd, ""},
		{"many events that are not JSON", "openai", strings.Repeat("data: x\n\n", 1000) + chat(said, chatStops, done), react.StopEnd, ""},
		{"ids and retry times", "openai", "id: 1\nretry: 10\n" + chat(said) + "event: message\n" + chat(chatStops, done), react.StopEnd, ""},
		{"no end of the last line", "openai", "data: " + said + "\n\ndata: " + chatStops, react.StopEnd, ""},
		{"an error without \"data:\"", "openai", chat(said) + ` {"error":{"message":"overloaded"}}` + "\n", "", "overloaded"},
		{"a line of 1 MiB", "openai", chat(said, strings.Repeat(" ", 1<<20)+chatStops, done), react.StopEnd, ""},
		{"OpenRouter: an error in a chunk", "openai", chat(said, `{"id":"g","error":{"code":502,"message":"Provider disconnected"},"choices":[{"index":0,"delta":{"content":""},"finish_reason":"error"}]}`), "", "Provider disconnected"},
		{"OpenRouter: an error in a chunk without choices", "openai", chat(said, `{"id":"g","error":{"code":"server_error","message":"Provider disconnected"}}`), "", "Provider disconnected"},
		{"a stop that says error", "openai", chat(said, `{"choices":[{"index":0,"delta":{},"finish_reason":"error"}]}`, done), "", "error"},
		{"an error as an event", "openai", chat(said, `{"error":{"message":"overloaded","type":"server_error","code":null}}`), "", "overloaded"},
		{"an error instead of a stream", "openai", `{"error":{"message":"no such route","type":"invalid_request_error","code":404}}`, "", "no such route"},
		{"an answer all at once", "openai", `{"choices":[{"index":0,"message":{"role":"assistant","content":"hi"},"finish_reason":"stop"}]}`, react.StopEnd, ""},
		{"an error instead of a stream", "anthropic", `{"type":"error","error":{"type":"invalid_request_error","message":"no such route"}}`, "", "no such route"},
		{"no more room in the window", "anthropic", messages(start, text, hi, stop, ends("model_context_window_exceeded")), react.StopLength, ""},
		{"pings", "anthropic", messages(start, `{"type":"ping"}`, text, `{"type":"ping"}`, hi, stop, `{"type":"ping"}`, ends("end_turn")), react.StopEnd, ""},
		{"an event of tomorrow", "anthropic", messages(start, `{"type":"weather_report","sunny":true}`, text, hi, stop, ends("end_turn")), react.StopEnd, ""},
		{"no space behind the colon, and CRLF", "anthropic", replaced(": ", ":", "\n", "\r\n"), react.StopEnd, ""},
		{"comments, ids and retry times", "anthropic", replaced("data: ", ": keep-alive\nid: 1\nretry: 10\nretry\ndata: "), react.StopEnd, ""},
		{"data in several lines", "anthropic", replaced(`,"`, ",\ndata:\ndata: \""), react.StopEnd, ""},
		{"a line of 1 MiB", "anthropic", replaced("data: ", "data: "+strings.Repeat(" ", 1<<20)), react.StopEnd, ""},
		{"a byte order mark", "anthropic", "\ufeff" + whole, react.StopEnd, ""},
		{"a ping that is not JSON", "anthropic", "event: ping\ndata: pong\n\n" + whole, react.StopEnd, ""},
		{"an error after the end", "anthropic", whole + "event: error\ndata: Overloaded\n\n", react.StopEnd, ""},
		{"an error that is not JSON", "anthropic", messages(start, text, hi) + "event: error\ndata: over\ndata: loaded\n\n", "", "over loaded"},
		{"an error without data", "anthropic", messages(start, text, hi) + "event: error\n\n", "", "unknown error"},
		{"events without names", "anthropic", replaced("event: ", "id: "), "", "connection lost"},
		{"the end in the middle of the last event", "anthropic", strings.TrimSuffix(whole, "\n"), "", "connection lost"},
		{"an event that is not JSON", "anthropic", messages(start, text, hi) + "event: message_delta\ndata: x\n\n" + whole, "", "invalid character"},
		{"an event without data", "anthropic", messages(start, text, hi) + "event: message_delta\n\n" + whole, "", "unexpected end of JSON"},
		{"an overload in the middle", "anthropic", messages(start, text, hi, `{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`), "", "Overloaded"},
	} {
		a, err := ask(t, c.api, c.stream)
		switch {
		case c.word == "" && (err != nil || a.Stop != c.want || a.Text != "hi"):
			t.Errorf("%s: %+v, %v; want %s", c.name, a, err, c.want)
		case c.word != "" && (err == nil || !strings.Contains(err.Error(), c.word) || c.word != "expected a stream" && strings.Contains(err.Error(), "{")):
			t.Errorf("%s: %+v, %v; want an error of %q", c.name, a, err, c.word)
		case len(a.Unread) > 100:
			t.Errorf("%s: the answer keeps %d unreadable members", c.name, len(a.Unread))
		}
	}
}

// After an error that stays no further request is made, even if it comes in the
// middle of a stream.
func TestFatalErrorInStream(t *testing.T) {
	const start = `{"type":"message_start","message":{"id":"m","type":"message","role":"assistant","model":"m","content":[],"usage":{"input_tokens":10,"output_tokens":1}}}`
	for _, c := range []struct{ api, stream, want string }{
		{"anthropic", messages(start, `{"type":"error","error":{"type":"invalid_request_error","message":"no such thing"}}`), "no such thing"},
		{"anthropic", messages(start, `{"type":"error","error":{"type":"authentication_error","message":"the key was revoked"}}`), "the key was revoked"},
		{"openai", chat(`{"id":"g","error":{"code":400,"message":"no such thing"},"choices":[{"index":0,"delta":{},"finish_reason":"error"}]}`), "no such thing"},
		{"openai", chat(`{"id":"g","error":{"code":402,"message":"Insufficient credits"},"choices":[]}`), "Insufficient credits"},
	} {
		s := newServer(t, streamReply(c.stream))
		b := newFixtureOn(t, s, c.api)
		if err := b.run("hello", false); err == nil || len(s.bodies) != 1 {
			t.Errorf("%s: %v after %d requests", c.stream, err, len(s.bodies))
		}
		if d := b.done(); !d.Failed || !strings.Contains(d.Text, c.want) || strings.Contains(d.Text, "{") {
			t.Errorf("%+v, want %q", d, c.want)
		}
	}
}
