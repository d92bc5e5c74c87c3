package present

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"agentstateloop/commands/terminal"
	"agentstateloop/state"
)

// stateSource parses the package that writes history lines, and returns its files and the
// values of its string constants.
func stateSource(t *testing.T) (files []*ast.File, constants map[string]string) {
	t.Helper()
	names, err := filepath.Glob("../../state/*.go")
	if err != nil || len(names) < 20 {
		t.Fatal(names, err)
	}
	constants = map[string]string{}
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, f)
		ast.Inspect(f, func(n ast.Node) bool {
			if spec, ok := n.(*ast.ValueSpec); ok {
				for i, value := range spec.Values {
					if text, ok := stringValue(value, nil); ok {
						constants[spec.Names[i].Name] = text
					}
				}
			}
			return true
		})
	}
	return files, constants
}

// stringValue returns the value of an expression that is a literal, a constant, or a
// conversion of one.
func stringValue(e ast.Expr, constants map[string]string) (string, bool) {
	switch e := e.(type) {
	case *ast.BasicLit:
		text, err := strconv.Unquote(e.Value)
		return text, err == nil && e.Kind == token.STRING
	case *ast.Ident:
		text, ok := constants[e.Name]
		return text, ok
	case *ast.CallExpr:
		if f, ok := e.Fun.(*ast.Ident); ok && f.Name == "string" {
			return stringValue(e.Args[0], constants)
		}
	}
	return "", false
}

// lineWriters are the functions of the state that write a line of a kind, and the argument with its
// word.
var lineWriters = map[string]struct {
	kind     state.LineKind
	argument int
}{
	"turnLine": {state.LineTurn, 0}, "endEffect": {state.LineDelivery, 1}, "endHookCall": {state.LineDelivery, 1},
	"loseHookCall": {state.LineDelivery, 1}, "endUndelivered": {state.LineGivenUp, 1},
}

// TestEveryLineHasAFormatter checks that each kind of line, and each word of its lines, has an entry
// in formatters.
func TestEveryLineHasAFormatter(t *testing.T) {
	files, constants := stateSource(t)
	found := 0
	wantFormatter := func(kind state.LineKind, what string) {
		found++
		if _, ok := formatterOf(state.Line{Kind: kind, What: state.Word(what)}); !ok {
			t.Errorf("no formatter for lines %q with %q: add one to formatters", kind, what)
		}
	}
	kinds := 0
	for name, kind := range constants {
		if strings.HasPrefix(name, "Line") {
			kinds++
			if len(formatters()[state.LineKind(kind)]) == 0 {
				t.Errorf("no formatter for lines %q: add one to formatters", kind)
			}
		}
	}
	if kinds != len(formatters()) {
		t.Errorf("%d kinds of lines, and formatters has %d", kinds, len(formatters()))
	}
	for _, f := range files {
		ast.Inspect(f, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.CompositeLit:
				if name, ok := n.Type.(*ast.Ident); ok && name.Name == "Line" {
					checkLineLiteral(n, constants, wantFormatter)
				}
			case *ast.CallExpr:
				if f, ok := n.Fun.(*ast.SelectorExpr); ok {
					if w, ok := lineWriters[f.Sel.Name]; ok && len(n.Args) > w.argument {
						if what, ok := stringValue(n.Args[w.argument], constants); ok {
							wantFormatter(w.kind, what)
						}
					}
				}
			}
			return true
		})
	}
	if found < 90 {
		t.Errorf("the test finds only %d places that write lines", found)
	}
}

// checkLineLiteral calls check with the kind and the word of a literal of a line.
func checkLineLiteral(n *ast.CompositeLit, constants map[string]string, check func(state.LineKind, string)) {
	kind, what, known := "", "", true
	for _, e := range n.Elts {
		kv, ok := e.(*ast.KeyValueExpr)
		if !ok {
			continue
		}
		switch key := kv.Key.(*ast.Ident); key.Name {
		case "Kind":
			kind, _ = stringValue(kv.Value, constants)
		case "What":
			what, known = stringValue(kv.Value, constants)
		}
	}
	if kind != "" && known {
		check(state.LineKind(kind), what)
	}
}

