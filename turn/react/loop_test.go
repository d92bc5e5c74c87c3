package react_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"agentstateloop/internal/testkit/scripted"
	"agentstateloop/turn"
	"agentstateloop/turn/react"
)

var apis = []string{"anthropic", "openai"}

// fixture is a loop against a scripted service, one attempt after the other.
type fixture struct {
	t      *testing.T
	api    string
	server *scripted.Server
	url    string
	turn   string // the turn's folder
	epoch  int

	react.Loop
	events  []turn.Event
	spent   []react.Expense
	rests   int
	notched []string // what the tool "notch" was called with
	outlook react.CheckResult
}

func newFixture(t *testing.T, api string, replies ...scripted.Reply) *fixture {
	t.Helper()
	b := &fixture{t: t, api: api, server: &scripted.Server{Script: scripted.Replies(replies...)}, turn: t.TempDir()}
	url, stop, err := b.server.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	b.url = url
	b.Names = react.Names{Usual: "usual", Low: "low", Summary: "summary"}
	b.System = "You are @goulard3120."
	b.Backoff = time.Millisecond
	b.Deadline = time.Now().Add(10 * time.Minute)
	b.Tools = notches(&b.notched)
	b.Emit = func(e turn.Event) { b.events = append(b.events, e) }
	b.Check = func(context.Context) (react.CheckResult, error) { return b.outlook, nil }
	b.Spent = func(_ context.Context, e react.Expense) error { b.spent = append(b.spent, e); return nil }
	b.Rest = func(context.Context) error { b.rests++; return nil }
	b.Model = b.model(5 * time.Minute)
	return b
}

// notches returns the tools notch, which records its arguments, and ask.
func notches(into *[]string) []react.Tool {
	return []react.Tool{{
		Name: "notch", Description: "Cuts a notch.",
		Schema: json.RawMessage(`{"type":"object","properties":{"at":{"type":"string"}},"required":["at"],"additionalProperties":false}`),
		Run: func(_ context.Context, args json.RawMessage) (string, error) {
			*into = append(*into, string(args))
			return fmt.Sprintf("notch %d", len(*into)), nil
		},
	}, {
		Name: "ask", Description: "Asks.", Schema: json.RawMessage(`{"type":"object"}`),
		Run: func(context.Context, json.RawMessage) (string, error) { return "asked", nil },
	}}
}

func (b *fixture) model(stall time.Duration) react.Model {
	if b.api == "anthropic" {
		return react.NewMessages(b.url, scripted.Key, stall)
	}
	return react.NewChat(b.url+"/v1", scripted.Key, stall)
}

// run runs an attempt.
func (b *fixture) run(message string, again bool) error {
	b.t.Helper()
	return b.runContext(b.t.Context(), message, again)
}

// runContext runs an attempt until ctx ends.
func (b *fixture) runContext(ctx context.Context, message string, again bool) error {
	b.t.Helper()
	b.epoch++
	dir := filepath.Join(b.turn, strconv.Itoa(b.epoch))
	if err := os.MkdirAll(dir, 0o700); err != nil {
		b.t.Fatal(err)
	}
	var err error
	if b.Steps, err = react.OpenSteps(dir); err != nil {
		b.t.Fatal(err)
	}
	defer b.Steps.Close()
	b.events = nil
	loop := b.Loop // a fresh process
	return loop.Run(ctx, message, again)
}

// done returns the last event.
func (b *fixture) done() turn.Event {
	b.t.Helper()
	last := b.events[len(b.events)-1]
	if last.Kind != turn.Done {
		b.t.Fatalf("the last event is %+v", last)
	}
	return last
}

// wantAnswer runs a run that must end with answer.
func (b *fixture) wantAnswer(message, answer string) {
	b.t.Helper()
	if err := b.run(message, false); err != nil {
		b.t.Fatal(err)
	}
	if d := b.done(); d.Text != answer || d.Failed || d.Cut != "" {
		b.t.Errorf("done %+v, want %q", d, answer)
	}
	b.checkRequests()
}

// checkRequests checks that the service found nothing wrong with what it was sent.
func (b *fixture) checkRequests() {
	b.t.Helper()
	if refused := b.server.Refused(); len(refused) > 0 {
		b.t.Errorf("the service refused: %q", refused)
	}
}

