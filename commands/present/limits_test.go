package present

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"agentstateloop/commands/terminal"
	"agentstateloop/cycle"
	"agentstateloop/cycle/replay"
	"agentstateloop/cycle/view"
	"agentstateloop/internal/testkit/limittest"
	"agentstateloop/state"
)

func TestTextLimits(t *testing.T) {
	x := func(n int64) string { return strings.Repeat("x", int(n)) }
	now := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	limittest.Run(t, []limittest.Limit{
		{Const: "quotedWords", Max: 120, Within: func(t *testing.T, n int64) bool { return inQuotes(x(n)) == `"`+x(n)+`"` }},
		{Const: "eventsWidth", Max: 80, Within: func(t *testing.T, n int64) bool {
			line := func(n int) string {
				return Event(view.LiveEvent{At: now, Data: state.Details{Reason: x(int64(n))}}, now)
			}
			rest := utf8.RuneCountInString(line(1)) - 1
			return strings.HasSuffix(line(int(n)-rest), "x")
		}},
		{Const: "maxOwnText", Max: 300, Within: func(t *testing.T, n int64) bool {
			return strings.Contains(Explanation(cycle.Explanation{Outcome: cycle.AsMessage, Text: x(n)}, now), `"`+x(n)+`"`)
		}},
		{Const: "maxReplayed", Max: 100, Within: func(t *testing.T, n int64) bool {
			return strings.Contains(NewReplayStory(time.UTC).Add(replay.Entry{At: now, Kind: replay.Turn, Subject: x(n)}), `"`+x(n)+`"`)
		}},
		{Const: "maxObstacles", Max: 5, Within: func(t *testing.T, n int64) bool {
			text := Status(new(terminal.Output), view.Status{Obstacles: make([]string, n)}, "", false, now)
			return strings.Count(text, "FILE") == int(n) && !strings.Contains(text, "more: ")
		}},
	})
}
