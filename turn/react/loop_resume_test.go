package react_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"agentstateloop/internal/testkit/scripted"
	"agentstateloop/turn/react"
)

// carverModel is a model that cuts three notches, one after the other. It learns from the
// conversation alone which of them exist. It does not cut one that may exist.
func carverModel(q scripted.Request) scripted.Reply {
	places := []string{"left", "middle", "right"}
	cut := map[string]bool{}
	at := map[string]string{}
	for _, m := range q.Messages {
		for _, c := range m.Calls {
			var args struct{ At string }
			json.Unmarshal([]byte(c.Args), &args)
			at[c.ID] = args.At
		}
		for _, r := range m.Results {
			if !strings.Contains(r.Text, "Not run:") {
				cut[at[r.ID]] = true
			}
		}
	}
	for _, p := range places {
		if !cut[p] {
			return scripted.Reply{Text: "Now " + p + ".", Calls: []scripted.Call{notch(fmt.Sprintf("c%d", q.Number), p)}}
		}
	}
	return scripted.Reply{Text: "Three are cut."}
}

// TestResume truncates the steps of a run after every line and within every line, like a kill or a
// power failure, and resumes.
func TestResume(t *testing.T) {
	t.Parallel()
	eachAPI(t, func(t *testing.T, api string) {
		whole := newFixture(t, api)
		whole.server.Script = carverModel
		whole.wantAnswer("Cut three.", "Three are cut.")
		steps, err := os.ReadFile(filepath.Join(whole.turn, "1", "steps.jsonl"))
		if err != nil {
			t.Fatal(err)
		}
		lines := bytes.SplitAfter(steps, []byte("\n"))
		lines = lines[:len(lines)-1]
		if len(lines) != 11 {
			t.Fatalf("%d steps:\n%s", len(lines), steps)
		}
		for n := range len(lines) + 1 {
			for _, torn := range []bool{false, true} {
				if torn && n == len(lines) {
					continue
				}
				left := bytes.Join(lines[:n], nil)
				if torn {
					left = append(left, lines[n][:len(lines[n])/2]...)
				}
				resume(t, api, fmt.Sprintf("after %d lines, torn %v", n, torn), left, n == len(lines))
			}
		}
	})
}

// resume continues from truncated steps, with those notches cut that these steps allow. Complete
// steps have the answer.
func resume(t *testing.T, api, name string, left []byte, finished bool) {
	b := newFixture(t, api)
	b.server.Script = carverModel
	b.epoch = 1
	if err := os.Mkdir(filepath.Join(b.turn, "1"), 0o700); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(b.turn, "1", "steps.jsonl"), string(left))
	begun := bytes.Count(left, []byte(`"kind":"call"`))
	ended := bytes.Count(left, []byte(`"kind":"result"`))
	if err := b.run("Cut three.", true); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	if d := b.done(); d.Text != "Three are cut." || d.Failed || d.Cut != "" {
		t.Errorf("%s: %+v", name, d)
	}
	if len(b.notched) != 3-begun {
		t.Errorf("%s: ran %q, though %d ran before", name, b.notched, begun)
	}
	if finished {
		if n := len(b.server.Asked()); n != 0 {
			t.Errorf("%s: the answer was there, and the model was asked %d times", name, n)
		}
		return
	}
	last := b.server.Asked()[len(b.server.Asked())-1]
	if unknown := strings.Contains(string(last.Body), "Unknown: the work was interrupted"); unknown != (begun > ended) {
		t.Errorf("%s: the model read of an unknown result: %v", name, unknown)
	}
	if len(bytes.TrimSpace(left)) > 0 && strings.Contains(string(left), "\n") && !strings.Contains(string(last.Body), "Your work was interrupted here") {
		t.Errorf("%s: the model did not read that it was interrupted", name)
	}
	b.checkRequests()
}

// An attempt that died before it had steps does not hide earlier steps, and no attempt writes into
// the steps of another.
func TestResumeSkipsEmptyAttempts(t *testing.T) {
	b := newFixture(t, "anthropic")
	b.server.Script = carverModel
	look := b.Check
	n := 0
	b.Check = func(ctx context.Context) (react.CheckResult, error) {
		if n++; n > 3 {
			return react.CheckResult{}, context.Canceled
		}
		return look(ctx)
	}
	if err := b.run("Cut three.", false); err == nil {
		t.Fatal("it went on")
	}
	b.Check = look
	first, err := os.ReadFile(filepath.Join(b.turn, "1", "steps.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	for epoch, leave := range map[int]string{2: "steps.jsonl.new", 3: "alive"} {
		dir := filepath.Join(b.turn, strconv.Itoa(epoch))
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(dir, leave), "{}")
	}
	b.epoch = 3
	if err := b.run("Cut three.", true); err != nil {
		t.Fatal(err)
	}
	if len(b.notched) != 3 {
		t.Errorf("ran %q", b.notched)
	}
	after, err := os.ReadFile(filepath.Join(b.turn, "1", "steps.jsonl"))
	if err != nil || !bytes.Equal(first, after) {
		t.Errorf("the first attempt's steps changed: %v", err)
	}
}

// Calls after the interrupted one of an answer were not started.
func TestResumeBetweenCalls(t *testing.T) {
	b := newFixture(t, "openai", scripted.Reply{Calls: []scripted.Call{notch("c1", "a"), notch("c2", "b"), notch("c3", "c")}})
	ctx, cancel := context.WithCancel(t.Context())
	run := b.Tools[0].Run
	b.Tools[0].Run = func(c context.Context, args json.RawMessage) (string, error) {
		if len(b.notched) == 1 {
			cancel()
		}
		return run(c, args)
	}
	if err := b.runContext(ctx, "cut", false); err == nil {
		t.Fatal("it went on")
	}
	b.server.Script = scripted.Replies(scripted.Reply{Text: "I see."})
	if err := b.run("cut", true); err != nil {
		t.Fatal(err)
	}
	var said []string
	for _, r := range b.asked(1).Messages[2].Results {
		said = append(said, strings.SplitN(strings.TrimPrefix(r.Text, "error: "), ":", 2)[0])
	}
	if want := []string{"notch 1", "Unknown", "Not run"}; !slices.Equal(said, want) {
		t.Errorf("the model read %q, want %q", said, want)
	}
	b.checkRequests()
}

// A turn that asked another agent and died before it was suspended has no reply yet. The model is
// informed that none will come.
func TestResumeAfterAsk(t *testing.T) {
	eachAPI(t, func(t *testing.T, api string) {
		b := newFixture(t, api,
			scripted.Reply{Calls: []scripted.Call{{ID: "c1", Name: "ask", Args: "{}"}}},
			scripted.Reply{Text: "I wait for the answer."},
			scripted.Reply{Text: "Nobody knows."})
		if err := b.run("which commit?", true); err != nil {
			t.Fatal(err)
		}
		if err := b.run("which commit?", true); err != nil {
			t.Fatal(err)
		}
		if d := b.done(); d.Text != "Nobody knows." {
			t.Errorf("%+v", d)
		}
		if told := b.asked(2).Last().Text; !strings.Contains(told, "Your open questions to other agents are lost") {
			t.Errorf("the model read %q", told)
		}
		b.checkRequests()
	})
}