func (b *fixture) asked(n int) scripted.Request {
	b.t.Helper()
	asked := b.server.Asked()
	if len(asked) <= n {
		b.t.Fatalf("%d requests", len(asked))
	}
	return asked[n]
}

func notch(id, at string) scripted.Call {
	return scripted.Call{ID: id, Name: "notch", Args: fmt.Sprintf("{\"at\":%q}", at)}
}

func eachAPI(t *testing.T, f func(t *testing.T, api string)) {
	for _, api := range apis {
		t.Run(api, func(t *testing.T) { f(t, api) })
	}
}

func TestAnswer(t *testing.T) {
	eachAPI(t, func(t *testing.T, api string) {
		b := newFixture(t, api, scripted.Reply{Text: "It is green — wirklich grün.", In: 1000, CacheRead: 400, Out: 7})
		b.wantAnswer("Is it green?", "It is green — wirklich grün.")
		q := b.asked(0)
		if q.Model != "usual" || q.System != b.System || q.Last().Text != "Is it green?" || !slices.Equal(q.Tools, []string{"notch", "ask"}) {
			t.Errorf("%+v", q)
		}
		want := turn.Usage{Input: 600, CacheRead: 400, Output: 7}
		if len(b.spent) != 1 || b.spent[0].Usage != want || b.spent[0].Model != "usual" || b.done().Usage != want {
			t.Errorf("spent %+v, done %+v", b.spent, b.done())
		}
		if b.rests != 1 {
			t.Errorf("rested %d times", b.rests)
		}
		if b.events[0].Kind != turn.SessionStart {
			t.Errorf("begins with %+v", b.events[0])
		}
	})
}

func TestTools(t *testing.T) {
	eachAPI(t, func(t *testing.T, api string) {
		b := newFixture(t, api,
			scripted.Reply{Text: "I will cut two.", Calls: []scripted.Call{notch("c1", "left"), notch("c2", "right")}},
			scripted.Reply{Calls: []scripted.Call{notch("c3", "middle")}},
			scripted.Reply{Text: "Three are cut."})
		b.wantAnswer("cut", "Three are cut.")
		if want := []string{`{"at":"left"}`, `{"at":"right"}`, `{"at":"middle"}`}; !slices.Equal(b.notched, want) {
			t.Errorf("ran %q", b.notched)
		}
		q := b.asked(2)
		if len(q.Messages) != 5 || q.Messages[2].Results[1].Text != "notch 2" || q.Messages[1].Text != "I will cut two." {
			t.Errorf("%+v", q.Messages)
		}
		var kinds []turn.EventKind
		for _, e := range b.events {
			kinds = append(kinds, e.Kind)
		}
		if want := "session_start text_delta tool_use tool_result tool_use tool_result tool_use tool_result text_delta done"; fmt.Sprint(kinds) != "["+want+"]" {
			t.Errorf("events %v", kinds)
		}
	})
}

// A stream that breaks off at any point costs one more request and has no other effect.
func TestCutStreams(t *testing.T) {
	t.Parallel()
	eachAPI(t, func(t *testing.T, api string) {
		calls := scripted.Reply{Text: "Let me cut a notch.", Calls: []scripted.Call{notch("c1", "left"), notch("c2", "right")}}
		n := len(scripted.Events(api, scripted.Request{}, calls))
		for _, cut := range []scripted.Reply{{}, {Midway: "Overloaded"}, {Short: true}} {
			for at := range n {
				broken := calls
				broken.Cut, broken.Midway, broken.Short = &at, cut.Midway, cut.Short
				script := []scripted.Reply{broken, calls, {Text: "Cut."}}
				if last := map[string]int{"anthropic": n - 1, "openai": n - 2}[api]; at >= last {
					script = []scripted.Reply{broken, {Text: "Cut."}} // the stop reason has arrived, so this is an answer
				}
				b := newFixture(t, api, script...)
				b.wantAnswer("cut", "Cut.")
				if len(b.notched) != 2 {
					t.Errorf("cut at event %d of %d (%+v): the tool ran %d times", at, n, cut, len(b.notched))
				}
			}
		}
	})
}

func TestTransientFaults(t *testing.T) {
	eachAPI(t, func(t *testing.T, api string) {
		b := newFixture(t, api,
			scripted.Reply{Status: 429, Fault: "slow down", RetryAfter: "0.01"},
			scripted.Reply{Status: 500, Fault: "oops"},
			scripted.Reply{Status: 529, Fault: "Overloaded"},
			scripted.Reply{Text: "here now"})
		b.wantAnswer("hello", "here now")
		var told []string
		for _, e := range b.events {
			if e.Kind == turn.Error {
				told = append(told, e.Text)
			}
		}
		if len(told) != 3 || !strings.Contains(told[0], "429: slow down; retrying") {
			t.Errorf("the model read %q", told)
		}
	})
}

