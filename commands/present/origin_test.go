package present

import (
	"strings"
	"testing"
	"time"

	"agentstateloop/state"
)

// wide fits every line.
type wide struct{}

func (wide) Fit(line string, _ int) string      { return line }
func (wide) FitWords(text string, _ int) string { return text }

// TestHistorySaysWhereAnOrderCameFrom checks the sentence of each line that an order on the page makes,
// and of the same order at the terminal.
func TestHistorySaysWhereAnOrderCameFrom(t *testing.T) {
	now := time.Date(2026, 11, 29, 9, 0, 0, 0, time.UTC)
	row := state.Message{Key: "mail:1", Source: state.Mail, Operator: true, Seq: 1}
	told := state.Message{Key: "cli:1", Source: state.CLI, Operator: true, From: state.PageUser("Anna"), Seq: 2}
	typed := told
	typed.From = "Anna"
	answer := func(from string) state.Line {
		return state.Line{Kind: state.LineEdge, What: state.WordReport, Key: "cli:2", Source: state.CLI, From: from, Request: "question.1"}
	}
	for _, test := range []struct {
		name  string
		lines []state.Line
		want  string // "" = no line for a reader
	}{
		{"a message", []state.Line{{Kind: state.LineMessage, Key: told.Key, Message: &told}}, `you, on the page: "the words"`},
		{"a message at the terminal", []state.Line{{Kind: state.LineMessage, Key: typed.Key, Message: &typed}}, `you: "the words"`},
		{"an answer", []state.Line{answer(state.PageUser("Anna"))}, "you answered on the page"},
		{"an answer at the terminal", []state.Line{answer("Anna")}, "you answered at the terminal"},
		{"a release", []state.Line{{Kind: state.LineQuarantine, What: state.WordReleased, Key: "mail:9", Reason: state.OnPage}}, "an item in quarantine released: on the page"},
		{"a release at the terminal", []state.Line{{Kind: state.LineQuarantine, What: state.WordReleased, Key: "mail:9", Reason: state.ByHand}}, "an item in quarantine released: by hand"},
		{"an item dropped", []state.Line{{Kind: state.LineQuarantine, What: state.WordDropped, Key: "mail:9", Reason: state.OnPage + ": spam"}}, "an item in quarantine dropped: on the page: spam"},
		{"a message dropped", []state.Line{{Kind: state.LineEnded, What: state.Word(state.Skipped), Key: "mail:1", Reason: state.OnPage}}, "a message was dropped: on the page"},
		{"a retry", []state.Line{{Kind: state.LineMessage, What: state.WordRetried, Key: row.Key, Message: &row, Reason: state.OnPage}}, `queued again on the page: "the words"`},
		{"a retry at the terminal", []state.Line{{Kind: state.LineMessage, What: state.WordRetried, Key: row.Key, Message: &row}}, `queued again: "the words"`},
		{"a retry of a waiting message", []state.Line{{Kind: state.LineMessage, Key: row.Key, Message: &row}, {Kind: state.LineNote, What: state.WordRetried, Key: row.Key, Reason: state.OnPage}}, `queued again on the page: "the words"`},
		{"a retry of an unknown message", []state.Line{{Kind: state.LineNote, What: state.WordRetried, Key: "mail:8", Reason: state.OnPage}}, "a message was queued again on the page"},
		{"a wakeup", []state.Line{{Kind: state.LineSleep, What: state.WordRetried, Key: "self:1", Reason: state.OnPage}}, "a message was queued again on the page"},
		{"a wakeup at the terminal", []state.Line{{Kind: state.LineSleep, What: state.WordRetried, Key: "self:1"}}, ""},
		{"a stop", []state.Line{{Kind: state.LineTurn, What: state.WordStop, Reason: state.OnPage + ": wrong"}}, "its turn was stopped: on the page: wrong"},
		{"HALT", []state.Line{{Kind: state.LineHalt, What: state.WordHalt, From: "here", Reason: state.OnPage}}, "HALT: on the page"},
		{"GO", []state.Line{{Kind: state.LineHalt, What: state.WordGo, From: "here", Reason: state.OnPage}}, "GO: on the page"},
	} {
		reader := NewHistoryReader(now, wide{}, func(state.Message) (string, bool) { return "the words", true })
		got := ""
		for _, l := range test.lines {
			l.At, got = now, ""
			if text := reader.Line(l); text != nil {
				got = text()
			}
		}
		if test.want == "" && got != "" || !strings.HasSuffix(strings.TrimSuffix(got, "\n"), test.want) {
			t.Errorf("%s: %q, want %q", test.name, got, test.want)
		}
	}
}
