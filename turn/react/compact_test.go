package react_test

import (
	"fmt"
	"strings"
	"testing"

	"agentstateloop/internal/testkit/scripted"
	"agentstateloop/turn/react"
)

// fullWindow returns a fixture whose window is full to percent after the first answer,
// which cuts a notch. summary is the reply of the model for summaries.
func fullWindow(t *testing.T, api string, percent int, summary scripted.Reply) *fixture {
	b := newFixture(t, api)
	b.Window, b.Brief = 100_000, "Write the summary."
	b.server.Script = func(q scripted.Request) scripted.Reply {
		switch {
		case q.Model == "summary":
			return summary
		case len(b.notched) == 0:
			return scripted.Reply{Calls: []scripted.Call{notch("c1", "left")}, In: percent * 1000, Out: 20}
		}
		return scripted.Reply{Text: "done"}
	}
	return b
}

func TestWindowFills(t *testing.T) {
	eachAPI(t, func(t *testing.T, api string) {
		b := fullWindow(t, api, 80, scripted.Reply{Text: "never"})
		b.wantAnswer("Cut one notch.", "done")
		if q := b.asked(1); !strings.Contains(q.Last().Text, "[Your context window is 80% full.") || q.Model != "usual" {
			t.Errorf("%+v", q.Last())
		}
	})
}

func TestCompact(t *testing.T) {
	eachAPI(t, func(t *testing.T, api string) {
		b := fullWindow(t, api, 92, scripted.Reply{Text: "Goal: one notch.\nProgress: it is cut, on the left."})
		b.wantAnswer("Cut one notch.", "done")
		q := b.asked(1)
		if q.Model != "summary" || len(q.Tools) != 0 || !strings.HasSuffix(q.Last().Text, "Write the summary.") {
			t.Errorf("%+v", q)
		}
		for _, want := range []string{"Cut one notch.", `you call notch as c1`, `{"at":"left"}`, "notch 1"} {
			if !strings.Contains(q.Last().Text, want) {
				t.Errorf("no %q in %q", want, q.Last().Text)
			}
		}
		q = b.asked(2)
		if len(q.Messages) != 1 || !strings.HasPrefix(q.Last().Text, "Cut one notch.") || !strings.HasSuffix(q.Last().Text, "it is cut, on the left.") {
			t.Errorf("%+v", q.Messages)
		}
		if len(b.spent) != 3 || b.spent[1].Model != "summary" {
			t.Errorf("spent %+v", b.spent)
		}
		// A later attempt goes on from the summary; the steps hold all of it.
		b.wantAnswer("And now?", "done")
		if q := b.asked(3); len(q.Messages) != 3 || !strings.Contains(q.Messages[0].Text, "on the left") {
			t.Errorf("%+v", q.Messages)
		}
	})
}

// A failing summary changes nothing, and is not retried without end.
func TestCompactFails(t *testing.T) {
	for name, summary := range map[string]scripted.Reply{
		"empty": {}, "blank": {Text: " \n"}, "refused": {Status: 400, Fault: "no"}, "cut": {Text: "Goal: o", Stop: "max_tokens"},
	} {
		t.Run(name, func(t *testing.T) {
			b := fullWindow(t, "anthropic", 92, summary)
			b.wantAnswer("Cut one notch.", "done")
			if q := b.asked(2); len(q.Messages) != 3 {
				t.Errorf("%+v", q.Messages)
			}
		})
	}
}

// A conversation that the API finds too long is summarised, whatever we count.
func TestConversationTooLong(t *testing.T) {
	for _, said := range []string{
		"prompt is too long: 210000 tokens > 200000 maximum",
		"input length and `max_tokens` exceed context limit: 199000 + 8192 > 200000, decrease input length or `max_tokens` and try again",
		"This model's maximum context length is 4096 tokens.",
		"The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).",
		"the request exceeds the available context size",
	} {
		eachAPI(t, func(t *testing.T, api string) {
			b := newFixture(t, api)
			b.Window, b.Brief = 4096, "Write the summary."
			b.server.Script = func(q scripted.Request) scripted.Reply {
				switch {
				case q.Model == "summary":
					return scripted.Reply{Text: "It was long."}
				case len(q.Last().Text) > 1800:
					return scripted.Reply{Status: 400, Fault: said}
				}
				return scripted.Reply{Text: fmt.Sprint(len(q.Messages))}
			}
			b.wantAnswer(strings.Repeat("word ", 400), "1")
			b.server.Script = scripted.Replies(scripted.Reply{Status: 400, Fault: "prompt is too long"})
			if err := b.run(strings.Repeat("word ", 400), false); err == nil || !b.done().Failed {
				t.Errorf("%v, %+v", err, b.done())
			}
		})
	}
}