func TestFatalFaults(t *testing.T) {
	for _, c := range []struct {
		name  string
		reply scripted.Reply
		want  string // of the reason
		login bool
	}{
		{"bad key", scripted.Reply{Status: 401, Fault: "invalid x-api-key " + scripted.Key}, "401: invalid x-api-key ***", true},
		{"forbidden", scripted.Reply{Status: 403, Fault: "no"}, "403", true},
		{"flagged", scripted.Reply{Status: 403, Fault: "Your chosen model requires moderation and your input was flagged"}, "was flagged", false},
		{"no credit", scripted.Reply{Status: 429, Fault: "insufficient_quota: check your plan and billing details"}, "insufficient_quota", true},
		{"no such model", scripted.Reply{Status: 404, Fault: "model: usual"}, "404: model: usual", false},
		{"wait beyond the turn", scripted.Reply{Status: 429, Fault: "later", RetryAfter: "7200"}, "429: later (tries: 1)", false},
		{"moved", scripted.Reply{Status: 307, Fault: "away"}, "307", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			eachAPI(t, func(t *testing.T, api string) {
				b := newFixture(t, api, c.reply)
				if err := b.run("hello", false); !errors.Is(err, react.ErrFailed) {
					t.Fatal(err)
				}
				d := b.done()
				if !d.Failed || !strings.Contains(d.Text, c.want) {
					t.Errorf("%+v", d)
				}
				login := slices.ContainsFunc(b.events, func(e turn.Event) bool {
					return e.Kind == turn.Error && strings.HasPrefix(e.Text, turn.APIRefused)
				})
				if login != c.login || b.rests != 0 {
					t.Errorf("credential reported: %v; rests %d", login, b.rests)
				}
				if n := len(b.server.Asked()); n != 1 {
					t.Errorf("%d requests", n)
				}
				if strings.Contains(fmt.Sprint(b.events), scripted.Key) {
					t.Error("the key was printed")
				}
			})
		})
	}
}

func TestStalledAPI(t *testing.T) {
	eachAPI(t, func(t *testing.T, api string) {
		hold := make(chan struct{})
		defer close(hold)
		b := newFixture(t, api, scripted.Reply{Text: "never", Hold: hold}, scripted.Reply{Text: "at last"})
		b.Model = b.model(50 * time.Millisecond)
		b.wantAnswer("hello", "at last")
		if !strings.Contains(fmt.Sprint(b.events), "stopped sending") {
			t.Errorf("%+v", b.events)
		}
	})
}

