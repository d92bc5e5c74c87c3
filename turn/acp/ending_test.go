package acp

import (
	"encoding/json"
	"strings"
	"testing"

	"agentstateloop/turn"
)

func TestStopReasons(t *testing.T) {
	for _, c := range []struct {
		reason    string
		cancelled bool
		want      turn.Event
	}{
		{"end_turn", false, turn.Event{}},
		{"max_tokens", false, turn.Event{Cut: "the answer is incomplete: the agent reached its token limit"}},
		{"max_turn_requests", false, turn.Event{Cut: "the answer is incomplete: the agent reached its limit of requests per turn"}},
		{"refusal", false, turn.Event{Failed: true, Text: "the agent refused this message"}},
		{"cancelled", false, turn.Event{Failed: true, Text: "the agent itself cancelled the turn"}},
		{"cancelled", true, turn.Event{Cut: "the turn was cancelled"}},
		{"end_turn", true, turn.Event{Cut: "the turn was cancelled"}},
		{"of\x1b tomorrow", false, turn.Event{Cut: `the agent ended the turn with unknown stop reason "of tomorrow"`}},
	} {
		c.want.Kind = turn.Done
		if got := ending(c.reason, c.cancelled); got != c.want {
			t.Errorf("%s: %+v, want %+v", c.reason, got, c.want)
		}
	}
}

func TestUsageOfTurn(t *testing.T) {
	for name, c := range map[string]struct {
		before, update, usage, meta string
		loaded                      bool
		want                        turn.Event
	}{
		"none": {},
		"as claude reports it": {
			update: `{"used":120,"size":1000000,"cost":{"amount":0.5,"currency":"USD"},"_meta":{"_claude/model":"claude-opus-5-5"}}`,
			usage:  `{"inputTokens":100,"outputTokens":20,"cachedReadTokens":7,"cachedWriteTokens":3,"totalTokens":130}`,
			want:   turn.Event{Model: "claude-opus-5-5", CostUSD: 0.5, Usage: turn.Usage{Input: 100, Output: 20, CacheRead: 7, CacheWrite: 3}, Context: 120, Window: 1000000},
		},
		"cached tokens are part of the input, and thoughts are extra": {
			usage: `{"inputTokens":100,"outputTokens":20,"cachedReadTokens":40,"thoughtTokens":5,"totalTokens":125}`,
			want:  turn.Event{Usage: turn.Usage{Input: 60, Output: 25, CacheRead: 40}},
		},
		"as gemini reports it": {
			meta: `{"quota":{"token_count":{"input_tokens":10,"output_tokens":2},"model_usage":[{"model":"gemini-2.5-pro"}]}}`,
			want: turn.Event{Model: "gemini-2.5-pro", Usage: turn.Usage{Input: 10, Output: 2}},
		},
		"the cost of a loaded session without its earlier cost": {
			before: `{"used":1,"size":9,"cost":{"amount":2,"currency":"USD"}}`, update: `{"used":2,"size":9,"cost":{"amount":2.25,"currency":"USD"}}`,
			loaded: true, want: turn.Event{CostUSD: 0.25, Context: 2, Window: 9},
		},
		"the unknown earlier cost of a loaded session": {update: `{"cost":{"amount":2.25,"currency":"USD"}}`, loaded: true},
		"another currency": {update: `{"cost":{"amount":2.25,"currency":"EUR"}}`},
		"nonsense":         {update: `{"used":"x"}`, usage: `[]`, meta: `"x"`},
	} {
		t.Run(name, func(t *testing.T) {
			var m meter
			if c.before != "" {
				m.update(json.RawMessage(c.before))
			}
			m.begin(!c.loaded)
			if c.update != "" {
				m.update(json.RawMessage(c.update))
			}
			m.prompt(json.RawMessage(c.usage), json.RawMessage(c.meta))
			var got turn.Event
			m.bill(&got)
			if got != c.want {
				t.Errorf("%+v\nwant %+v", got, c.want)
			}
		})
	}
}

func TestFaultText(t *testing.T) {
	for text, want := range map[string]string{
		`{"code":-32603,"message":"Internal error","data":{"details":"quota exceeded"}}`: "Internal error: quota exceeded",
		`{"code":-32603,"message":"Internal error","data":"rate limit"}`:                 "Internal error: rate limit",
		`{"code":-32603,"message":"only this","data":{"x":[1]}}`:                         "only this",
		`{"code":-1}`: "error -1",
		`"a text"`:    `"a text"`,
	} {
		m := parseMessage([]byte(`{"id":1,"error":` + text + `}`))
		if m.Error == nil || m.Error.Error() != want {
			t.Errorf("%s: %v", text, m.Error)
		}
	}
}

func TestReadMessages(t *testing.T) {
	long := strings.Repeat("x", maxMessage+10)
	var got []message
	readMessages(strings.NewReader("\n"+long+"\n{\"id\":1,\"result\":{}}\nlast words"), func(m message) bool { got = append(got, m); return true })
	if len(got) != 3 || got[0].skipped != maxMessage+11 || !got[1].isResponse() || string(got[2].raw) != "last words" {
		t.Errorf("%d messages", len(got))
	}
}