// A record that exceeds the window is shortened, not left out.
func TestLongTranscript(t *testing.T) {
	b := newFixture(t, "anthropic")
	b.Window, b.Brief = 8192, "Write the summary."
	b.server.Script = func(q scripted.Request) scripted.Reply {
		if q.Model == "summary" {
			return scripted.Reply{Text: "Short."}
		}
		return scripted.Reply{Text: "ok"}
	}
	b.wantAnswer("begins "+strings.Repeat("word ", 20_000)+" ends with this question", "ok")
	if n := len(b.asked(0).Last().Text); n > 8192*3 {
		t.Errorf("the record has %d bytes", n)
	}
	if q := b.asked(1); len(q.Last().Text) > 8192 || !strings.Contains(q.Last().Text, "ends with this question") {
		t.Errorf("%d bytes: %.200s", len(q.Last().Text), q.Last().Text)
	}
	b.checkRequests()
}

// A conversation that does not become small is not summarised before each question.
// Summaries count as calls to the model.
func TestUselessSummaries(t *testing.T) {
	eachAPI(t, func(t *testing.T, api string) {
		b := newFixture(t, api)
		n := 0
		b.server.Script = func(q scripted.Request) scripted.Reply {
			n++
			if q.Model == "summary" {
				return scripted.Reply{Text: "Goal: none.", In: 990_000}
			}
			return scripted.Reply{Calls: []scripted.Call{notch(fmt.Sprint("c", n), fmt.Sprint(n))}, In: 990_000}
		}
		b.Window = 1_000_000
		if err := b.run("hello", false); err != nil {
			t.Fatal(err)
		}
		summaries := 0
		for _, q := range b.server.Asked() {
			if q.Model == "summary" {
				summaries++
			}
		}
		if total := len(b.server.Asked()); summaries > 3 || total != react.DefaultMaxCalls {
			t.Errorf("%d summaries in %d requests", summaries, total)
		}
		if last := b.asked(react.DefaultMaxCalls - 1).Last(); !strings.Contains(last.Text, "This is your last answer") {
			t.Errorf("the model read last: %q", last.Text)
		}
		b.checkRequests()
	})
}

// A message that exceeds the window is replaced by a summary and its end.
func TestMessageExceedsWindow(t *testing.T) {
	eachAPI(t, func(t *testing.T, api string) {
		b := newFixture(t, api)
		b.Window = 10_000
		b.server.Script = func(q scripted.Request) scripted.Reply {
			switch {
			case len(q.Body) > 60_000:
				return scripted.Reply{Status: 400, Fault: "prompt is too long"}
			case q.Model == "summary":
				return scripted.Reply{Text: "Goal: read it."}
			}
			return scripted.Reply{Text: "read"}
		}
		b.wantAnswer(strings.Repeat("all work and no play ", 8_000)+"What is it about?", "read")
		if told := b.asked(1).Messages[0].Text; !strings.Contains(told, "What is it about?") || !strings.Contains(told, "Goal: read it.") {
			t.Errorf("the model read %q", told)
		}
	})
}

// A summary outside of a run is asked for again after a fault that may pass. Its
// bill comes at the end, estimated if the API does not count.
func TestSummaryOutsideRun(t *testing.T) {
	for api, stream := range map[string]string{
		"openai":    chat(`{"choices":[{"index":0,"delta":{"content":"Goal: none."}}]}`, chatStops, done),
		"anthropic": messages(`{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}`, `{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"Goal: none."}}`, `{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":0}}`),
	} {
		s := newServer(t, errorReply(503, ""), streamReply(stream))
		b := newFixtureOn(t, s, api)
		err := b.Summary(t.Context(), strings.Repeat("said this and that ", 100))
		if d := b.done(); err != nil || d.Text != "Goal: none." || d.Failed || d.Usage.Input < 500 || len(s.bodies) != 2 {
			t.Errorf("%s: %v, %+v after %d requests", api, err, d, len(s.bodies))
		}
	}
}