// What models do wrong, and how the run ends.
func TestModelMistakes(t *testing.T) {
	same := scripted.Reply{Text: "Again.", Calls: []scripted.Call{notch("", "here")}}
	for _, c := range []struct {
		name    string
		api     string // "": both
		replies []scripted.Reply
		text    string
		cut     string
		ran     int
		told    string // what the model read last
	}{
		{name: "arguments that are not JSON", text: "ok",
			replies: []scripted.Reply{{Calls: []scripted.Call{{ID: "c1", Name: "notch", Args: `{"at": "le`}}}, {Text: "ok"}},
			told:    `not a JSON object. You wrote: {"at": "le`},
		{name: "arguments that are not an object", text: "ok",
			replies: []scripted.Reply{{Calls: []scripted.Call{{ID: "c1", Name: "notch", Args: `["left"]`}}}, {Text: "ok"}},
			told:    "not a JSON object"},
		{name: "an unknown tool", text: "ok",
			replies: []scripted.Reply{{Calls: []scripted.Call{{ID: "c1", Name: "saw", Args: `{}`}}}, {Text: "ok"}},
			told:    `unknown tool "saw". Your tools: notch, ask.`},
		{name: "a name that no API accepts", api: "openai", text: "ok",
			replies: []scripted.Reply{{Calls: []scripted.Call{{ID: "c1", Name: "the saw!", Args: `{}`}}}, {Text: "ok"}},
			told:    `unknown tool "the_saw_"`},
		{name: "calls without ids", api: "openai", text: "ok", ran: 2,
			replies: []scripted.Reply{{Calls: []scripted.Call{notch("", "a"), notch("", "b")}}, {Text: "ok"}}},
		{name: "ids that are used again", api: "openai", text: "ok", ran: 2,
			replies: []scripted.Reply{{Calls: []scripted.Call{notch("c", "a")}}, {Calls: []scripted.Call{notch("c", "b")}}, {Text: "ok"}}},
		{name: "an empty answer, then one", text: "ok", replies: []scripted.Reply{{}, {Text: "ok"}}, told: "Your answer was empty"},
		{name: "empty answers", cut: "empty answer", replies: []scripted.Reply{{}}, told: "Your answer was empty"},
		{name: "blank answers", cut: "empty answer", replies: []scripted.Reply{{Text: " \n "}}, told: "Your answer was empty"},
		{name: "a refusal", api: "anthropic", cut: "refused to answer: refusal", replies: []scripted.Reply{{Text: "I can", Stop: "refusal"}}},
		{name: "a refusal", api: "openai", cut: "refused to answer: refusal: I will not", replies: []scripted.Reply{{Refusal: "I will not"}}},
		{name: "a content filter", api: "openai", cut: "content_filter", replies: []scripted.Reply{{Text: "Well,", Stop: "content_filter"}}},
		{name: "a truncated answer", api: "anthropic", cut: "the answer is truncated", replies: []scripted.Reply{{Text: "Once upon", Stop: "max_tokens"}}},
		{name: "a truncated answer", api: "openai", cut: "the answer is truncated", replies: []scripted.Reply{{Text: "Once upon", Stop: "length"}}},
		{name: "the same call, malformed", cut: "with the same arguments 4 times", told: "You have made this same call 3 times",
			replies: []scripted.Reply{{Calls: []scripted.Call{{Name: "notch", Args: `{"at":`}}}}},
		{name: "a truncated call", text: "ok", told: "Not run: your answer reached the length limit in the middle of this call",
			replies: []scripted.Reply{{Calls: []scripted.Call{{ID: "c1", Name: "notch", Args: `{"at": "le`}}, Stop: "max_tokens"}, {Text: "ok"}}},
		{name: "a call truncated before its arguments", text: "ok", told: "Not run: your answer reached the length limit in the middle of this call",
			replies: []scripted.Reply{{Calls: []scripted.Call{{ID: "c1", Name: "notch"}}, Stop: "max_tokens"}, {Text: "ok"}}},
		{name: "whole calls before the cut", api: "openai", text: "ok", ran: 2,
			replies: []scripted.Reply{{Calls: []scripted.Call{notch("c1", "a"), notch("c2", "b")}, Stop: "length"}, {Text: "ok"}}},
		{name: "a pause", api: "anthropic", text: "Now I know.", told: "Go on.",
			replies: []scripted.Reply{{Text: "Wait.", Stop: "pause_turn"}, {Text: "Now I know."}}},
		{name: "the same call", cut: "with the same arguments 4 times", ran: 3, replies: []scripted.Reply{same}, told: "You have made this same call 3 times"},
	} {
		for _, api := range apis {
			if c.api != "" && c.api != api {
				continue
			}
			t.Run(c.name+" "+api, func(t *testing.T) {
				b := newFixture(t, api, c.replies...)
				if api == "anthropic" { // its calls always have ids
					b.server.Script = withCallIDs(b.server.Script)
				}
				if err := b.run("hello", false); err != nil {
					t.Fatal(err)
				}
				d := b.done()
				if d.Failed || d.Text != c.text || (c.cut == "") != (d.Cut == "") || !strings.Contains(d.Cut, c.cut) {
					t.Errorf("%+v, want text %q, cut %q", d, c.text, c.cut)
				}
				if len(b.notched) != c.ran {
					t.Errorf("the tool ran %d times, want %d", len(b.notched), c.ran)
				}
				asked := b.server.Asked()
				last := asked[len(asked)-1].Last()
				if said := fmt.Sprint(last.Text, last.Results); !strings.Contains(said, c.told) {
					t.Errorf("the model read %q, want %q", said, c.told)
				}
				b.checkRequests()
			})
		}
	}
}

