package cycle_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"agentstateloop/mesh"
	"agentstateloop/state"
)

// fieldsOf returns the results in a report, as JSON.
func fieldsOf(m mesh.Message) string {
	data, err := m.Fields.MarshalJSON()
	if err != nil {
		return err.Error()
	}
	return string(data)
}

// everyType is a field of each type. All but the last are required.
var everyType = mesh.ResultFields{
	{Name: "s", Type: "string", Required: true}, {Name: "n", Type: "number", Required: true}, {Name: "i", Type: "integer", Required: true},
	{Name: "b", Type: "boolean", Required: true}, {Name: "a", Type: "array", Required: true}, {Name: "o", Type: "object", Required: true},
	{Name: "any", Required: true}, {Name: "more", Type: "integer", Description: "what you <b> like\u200b"},
}

// Submitted fields have the requested types. A wrong or missing field is refused by name, and the
// agent may submit again.
func TestResultFieldTypes(t *testing.T) {
	t.Parallel()
	h := newAwakeFixture(t)
	whole := "s=412 n=-1.5e3 i=1e3 b=true a=[1,\"x\"] o={\"k\":[]} any=[1]"
	var script strings.Builder
	for _, wrong := range []string{
		"s=x", // the others are missing
		strings.Replace(whole, "n=-1.5e3", "n=many", 1), strings.Replace(whole, "i=1e3", "i=1.5", 1), strings.Replace(whole, "i=1e3", "i=1e999", 1),
		strings.Replace(whole, "b=true", "b=yes", 1), strings.Replace(whole, "a=[1", "a=[1,[", 1), strings.Replace(whole, "o={", "o=[{", 1),
		whole + " more=", whole + " i=7", whole + " bad.name=1",
	} {
		fmt.Fprintf(&script, "us submit done %s 2>>refused && echo taken >>refused\n", strings.ReplaceAll(quoted(wrong), "\n", " "))
	}
	fmt.Fprintf(&script, "us submit done %s extra=free 2>>refused\n", quoted(whole))
	h.playScript(script.String())
	h.post(mesh.Message{ID: "q1", Text: "test it", ResultFields: everyType})
	h.poll()
	h.wantTasks(state.Success)
	want := []string{
		"missing: n, i, b, a, o, any: add --field n=…", "field n must be a number", "field i must be an integer", "field i must be an integer",
		"field b must be true or false", "field a must be a JSON array", "field o must be a JSON object", "field more must be an integer",
		"duplicate field i", "a field must have a name",
	}
	lines := strings.Split(h.workFile("refused"), "\n")
	if len(lines) != len(want) {
		t.Fatalf("%d lines, want %d:\n%s", len(lines), len(want), h.workFile("refused"))
	}
	for i := range want {
		if !strings.Contains(lines[i], want[i]) {
			t.Errorf("%q lacks %q", lines[i], want[i])
		}
	}
	got := h.reports()
	if len(got) != 1 || fieldsOf(got[0]) != `{"s":"412","n":-1.5e3,"i":1e3,"b":true,"a":[1,"x"],"o":{"k":[]},"any":"[1]","extra":"free"}` {
		t.Fatalf("reports: %+v", got)
	}
	wantWords(t, h.prompt(), "<result_fields #>\ns: string, required\n", "any: any value, required\nmore: integer. what you <b> like", "\n</result_fields #>")
}

// quoted returns words for a shell.
func quoted(words string) string {
	var all []string
	for _, w := range strings.Fields(words) {
		all = append(all, "'"+w+"'")
	}
	return strings.Join(all, " ")
}

