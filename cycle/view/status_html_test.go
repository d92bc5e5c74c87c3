package view

import (
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"

	"agentstateloop/internal/testkit/browser"
	"agentstateloop/state"
)

var screenshots = flag.String("screenshots", "", "a folder for pictures of the status mail as a phone shows it")

// busyWeek returns a page with a full week, a HALT and hostile texts.
func busyWeek(t *testing.T) StatusPage {
	t.Helper()
	var lines []state.Line
	begin := monday.AddDate(0, 0, -7)
	for hour := range 7 * 24 {
		at := begin.Add(time.Duration(hour) * time.Hour)
		if local := at.Hour(); local < 8 || local > 18 {
			continue
		}
		lines = append(lines,
			phased(at, state.IDLE, state.PREP), state.Line{At: at, Kind: state.LineMessage, Message: &state.Message{Source: state.Mail, From: "op@example.com"}},
			phased(at.Add(time.Minute), state.PREP, state.ACTIVE), attempt(at.Add(time.Minute), state.WordRunning, "t", uint64(hour+1)),
			state.Line{At: at.Add(10 * time.Minute), Kind: state.LineTask, TurnID: "t", Epoch: uint64(hour + 1), Outcome: state.Success},
			phased(at.Add(time.Duration(hour%3+1)*15*time.Minute), state.ACTIVE, state.IDLE))
	}
	lines = append(lines, state.Line{At: monday.Add(-30 * time.Hour), Kind: state.LineHalt, What: state.WordHalt, From: "here"},
		state.Line{At: monday.Add(-26 * time.Hour), Kind: state.LineHalt, What: state.WordGo, From: "here"},
		state.Line{At: monday.Add(-time.Hour), Kind: state.LineHalt, What: state.WordHalt, From: "here"})
	slices.SortStableFunc(lines, func(a, b state.Line) int { return a.At.Compare(b.At) })
	p := past(t, state.State{Timers: state.Timers{Phase: state.ACTIVE, PhaseSince: monday}, Halts: state.Halts{HaltedHere: true}}, monday, lines...)
	return StatusPage{
		Handle: "goulard3120", Phase: state.ACTIVE, Halted: true, Week: p.Band(begin, monday), Location: time.FixedZone("CET", 3600),
		Text: "ACTIVE since 2026-03-02T11:00:00Z\nHALTED here\nturn: running\ninbox: 12 waiting\noutbox: 0 waiting, 1 undeliverable\n" +
			"question to you, until 2026-03-02T18:00:00Z: <script>alert(1)</script> " + strings.Repeat("long", 60) + " \u202eright\u202c (yes, no)\n" +
			"reminder: 2026-03-03T09:00:00Z, \u05d0\u05d1\u05d2 look\nspent: $1.20 today, $20.00 this month\nhistory: 120.0123456789abcdef0123456789abcdef01234567\n",
	}
}

// measurePage lists the texts that a phone shows badly: too small, out of sight, or with a contrast below
// 4.5 to 1 on the colors behind them (WCAG 2.2, 1.4.3).
const measurePage = `(() => {
	const bad = [];
	if (document.documentElement.scrollWidth > innerWidth) bad.push("the page is " + document.documentElement.scrollWidth + " pixels wide");
	const dark = matchMedia("(prefers-color-scheme: dark)").matches;
	const rgba = c => { const [r, g, b, a = 1] = c.match(/[\d.]+/g).map(Number); return [r, g, b, a]; };
	const over = (top, below) => below.map((v, i) => top[i] * top[3] + v * (1 - top[3]));
	const behind = e => e ? over(rgba(getComputedStyle(e).backgroundColor), behind(e.parentElement)) : dark ? [18, 18, 18] : [255, 255, 255];
	const light = ([r, g, b]) => [r, g, b].map(v => v / 255).map(v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4).reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
	const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
	for (let n; n = walker.nextNode(); ) {
		if (!n.data.trim()) continue;
		const style = getComputedStyle(n.parentElement), what = n.data.trim().slice(0, 30), range = document.createRange();
		range.selectNodeContents(n);
		if (parseFloat(style.fontSize) < 14) bad.push(style.fontSize + ": " + what);
		for (const box of range.getClientRects()) if (box.right > innerWidth || box.left < 0) bad.push("out of sight: " + what);
		const [a, b] = [light(rgba(style.color)), light(behind(n.parentElement))];
		const contrast = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
		if (contrast < 4.5) bad.push(contrast.toFixed(1) + " to 1: " + what);
	}
	return bad;
})()`