// A run that may be silent ends well with an empty answer, and nothing more is asked.
func TestMayBeSilent(t *testing.T) {
	eachAPI(t, func(t *testing.T, api string) {
		b := newFixture(t, api, scripted.Reply{Text: "I look.", Calls: []scripted.Call{notch("c1", "a")}}, scripted.Reply{})
		b.MayBeSilent = true
		b.wantAnswer("hello", "")
		if n := len(b.server.Asked()); n != 2 || b.rests != 1 {
			t.Errorf("asked %d times, %d rests", n, b.rests)
		}
	})
}

// withCallIDs sets the ids of calls that have none.
func withCallIDs(script func(scripted.Request) scripted.Reply) func(scripted.Request) scripted.Reply {
	return func(q scripted.Request) scripted.Reply {
		r := script(q)
		r.Calls = slices.Clone(r.Calls)
		for i := range r.Calls {
			if r.Calls[i].ID == "" {
				r.Calls[i].ID = fmt.Sprintf("toolu_%d_%d", q.Number, i)
			}
		}
		return r
	}
}

func TestMaxCalls(t *testing.T) {
	b := newFixture(t, "anthropic")
	b.server.Script = func(q scripted.Request) scripted.Reply {
		return scripted.Reply{Text: "On.", Calls: []scripted.Call{notch(fmt.Sprintf("c%d", q.Number), strconv.Itoa(q.Number))}}
	}
	if err := b.run("hello", false); err != nil {
		t.Fatal(err)
	}
	if n := len(b.server.Asked()); n != 25 || len(b.notched) != 24 {
		t.Errorf("asked %d times, ran %d", n, len(b.notched))
	}
	if d := b.done(); !strings.Contains(d.Cut, "25 requests") {
		t.Errorf("%+v", d)
	}
	if !strings.Contains(b.asked(24).Last().Text, "your last answer") || b.rests != 0 {
		t.Errorf("the model read %q, rests %d", b.asked(24).Last().Text, b.rests)
	}
	b.checkRequests()
}

// An answer of 5 MB is emitted in pieces and kept.
func TestLongAnswer(t *testing.T) {
	t.Parallel()
	eachAPI(t, func(t *testing.T, api string) {
		long := strings.Repeat("All work and no play. ", 5<<20/22)
		b := newFixture(t, api, scripted.Reply{Text: long, Piece: 64 << 10, Calls: []scripted.Call{notch("c1", "a")}}, scripted.Reply{Text: long, Piece: 64 << 10})
		b.Window = 10 << 20
		b.wantAnswer("hello", "") // too long for the last event
		said := 0
		for _, e := range b.events {
			if e.Kind == turn.TextDelta {
				said += len(e.Text)
			}
		}
		if said < 2*len(long) {
			t.Errorf("%d bytes were emitted of %d", said, 2*len(long))
		}
		if n := len(b.asked(1).Body); n > 200<<10 {
			t.Errorf("%d bytes are sent back", n)
		}
	})
}

