package react_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"agentstateloop/state"
	"agentstateloop/turn/react"
)

// A call that violates the schema has no effect, and the model gets the reason.
func TestArguments(t *testing.T) {
	done := 0
	tools, err := react.Effects{Send: func(context.Context, string, string, []string) error { done++; return nil }}.Tools()
	if err != nil {
		t.Fatal(err)
	}
	for _, args := range []string{``, `{`, `[]`, `null`, `"x"`, `{"to":"a"}`, `{"to":1,"text":"x"}`, `{"to":"a","text":" "}`, `{"to":"a","text":"x","bcc":"b"}`, `{"to":"a","text":"x"} {}`} {
		if got, err := call(t, tools, "send", args); err == nil {
			t.Errorf("send %s = %q", args, got)
		}
	}
	if done != 0 {
		t.Fatalf("%d messages were sent", done)
	}
	if got, err := call(t, tools, "send", `{"to":"dorlange3120","text":"hi"}`); err != nil || got != "sent" || done != 1 {
		t.Errorf("send = %q, %v, %d sent", got, err, done)
	}
}

func TestEffects(t *testing.T) {
	var slept, waits time.Duration
	var found int
	var asked []state.ResultField
	var submitted map[string]json.RawMessage
	tools, err := react.Effects{
		Ask: func(_ context.Context, to, text string, fields []state.ResultField, _ []string, d time.Duration) (string, error) {
			if to == "goulard3120" {
				return "", errors.New("an agent cannot send itself a message")
			}
			waits, asked = d, fields
			return "ask.1", nil
		},
		Submit: func(_ context.Context, r react.Submission) error {
			submitted = r.Fields
			return nil
		},
		Sleep: func(_ context.Context, d time.Duration, _ string) error { slept = d; return nil },
		Search: func(_ context.Context, _ string, n int) (string, error) {
			found = n
			return strings.Repeat("x", 70<<10), nil
		},
	}.Tools()
	if err != nil {
		t.Fatal(err)
	}
	if len(tools) != 4 {
		t.Fatalf("%d tools", len(tools))
	}
	if got, err := call(t, tools, "ask", `{"to":"dorlange3120","text":"?"}`); err != nil || waits != 10*time.Minute || !strings.Contains(got, "ask.1") {
		t.Errorf("ask = %q, %v after %v", got, err, waits)
	}
	fields := `[{"name":"tests","type":"integer","description":"how many","required":true},{"name":"notes"}]`
	if _, err := call(t, tools, "ask", `{"to":"dorlange3120","text":"?","fields":`+fields+`}`); err != nil || len(asked) != 2 || asked[0] != (state.ResultField{Name: "tests", Type: "integer", Description: "how many", Required: true}) {
		t.Errorf("asked for %+v, %v", asked, err)
	}
	values := `{"tests":12345678901234567890,"parts":[1,{"a":null}],"ok":true,"word":"x"}`
	if _, err := call(t, tools, "submit_result", `{"fields":`+values+`}`); err != nil || string(submitted["tests"]) != "12345678901234567890" || string(submitted["parts"]) != `[1,{"a":null}]` || len(submitted) != 4 {
		t.Errorf("submitted %s, %v", submitted, err)
	}
	if _, err := call(t, tools, "ask", `{"to":"goulard3120","text":"?"}`); err == nil || err.Error() != "an agent cannot send itself a message" {
		t.Errorf("the reason did not come through: %v", err)
	}
	for _, args := range []string{`{"minutes":0}`, `{"minutes":-5}`, `{"minutes":153722867280912931}`, `{"minutes":1.5}`, `{}`} {
		if got, err := call(t, tools, "sleep", args); err == nil {
			t.Errorf("sleep %s = %q", args, got)
		}
	}
	if _, err := call(t, tools, "sleep", `{"minutes":90}`); err != nil || slept != 90*time.Minute {
		t.Errorf("slept %v, %v", slept, err)
	}
	if got, err := call(t, tools, "search_history", `{"query":"x","most":99}`); err != nil || found != 20 || len(got) > 65<<10 {
		t.Errorf("search_history: %d of %d bytes, %v", found, len(got), err)
	}
}