// TestStatusPageOnPhone shows the page in Chromium, at the width of a small phone.
func TestStatusPageOnPhone(t *testing.T) {
	b := browser.Start(t)
	page := busyWeek(t).HTML()
	if len(page) > 30_000 {
		t.Errorf("the page has %d bytes", len(page))
	}
	for _, scheme := range []string{"light", "dark"} {
		b.Scheme(scheme)
		at := b.Show(page)
		for _, fetched := range b.Fetched {
			if fetched != at {
				t.Errorf("it fetches %s", fetched)
			}
		}
		var bad []string
		if b.Evaluate(measurePage, &bad); len(bad) > 0 {
			t.Errorf("%s: %q", scheme, bad)
		}
		var others, cells int
		var shown string
		if b.Evaluate("document.body.textContent", &shown); strings.ContainsFunc(shown, func(r rune) bool { return unicode.Is(unicode.Bidi_Control, r) }) {
			t.Error("a text changes its direction")
		}
		if b.Evaluate("document.querySelectorAll('script,style,link,img,svg,iframe,form,input,a,object').length", &others); others != 0 {
			t.Errorf("%d elements that a mail must not have", others)
		}
		// Each day has 24 hours, and they are wide enough to be seen.
		if b.Evaluate(`[...document.querySelectorAll("table")].at(-1).rows.length`, &cells); cells != 8 {
			t.Errorf("%d rows, want the hours and 7 days", cells)
		}
		var wrong []string
		b.Evaluate(`[...[...document.querySelectorAll("table")].at(-1).rows].slice(1).flatMap(r => {
			const hours = [...r.cells].slice(1), sum = hours.reduce((n, c) => n + c.colSpan, 0);
			return sum == 24 && hours.every(c => c.getBoundingClientRect().width / c.colSpan > 8 && c.getBoundingClientRect().height >= 16) ? [] : [r.cells[0].textContent + " " + sum];
		})`, &wrong)
		if len(wrong) > 0 {
			t.Errorf("%s: %q", scheme, wrong)
		}
		if *screenshots != "" {
			if err := os.WriteFile(filepath.Join(*screenshots, "status-"+scheme+".png"), b.Picture(), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// TestStatusPageColors checks the hours of a day: their phase, a HALT, and those to come.
func TestStatusPageColors(t *testing.T) {
	at := func(hour int) time.Time { return time.Date(2026, 3, 2, hour, 0, 0, 0, time.UTC) }
	end := at(12)
	p := StatusPage{Week: Band{
		From: at(-156), To: at(12),
		Phases: []Span{{state.IDLE, at(-156), at(3)}, {state.PREP, at(3), at(4).Add(time.Minute)}, {state.ACTIVE, at(4).Add(time.Minute), at(5).Add(20 * time.Minute)}, {state.IDLE, at(5).Add(20 * time.Minute), at(12)}},
		Marks:  []Mark{{Kind: MarkHalt, At: at(11).Add(30 * time.Minute), To: &end, Count: 1}},
	}}
	var got []string
	for hour := range 14 {
		got = append(got, p.color(at(hour), at(hour+1)))
	}
	idle, prep, active := phaseColor(state.IDLE), phaseColor(state.PREP), phaseColor(state.ACTIVE)
	want := []string{idle, idle, idle, prep, active, active, idle, idle, idle, idle, idle, haltColor, "transparent", "transparent"}
	if strings.Join(got, " ") != strings.Join(want, " ") {
		t.Errorf("the hours are\n%s\nwant\n%s", got, want)
	}
}