func TestCheckResult(t *testing.T) {
	t.Run("nothing may be asked", func(t *testing.T) {
		b := newFixture(t, "anthropic", scripted.Reply{Text: "never"})
		b.outlook = react.CheckResult{Over: "the budget of the day is used up"}
		if err := b.run("hello", false); err != nil {
			t.Fatal(err)
		}
		if d := b.done(); d.Cut != b.outlook.Over || len(b.server.Asked()) != 0 {
			t.Errorf("%+v", d)
		}
	})
	t.Run("money is short", func(t *testing.T) {
		b := newFixture(t, "openai", scripted.Reply{Calls: []scripted.Call{notch("c1", "a")}}, scripted.Reply{Text: "ok"})
		b.outlook = react.CheckResult{Low: true, Notes: []string{"2 messages wait."}}
		b.wantAnswer("hello", "ok")
		if q := b.asked(1); q.Model != "low" || strings.Count(string(q.Body), "2 messages wait.") != 1 || !strings.HasSuffix(b.asked(0).Last().Text, "[2 messages wait.]") {
			t.Errorf("%s", q.Body)
		}
	})
	t.Run("short money halves what a run may take", func(t *testing.T) {
		b := newFixture(t, "openai", scripted.Reply{Calls: []scripted.Call{notch("c1", "a"), notch("c2", "b"), notch("c3", "c")}},
			scripted.Reply{Calls: []scripted.Call{notch("c4", "d")}}, scripted.Reply{Text: "never"})
		b.MaxCalls, b.MaxTools, b.MaxOutput = 4, 4, 3000
		b.outlook = react.CheckResult{Low: true}
		if err := b.run("hello", false); err != nil {
			t.Fatal(err)
		}
		if n := len(b.server.Asked()); n != 2 || len(b.notched) != 2 {
			t.Errorf("%d questions, and %d calls were run", n, len(b.notched))
		}
		if body := string(b.asked(1).Body); !strings.Contains(body, "1500") || strings.Contains(body, "3000") || !strings.Contains(body, "your last answer") {
			t.Errorf("%s", body)
		}
	})
	t.Run("a run that made its calls already has its last words", func(t *testing.T) {
		b := newFixture(t, "openai", scripted.Reply{Calls: []scripted.Call{notch("c1", "a")}}, scripted.Reply{Calls: []scripted.Call{notch("c2", "b")}},
			scripted.Reply{Calls: []scripted.Call{notch("c3", "c")}}, scripted.Reply{Text: "that was it"})
		b.MaxCalls = 6
		b.Check = func(context.Context) (react.CheckResult, error) {
			return react.CheckResult{Low: len(b.notched) == 3}, nil
		}
		b.wantAnswer("hello", "that was it")
		if body := string(b.asked(3).Body); !strings.Contains(body, "your last answer") {
			t.Errorf("it was not told: %s", body)
		}
	})
	t.Run("the turn is another's", func(t *testing.T) {
		b := newFixture(t, "anthropic", scripted.Reply{Calls: []scripted.Call{notch("c1", "a")}})
		stale := errors.New("stale")
		looks := 0
		b.Check = func(context.Context) (react.CheckResult, error) {
			if looks++; looks > 1 {
				return react.CheckResult{}, stale
			}
			return react.CheckResult{}, nil
		}
		if err := b.run("hello", false); !errors.Is(err, stale) || len(b.notched) != 0 {
			t.Errorf("%v, ran %d", err, len(b.notched))
		}
	})
}

// A loop that is stopped in the middle of an answer ends at once, without Done.
func TestStopped(t *testing.T) {
	eachAPI(t, func(t *testing.T, api string) {
		hold := make(chan struct{})
		defer close(hold)
		b := newFixture(t, api)
		ctx, cancel := context.WithCancelCause(t.Context())
		defer cancel(nil)
		stopped := errors.New("stopped")
		b.server.Script = func(scripted.Request) scripted.Reply {
			cancel(stopped)
			return scripted.Reply{Text: "never", Hold: hold}
		}
		if err := b.runContext(ctx, "hello", false); !errors.Is(err, stopped) {
			t.Errorf("%v", err)
		}
		for _, e := range b.events {
			if e.Kind == turn.Done || e.Kind == turn.Error {
				t.Errorf("%+v", e)
			}
		}
	})
}

// For models that think, the limit of an answer has another name.
func TestOutputLimitMember(t *testing.T) {
	for model, key := range map[string]string{
		"gpt-4o": "max_tokens", "llama3.1": "max_tokens", "openchat": "max_tokens",
		"o3-mini": "max_completion_tokens", "gpt-5.2": "max_completion_tokens",
	} {
		b := newFixture(t, "openai", scripted.Reply{Text: "ok"})
		b.Names.Usual = model
		b.wantAnswer("hello", "ok")
		if !strings.Contains(string(b.asked(0).Body), fmt.Sprintf("%q:8192", key)) {
			t.Errorf("%s: %s", model, b.asked(0).Body)
		}
	}
}

// After ask nothing more needs to be said and Rest is not called: the turn waits.
func TestEmptyAnswerAfterAsk(t *testing.T) {
	b := newFixture(t, "anthropic", scripted.Reply{Calls: []scripted.Call{{ID: "c1", Name: "ask", Args: "{}"}}}, scripted.Reply{})
	b.wantAnswer("hello", "")
	if b.rests != 0 || len(b.server.Asked()) != 2 {
		t.Errorf("rests %d, asked %d", b.rests, len(b.server.Asked()))
	}

	// The next attempt continues with the reply, and has its own number of calls.
	b.MaxCalls = 1
	b.server.Script = scripted.Replies(scripted.Reply{Text: "They say blue."})
	b.wantAnswer("You asked @dorlange3120: blue", "They say blue.")
	q := b.asked(2)
	if len(q.Messages) != 3 || q.Messages[0].Text != "hello" || !strings.HasPrefix(q.Last().Text, "You asked @dorlange3120") {
		t.Errorf("%+v", q.Messages)
	}
}