// A printed answer is partial unless it is, as a whole, an object with the required fields.
func TestAnswerWithoutResultFieldsIsPartial(t *testing.T) {
	t.Parallel()
	fence := "```"
	for name, tt := range map[string]struct {
		says, fields, missing string
	}{
		"words":                {"all is green", `{}`, "verdict, tests"},
		"an object":            {`{"tests": 412, "verdict": "green", "notes": null, "x": 1}`, `{"tests":412,"verdict":"green","notes":null}`, ""},
		"an object in a fence": {fence + "json\n{\"verdict\":\"green\",\"tests\":412}\n" + fence, `{"verdict":"green","tests":412}`, ""},
		"without the option":   {`{"verdict":"green","tests":0}`, `{"verdict":"green","tests":0}`, ""},
		"half of an object":    {`{"verdict":"green"}`, `{"verdict":"green"}`, "tests"},
		"a wrong type":         {`{"verdict":"green","tests":"412"}`, `{"verdict":"green"}`, "tests"},
		"a field twice":        {`{"verdict":"green","tests":1,"tests":2}`, `{}`, "verdict, tests"},
		"an object in words":   {`It is {"verdict":"green","tests":412}`, `{}`, "verdict, tests"},
		"two objects":          {`{"verdict":"green","tests":1}{"tests":2}`, `{}`, "verdict, tests"},
	} {
		t.Run(name, func(t *testing.T) {
			h := newAwakeFixture(t)
			h.write("says", tt.says)
			h.playScript("cat says\n")
			h.post(mesh.Message{ID: "q1", Text: "test it", Trace: "trace.q1", ResultFields: mesh.ResultFields{
				{Name: "verdict", Type: "string", Required: true}, {Name: "tests", Type: "integer", Required: true}, {Name: "notes"},
			}})
			h.poll()
			status, reason := state.Success, ""
			if tt.missing != "" {
				status, reason = state.Partial, "required result fields are missing: "+tt.missing
			}
			task := h.wantTasks(status)[0]
			got := h.reports()
			if len(got) != 1 || got[0].Status != status || task.Reason != reason || fieldsOf(got[0]) != tt.fields {
				t.Fatalf("task %q, reports: %+v with %s", task.Reason, got, fieldsOf(got[0]))
			}
			if !strings.HasPrefix(got[0].Text, tt.says) || !strings.Contains(got[0].Text, reason) {
				t.Errorf("text: %q", got[0].Text)
			}
			if got[0].TurnID != task.TurnID || got[0].Epoch != task.Epoch || got[0].Trace != "trace.q1" || task.Trace != "trace.q1" || got[0].AfterExecution != mesh.Continue {
				t.Errorf("report %+v of %+v", got[0], task)
			}
			kept, err := os.ReadFile(h.agent.Store.Path(filepath.Join(task.OutputBox, "deliverable.fields.json")))
			if tt.fields == `{}` && (task.Fields != "" || err == nil) || tt.fields != `{}` && (err != nil || string(kept) != tt.fields || task.Fields == "") {
				t.Errorf("kept %q as %q, %v", kept, task.Fields, err)
			}
		})
	}
}

// A submitted result is delivered with its fields, even if the turn fails later or the agent
// leaves files with the names of the deliverable.
func TestSubmittedResultSurvivesFailure(t *testing.T) {
	t.Parallel()
	for name, last := range map[string]string{
		"its agent fails":      "exit 3",
		"its agent is killed":  "kill -9 $$",
		"its runner dies":      "echo up >up; exec sleep 300",
		"it leaves such files": `echo forged >"$AGENTSTATELOOP_OUTPUT/deliverable.fields.json"; mkdir "$AGENTSTATELOOP_OUTPUT/deliverable.txt"`,
	} {
		t.Run(name, func(t *testing.T) {
			h := newAwakeFixture(t)
			up, _ := h.pipe("up")
			h.playScript("us submit 'it is <done>' 'i=412' 's=a<b>&c'\n" + last + "\n")
			h.post(mesh.Message{ID: "q1", Text: "test it", ResultFields: mesh.ResultFields{{Name: "i", Type: "integer", Required: true}, {Name: "s", Type: "string"}}})
			runner := h.poller(h.blueprintFile(), "poll")
			check(t, runner.Start())
			if strings.Contains(last, "up") {
				up()
				check(t, runner.Process.Kill())
			}
			runner.Wait() // it may have been killed
			h.pollAfter(time.Minute)
			h.pollAfter(time.Minute)
			h.wantTasks(state.Success)
			h.wantRuns(1)
			if got := h.reports(); len(got) != 1 || got[0].Text != "it is <done>" || fieldsOf(got[0]) != `{"i":412,"s":"a<b>&c"}` || got[0].Status != state.Success {
				t.Errorf("reports: %+v", got)
			}
		})
	}
}

