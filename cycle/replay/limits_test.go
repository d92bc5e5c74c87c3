package replay

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"agentstateloop/internal/testkit/limittest"
	"agentstateloop/state"
)

// noon is the time of the history lines here.
var noon = time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC)

// turnLines are the history lines of a turn.
func turnLines(n int, took time.Duration, cost state.Micros, model string) []state.Line {
	id, began := fmt.Sprint("t", n), noon.Add(time.Duration(n)*time.Hour)
	lines := []state.Line{{Kind: state.LineTurn, What: state.WordRunning, TurnID: id, At: began}}
	if cost > 0 {
		lines = append(lines, state.Line{Kind: state.LineSpend, TurnID: id, At: began, Spending: &state.Spending{Cost: cost, Model: model}})
	}
	return append(lines, state.Line{Kind: state.LineTask, TurnID: id, At: began.Add(took), Outcome: state.Success})
}

// assume returns the figures for a history.
func assume(t *testing.T, lines []state.Line, free bool) Assumed {
	t.Helper()
	a, err := Assume(func(yield func(state.Line, error) bool) {
		for _, l := range lines {
			if !yield(l, nil) {
				return
			}
		}
	}, free)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func TestLimits(t *testing.T) {
	limittest.Run(t, []limittest.Limit{
		{Const: "lastTurns", Max: 500, Within: func(t *testing.T, n int64) bool {
			var lines []state.Line
			for i := range int(n) {
				lines = append(lines, turnLines(i, time.Minute, state.Dollar, "opus")...)
			}
			return assume(t, lines, false).Normal.Turns == int(n)
		}},
		{Const: "maxMore", Max: int64(24 * time.Hour), Within: func(t *testing.T, n int64) bool {
			p := player{Options: Options{To: noon}, state: state.State{Timers: state.Timers{Phase: state.ACTIVE}}}
			return !p.over(noon.Add(time.Duration(n) - 1))
		}},
	})
}

// The figures are the medians of the turns that succeeded with the model of the last of these, apart for
// the time in which money was short. A turn that failed does not count, nor the time between attempts.
func TestFiguresOfTheHistory(t *testing.T) {
	var lines []state.Line
	for n, d := range []time.Duration{time.Hour, 50 * time.Second, 40 * time.Second, 9 * time.Minute} {
		model := "opus"
		if n == 0 {
			model = "sonnet"
		}
		lines = append(lines, turnLines(n, d, state.Micros(n+1)*state.Dollar, model)...)
	}
	lines = append(lines, state.Line{Kind: state.LineTier, What: state.Word(state.TierLow)})
	lines = append(lines, turnLines(9, 5*time.Second, state.Dollar/100, "haiku")...)
	lines = append(lines, state.Line{Kind: state.LineTier, What: state.Word(state.TierNormal)})
	for n, outcome := range []state.Outcome{state.Failed, state.Timeout, state.Canceled} {
		failed := turnLines(10+n, time.Second, 0, "")
		failed[1].Outcome = outcome
		lines = append(lines, failed...)
	}
	i := slices.IndexFunc(lines, func(l state.Line) bool { return l.TurnID == "t1" && l.Kind == state.LineTask })
	for n, what := range []state.Word{state.WordSuspended, state.WordReaped, state.WordGivenBack} { // a day passes between its attempts
		at := lines[i].At.Add(time.Duration(n-3) * 10 * time.Second)
		lines[i].At = lines[i].At.Add(24 * time.Hour)
		lines = slices.Insert(lines, i, state.Line{Kind: state.LineTurn, What: what, TurnID: "t1", At: at},
			state.Line{Kind: state.LineTurn, What: state.WordRunning, TurnID: "t1", At: at.Add(24 * time.Hour)})
		i += 2
	}
	got := assume(t, lines, false)
	opus := Figure{Time: 50 * time.Second, Cost: 3 * state.Dollar, Model: "opus", Turns: 3}
	want := Assumed{Normal: opus, Low: Figure{Time: 5 * time.Second, Cost: state.Dollar / 100, Model: "haiku", Turns: 1}}
	if got != want {
		t.Errorf("got %+v\nwant %+v", got, want)
	}
	if got.Of(state.TierNormal) != want.Normal || got.Of(state.TierCritical) != want.Low {
		t.Error("a tier has the figure of another")
	}
	first := Figure{Time: assumedTime, Cost: assumedCost}
	if got := assume(t, nil, false); got != (Assumed{first, first}) {
		t.Errorf("without a history %+v", got)
	}
	if got := assume(t, nil, true); got.Normal.Cost != 0 {
		t.Errorf("a script costs %v", got.Normal.Cost)
	}
	cost := state.Dollar
	got.Fix(nil, &cost)
	opus.Cost, opus.CostFixed = cost, true
	if got.Normal != opus || got.Low.Cost != cost {
		t.Errorf("with a cost %+v", got)
	}
	if ofTime, ofCost := got.Normal.Sources(); ofTime != FromHistory || ofCost != FromFlag {
		t.Errorf("the time is from the %s, the cost from the %s", ofTime, ofCost)
	}
	if ofTime, _ := first.Sources(); ofTime != FromDefault {
		t.Errorf("the assumed time is from the %s", ofTime)
	}
}

func TestWaits(t *testing.T) {
	var waits []time.Duration
	for n := range 10 {
		waits = append(waits, time.Duration(10-n)*time.Minute)
	}
	if got, want := waitsOf(waits), (Wait{10, 5 * time.Minute, 9 * time.Minute, 10 * time.Minute}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if got := waitsOf([]time.Duration{time.Second}); got != (Wait{1, time.Second, time.Second, time.Second}) {
		t.Errorf("of one %+v", got)
	}
	if got := waitsOf(nil); got != (Wait{}) {
		t.Errorf("of none %+v", got)
	}
}

// A mail comes at the time of its topmost Received field, or else of its file, or else of Date.
// Oddities are counted, and the mails are sorted.
func TestTimesOfMails(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	const (
		received = "Received: by b; Mon, 2 Mar 2026 11:00:00 +0100 (CET)\nReceived: by a; Mon, 2 Mar 2026 09:00:00 +0000\n"
		date     = "Date: Mon, 2 Mar 2026 08:00:00 +0000\n"
		rest     = "Subject: x\n\nhello\n"
	)
	stamp := noon.Add(-time.Hour).Unix()
	write(fmt.Sprintf("box/cur/%d.1.host:2,S", stamp), received+date+rest)
	write(fmt.Sprintf("box/cur/%d.2.host", stamp), date+rest)
	write("box/new/name.of.another.form", date+rest)
	write("box/new/undated", rest)
	write("box/new/future", "Date: Mon, 2 Mar 2026 12:00:01 +0000\n"+rest)
	write("in.mbox", "From x Mon Mar  2 07:30:00 2026\n"+date+rest+"\nFrom x Mon Mar  2 06:30:00 2026\n"+rest)
	ms, err := Find(t.Context(), []string{filepath.Join(dir, "box"), filepath.Join(dir, "in.mbox")}, 1<<20, noon, func(_ string, why error) error { return why })
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, m := range ms.all {
		got = append(got, m.At.UTC().Format("15:04"))
	}
	if want := []string{"06:30", "07:30", "08:00", "10:00", "11:00"}; !slices.Equal(got, want) {
		t.Errorf("the mails came at %q, want %q", got, want)
	}
	if ms.Undated != 1 || ms.Future != 1 || ms.Unordered != 1 {
		t.Errorf("undated %d, future %d, unordered %d; want one of each", ms.Undated, ms.Future, ms.Unordered)
	}
	if some := ms.between(noon.Add(-5*time.Hour), noon.Add(-2*time.Hour)); len(some) != 2 {
		t.Errorf("%d mails from 07:00 to 10:00, want 2", len(some))
	}
	for _, m := range ms.all { // the bytes are those of the same mail
		again, err := ms.reader.Again(*m)
		if err != nil || !strings.HasSuffix(string(again.Raw), "Subject: x\r\n\r\nhello\r\n") || again.Size != int64(len(again.Raw)) || strings.Count(string(again.Raw), "Subject") != 1 {
			t.Errorf("%s: %q, %d bytes, %v", m.Name, again.Raw, again.Size, err)
		}
	}
}