// TestHistorySentences checks the sentence for each kind of line.
func TestHistorySentences(t *testing.T) {
	at := time.Date(2026, 11, 23, 3, 50, 0, 0, time.Local)
	mail := state.Message{Key: "mail:1", Source: state.Mail, From: "op@example.com", Operator: true, Observed: at}
	peer := state.Message{Key: "mesh:1", Source: state.Mesh, Kind: "ask", From: "dorlange3120", Proof: state.ByToken, Observed: at}
	forged := peer
	forged.Kind, forged.Proof = "message", state.ByNone
	limited := mail
	limited.Status, limited.Reason, limited.NextRetryAt = state.Deferred, "over the limit", at.Add(time.Hour)
	plan := state.Message{Key: "self:1", Source: state.Self, Kind: state.KindSleep, From: "a", Operator: true, MadeBy: "t1", NextRetryAt: at.Add(10 * time.Minute)}
	hostile := mail
	hostile.Key = "mail:2"
	words := func(m state.Message) (string, bool) {
		switch m.Key {
		case "mail:1":
			return "is the build green?", true
		case "mail:2":
			return "a\x1b[2J\u202eb\nc", true
		case "self:1":
			return "look at the build", true
		}
		return "", m.Key == "mesh:1"
	}
	for _, c := range []struct {
		lines []state.Line
		want  string
	}{
		{[]state.Line{{Kind: state.LineMessage, Key: "mail:1", Message: &mail}}, `03:50 you: "is the build green?"`},
		{[]state.Line{{Kind: state.LineMessage, Message: &limited, Key: "mail:1"}}, `03:50 you: "is the build green?", waits until 04:50: over the limit`},
		{[]state.Line{{Kind: state.LineMessage, Message: &peer}}, `03:50 dorlange3120 asked: (no text)`},
		{[]state.Line{{Kind: state.LineMessage, Message: &forged}}, `03:50 dorlange3120 (not proved): (no text)`},
		{[]state.Line{{Kind: state.LineMessage, Message: &plan}}, `03:50 sleeps until 04:00: "look at the build"`},
		{[]state.Line{{Kind: state.LineMessage, Message: &state.Message{Key: "gone", Operator: true}}}, `03:50 you: (no longer kept)`},
		{[]state.Line{{Kind: state.LineMessage, Message: &hostile}}, "03:50 you: \"a [2J�b c\""},
		{[]state.Line{
			{Kind: state.LineSpend, TurnID: "t1", Spending: &state.Spending{Cost: 10_000}},
			{Kind: state.LineSpend, TurnID: "t2", Spending: &state.Spending{Cost: 990_000}},
			{Kind: state.LineSpend, TurnID: "t1", Spending: &state.Spending{Cost: 10_000}},
			{Kind: state.LineTask, At: at.Add(4 * time.Second), TurnID: "t1", Outcome: state.Success, Row: &mail},
		}, `03:50 answered 03:50 "is the build green?" after 4 s, $0.02`},
		{[]state.Line{{Kind: state.LineTask, At: at.Add(65 * time.Second), Outcome: state.Success, Row: &peer}}, `03:51 answered dorlange3120 03:50 after 1m5s`},
		{[]state.Line{{Kind: state.LineTask, At: at, Outcome: state.Failed, Reason: "exit status 1\n", Row: &mail}}, `03:50 failed on 03:50 "is the build green?" after 0 s: exit status 1`},
		{[]state.Line{{Kind: state.LineTask, At: at, Outcome: state.Success, Row: &mail, Collected: []state.Message{mail, mail}}}, `03:50 answered 3 messages, the first of 03:50 "is the build green?" after 0 s`},
		{[]state.Line{{Kind: state.LineTask, At: at.Add(11 * time.Minute), Outcome: state.Success, Row: &plan}}, `04:01 carried out its plan for 04:00 "look at the build" after 1m`},
		{[]state.Line{{Kind: state.LineTransition, Old: state.PREP, New: state.IDLE, Reason: "silence"}}, `03:50 going quiet`},
		{[]state.Line{{Kind: state.LineTransition, Old: state.IDLE, New: state.PREP, Reason: "by hand: two"}}, `03:50 awake, PREP: by hand: two`},
		{[]state.Line{{Kind: state.LineTransition, Old: state.IDLE, New: state.PREP, Reason: "operator message"}}, ``},
		{[]state.Line{
			{Kind: state.LineGate, Key: "mail:9", Source: state.Mail, From: "mallory@example.net", Gate: "trust", Reason: "dmarc=fail: mx; dmarc=fail", Number: 3},
			{Kind: state.LineQuarantine, What: "released", Key: "mail:9", Reason: "by hand"},
		}, "03:50 mail from mallory@example.net quarantined as q3: dmarc=fail\n03:50 q3 released: by hand"},
		{[]state.Line{{Kind: state.LineGate, What: "not kept", Count: 7, Gate: "list", Source: state.Mail}}, `03:50 7 more items rejected without a copy: gate list`},
		{[]state.Line{{Kind: state.LineNumber, Key: "mail:8", Number: 2}, {Kind: state.LineFetch, What: "failing", Key: "mail:8", Reason: "NO"}}, `03:50 a mail (f2) cannot be fetched: NO`},
		{[]state.Line{{Kind: state.LineHalt, What: "halt", From: "mesh", Reason: "x"}}, `03:50 HALT by the mesh: x`},
		{[]state.Line{{Kind: state.LineControl, What: "STATUS"}}, `03:50 you: STATUS`},
		{[]state.Line{{Kind: state.LineRecovery, Reason: "state.json is missing"}}, `03:50 state restored: state.json is missing`},
		{[]state.Line{{Kind: state.LineEffect, What: "queued", Effect: &state.Effect{Kind: state.Question, To: "bob", Text: "which?"}}}, `03:50 asked bob: "which?"`},
		{[]state.Line{{Kind: state.LineEffect, What: "queued", Effect: &state.Effect{Kind: state.OperatorQuestion, To: "op@example.com", Text: "May I?", Options: []string{"yes", "no"}}}}, `03:50 asked you: "May I?" (yes, no)`},
		{[]state.Line{{Kind: state.LineEdge, What: "report", Key: "m2", Source: state.Mail, From: "op", Request: "question.1", Response: "m2"}}, `03:50 you answered by mail`},
		{[]state.Line{{Kind: state.LineEdge, What: "report", Key: "m2", Source: state.CLI, From: "op", Request: "question.1", Response: "m2"}}, `03:50 you answered at the terminal`},
		{[]state.Line{{Kind: state.LineEdge, What: "report", From: "op", Request: "question.1", Response: "timeout"}}, `03:50 no answer from you: it continues without one`},
		{[]state.Line{{Kind: state.LineEdge, What: "report", From: "op", Request: "question.1", Response: "timeout: superseded"}}, `03:50 its question to you was closed: you wrote about something else`},
		{[]state.Line{{Kind: state.LineEdge, What: "report", From: "bob", To: "a", Request: "ask.1", Response: "r", Outcome: state.Success}}, `03:50 bob reported: success`},
		{[]state.Line{{Kind: state.LineEdge, What: "report", From: "bob", To: "a", Request: "ask.1", Response: "timeout"}}, `03:50 no answer from bob`},
		{[]state.Line{{Kind: state.LineDelivery, What: "undeliverable", ID: "reply.t1", Reason: "554 no"}}, `03:50 gave up sending: answer: 554 no`},
		{[]state.Line{{Kind: state.LineSleep, What: "asked", Reason: "until " + at.Add(2*time.Hour).UTC().Format(time.RFC3339)}}, `03:50 asked to rest until 05:50`},
		{[]state.Line{{Kind: state.LinePrompt, What: "missed", From: "ci", Reason: "the machine was off at " + at.UTC().AddDate(0, 0, -1).Format("2006-01-02 15:04 UTC")}}, `03:50 the prompt ci was missed: the machine was off at 2026-11-22 03:50`},
		{[]state.Line{{Kind: "of tomorrow", What: "begun", Reason: "x"}}, `03:50 of tomorrow begun x`},
		{[]state.Line{{Kind: state.LineHalt, What: "go", At: at.AddDate(0, 0, 1)}, {Kind: state.LineHalt, What: "go", At: at.AddDate(0, 0, 1)}}, "Tuesday, 2026-11-24\n03:50 GO\n03:50 GO"},
	} {
		var out strings.Builder
		reader := NewHistoryReader(at, new(terminal.Output), words)
		for _, l := range c.lines {
			if l.At.IsZero() {
				l.At = at
			}
			if text := reader.Line(l); text != nil {
				out.WriteString(text())
			}
		}
		if got := strings.TrimSuffix(out.String(), "\n"); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}

// TestFormattersAcceptEmptyLines calls every formatter with a line that has only its kind and its
// word.
func TestFormattersAcceptEmptyLines(t *testing.T) {
	for kind, whats := range formatters() {
		for what, format := range whats {
			got := NewHistoryReader(time.Time{}, nil, nil).record(state.Line{Kind: kind, What: state.Word(what)})
			if format == nil && got.text != "" {
				t.Errorf("%s %s: %q", kind, what, got.text)
			}
		}
	}
}