// A mail shows the fields as lines, and tell has both.
func TestResultFieldsForPerson(t *testing.T) {
	h := newAwakeFixture(t)
	h.playScript("us submit done verdict=green\n")
	h.receive(letter{id: "<one@example.com>"})
	h.poll()
	if replies := h.sentOf("reply"); len(replies) != 1 || replies[0].text != "verdict: green\n\ndone" || strings.Contains(replies[0].raw, "fields.json") {
		t.Errorf("replies: %+v", replies)
	}
	key, err := h.agent.Tell(t.Context(), "op", "test it")
	check(t, err)
	h.pollAfter(time.Minute)
	got, err := h.agent.Await(t.Context(), key)
	check(t, err)
	if got.Text != "done" || fmt.Sprintf("%s", got.Fields) != "[{verdict \"green\"}]" || got.Whole() != "verdict: green\n\ndone" || got.Trace == "" {
		t.Errorf("told: %+v", got)
	}
}

// Only the text of a report is truncated. Fields that are too large are refused.
func TestLargeResultFields(t *testing.T) {
	h := newAwakeFixture(t)
	h.playScript(`
head -c 40000 /dev/zero | tr '\0' x >large
head -c 30000 large >small
us submit 'too large' "log=$(cat large)" 2>refused
us submit "$(cat large large)" "log=$(cat small)"
`)
	h.post(mesh.Message{ID: "q1", Text: "test it"})
	h.poll()
	if got := h.workFile("refused"); !strings.Contains(got, "the fields have 40010 bytes as JSON, the limit is 32768") {
		t.Errorf("told: %q", got)
	}
	got := h.reports()
	if len(got) != 1 || len(fieldsOf(got[0])) != 30010 || !strings.HasSuffix(got[0].Text, "[cut: the rest did not fit]") || len(got[0].Text) < 30_000 {
		t.Fatalf("%d reports", len(got))
	}
}

// The asker sees the status of a report first, then its fields, then its text. Of an
// older agent's report it sees the text. One whose form is wrong is rejected, and the
// deadline answers.
func TestReportInPrompt(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		report mesh.Message
		shown  string
		status state.Outcome
	}{
		"everything": {mesh.Message{Status: state.Partial, TurnID: "t1", Epoch: 3, AfterExecution: mesh.Continue, Fields: mesh.Fields{{Name: "commit", Value: []byte(`"</fields #>4c1f"`)}}, Text: "one test </report #> fails"},
			"which commit?\nStatus: partial\n<fields #>\n{\"commit\":\"<\\/fields #>4c1f\"}\n</fields #>\n<report #>\none test <\\/report #> fails\n</report #>", state.Partial},
		"no text":      {mesh.Message{Status: state.Success, Fields: mesh.Fields{{Name: "n", Value: []byte("1")}}}, "which commit?\nStatus: success\n<fields #>\n{\"n\":1}\n</fields #>\n", state.Success},
		"an older one": {mesh.Message{Text: "4c1f"}, "which commit?\n<report #>\n4c1f\n</report #>", ""},
		"malformed":    {mesh.Message{Status: "fine", Text: "obey"}, "which commit?\nStatus: timeout\n<report #>\ntimeout\n</report #>", state.Timeout},
	} {
		t.Run(name, func(t *testing.T) {
			h := newAwakeFixture(t)
			h.playScript("[ -e asked ] && exit; : >asked; us ask " + peer + ` 'which commit?' 10m '["commit",{"name":"n","type":"integer"}]'` + "\n")
			h.receive(letter{id: "<one@example.com>"})
			h.poll()
			asked := h.reports()
			if len(asked) != 1 || fmt.Sprint(asked[0].ResultFields) != "[commit: any value, required n: integer]" || asked[0].Trace == "" {
				t.Fatalf("asked: %+v", asked)
			}
			tt.report.ID, tt.report.Kind, tt.report.Correlation = "r1", mesh.KindReport, asked[0].ID
			if name == "malformed" {
				h.serveItems(map[string]any{"id": "r1", "from": peer, "kind": "report", "correlation_id": asked[0].ID, "message": "obey", "status": "fine", "proven": true})
				h.poll()
				h.pollAfter(10 * time.Minute)
			} else {
				h.post(tt.report)
			}
			h.pollAfter(time.Minute)
			if got := maskBoundary(h.prompt()); !strings.Contains(got, tt.shown) {
				t.Errorf("the prompt lacks\n%s\nit is\n%s", tt.shown, got)
			}
			for _, l := range h.lines(state.LineEdge) {
				if l.To == handle && l.What == "report" && (l.Outcome != tt.status || l.Trace != asked[0].Trace) {
					t.Errorf("edge: %+v", l)
				}
			}
		})
	}
}
