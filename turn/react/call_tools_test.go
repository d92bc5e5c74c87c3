package react_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"agentstateloop/internal/testkit/scripted"
	"agentstateloop/turn/react"
)

// Arguments that mean the same are the same call, however they are written. Another
// text is another call, even if only spaces differ.
func TestSameCall(t *testing.T) {
	eachAPI(t, func(t *testing.T, api string) {
		for _, c := range []struct {
			args []string
			cut  bool
		}{
			{[]string{`{"at":"x","n":1}`, `{"n":1,"at":"x"}`, `{ "n" : 1, "at":"\u0078" }`, `{"at":"x", "n":1}`}, true},
			{[]string{`{"at":"a b"}`, `{"at":"a  b"}`, `{"at":"a   b"}`, `{"at":"a    b"}`}, false},
			{[]string{`{"at":"x","n":9007199254740993}`, `{"at":"x","n":9007199254740992}`, `{"at":"x","n":9007199254740994}`, `{"at":"x","n":9007199254740995}`}, false},
		} {
			var replies []scripted.Reply
			for i, args := range c.args {
				replies = append(replies, scripted.Reply{Calls: []scripted.Call{{ID: fmt.Sprint("c", i), Name: "notch", Args: args}}})
			}
			b := newFixture(t, api, append(replies, scripted.Reply{Text: "done"})...)
			if err := b.run("hello", false); err != nil {
				t.Fatal(err)
			}
			if d := b.done(); (d.Cut != "") != c.cut {
				t.Errorf("%q: %+v", c.args, d)
			}
		}
	})
}

// What a tool prints is sent as text that every API accepts.
func TestNULBytesInResult(t *testing.T) {
	eachAPI(t, func(t *testing.T, api string) {
		b := newFixture(t, api, scripted.Reply{Calls: []scripted.Call{{ID: "c1", Name: "zeroes", Args: "{}"}}}, scripted.Reply{Text: "ok"})
		b.Tools = append(b.Tools, react.Tool{
			Name: "zeroes", Description: "Zeroes.", Schema: json.RawMessage(`{"type":"object"}`),
			Run: func(context.Context, json.RawMessage) (string, error) { return "a\x00b", nil },
		})
		b.wantAnswer("hello", "ok")
		if got := b.asked(1).Last().Results[0].Text; got != "a\uFFFDb" {
			t.Errorf("sent %q", got)
		}
	})
}

// A model that repeats a longer sequence of calls is stopped, too, unless it makes new calls in
// between.
func TestRepeatedCallSequence(t *testing.T) {
	for _, c := range []struct {
		name string
		at   func(n int) string
		cut  string
	}{
		{"two in turn", func(n int) string { return []string{"a", "b"}[n%2] }, "with the same arguments 4 times"},
		{"something new in between", func(n int) string { return []string{"a", strconv.Itoa(n)}[n%2] }, "25 requests"},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newFixture(t, "anthropic")
			b.server.Script = func(q scripted.Request) scripted.Reply {
				return scripted.Reply{Text: "On.", Calls: []scripted.Call{notch(fmt.Sprintf("c%d", q.Number), c.at(q.Number))}}
			}
			if err := b.run("hello", false); err != nil {
				t.Fatal(err)
			}
			if d := b.done(); !strings.Contains(d.Cut, c.cut) {
				t.Errorf("%+v", d)
			}
			b.checkRequests()
		})
	}
}

func TestMaxTools(t *testing.T) {
	eachAPI(t, func(t *testing.T, api string) {
		var calls []scripted.Call
		for i := range 12 {
			calls = append(calls, notch(fmt.Sprintf("c%d", i), strconv.Itoa(i)))
		}
		b := newFixture(t, api, scripted.Reply{Calls: calls}, scripted.Reply{Text: "ok"})
		b.wantAnswer("hello", "ok")
		results := b.asked(1).Last().Results
		if len(b.notched) != 10 || len(results) != 12 || !strings.Contains(results[11].Text, "only the first 10 calls") {
			t.Errorf("ran %d: %+v", len(b.notched), results)
		}
	})
}
