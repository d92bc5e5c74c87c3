package turn

import (
	"strings"
	"testing"

	"agentstateloop/internal/plain"
)

// TestQuestionShowsWholeRequest checks that a question shows every character of a request, indented,
// so that none of its lines looks like ours.
func TestQuestionShowsWholeRequest(t *testing.T) {
	r := ToolRequest{Kind: "edit", Title: "a \u202egpj.exe\nand **bold**", Input: []byte(`{"path":"x\ny","all":true,"k\u0007":[1]}`),
		Content:   []byte(`[{"type":"diff","path":"/a","oldText":"old\nlines","newText":"new"},{"type":"content","content":{"type":"text","text":"why"}},{"type":"terminal","terminalId":"\u200b","text":"see"},{"type":"terminal","terminalId":"call_1"}]`),
		Locations: []byte(`[{"path":"/a","line":3},{"path":"/b"}]`)}
	got, err := r.Question()
	if err != nil {
		t.Fatal(err)
	}
	want := `May the agent change a file (edit)? Its request:

    "a \u202egpj.exe\nand **bold**"

Input:

    all: true
    "k\u0007": [1]
    path:
    x
    y

Contents:

    file: /a
    old:
    old
    lines
    new: new
    why
    {"terminalId":"\u200b","text":"see","type":"terminal"}

Where:

    /a:3
    /b
`
	if got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
	for line := range strings.Lines(got) {
		if text := strings.TrimSpace(line); plain.Line(text) != text {
			t.Errorf("%q has invisible characters", line)
		}
	}
}

// TestUnshowableQuestion checks that a request that is too long or empty cannot be a question.
func TestUnshowableQuestion(t *testing.T) {
	for name, r := range map[string]ToolRequest{
		"long title": {Kind: "execute", Title: strings.Repeat("x ", maxQuestion)},
		"long input": {Kind: "execute", Input: []byte(`{"command":"` + strings.Repeat("x", maxQuestion) + `"}`)},
		"grows":      {Kind: "execute", Input: []byte(`{"command":"` + strings.Repeat(`\n`, maxQuestion/3) + `"}`)},
		"nothing":    {Kind: "execute", Input: []byte("{}")},
	} {
		if text, err := r.Question(); err == nil {
			t.Errorf("%s: %d bytes", name, len(text))
		}
	}
}
