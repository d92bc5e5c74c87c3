package view

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"agentstateloop/state"
	"agentstateloop/state/store"
)

// monday is a noon.
var monday = time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC)

// past writes history lines of commits of one line each, and returns what a Past says about them.
// Each line is in the file of its month, as the store writes it.
func past(t *testing.T, s state.State, now time.Time, lines ...state.Line) *Past {
	t.Helper()
	p := &Past{Store: &store.Store{Dir: t.TempDir()}, Policy: &state.Policy{Location: time.UTC}}
	s.Serial = writeLines(t, p.Store, 0, lines...)
	if err := p.Read(s, now); err != nil {
		t.Fatal(err)
	}
	return p
}

// writeLines appends lines to the history, after a serial, and returns the last serial.
func writeLines(t testing.TB, st *store.Store, serial uint64, lines ...state.Line) uint64 {
	t.Helper()
	for _, l := range lines {
		serial++
		l.Serial = serial
		f, err := os.OpenFile(st.Path("history-"+l.At.UTC().Format("2006-01")+".jsonl"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		data, err := json.Marshal(l)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.Write(append(data, '\n')); err != nil {
			t.Fatal(err)
		}
		f.Close()
	}
	return serial
}

func phased(at time.Time, old, next state.Phase) state.Line {
	return state.Line{At: at, Kind: state.LineTransition, Old: old, New: next}
}

func attempt(at time.Time, what state.Word, turn string, epoch uint64) state.Line {
	return state.Line{At: at, Kind: state.LineTurn, What: what, TurnID: turn, Epoch: epoch, Row: &state.Message{From: "op@example.com"}}
}

// show returns a band as text: minutes from the beginning.
func show(b Band) string {
	var text strings.Builder
	minute := func(t time.Time) string { return fmt.Sprint(t.Sub(b.From).Minutes()) }
	for _, s := range b.Phases {
		fmt.Fprintf(&text, "%s %s-%s\n", s.Phase, minute(s.From), minute(s.To))
	}
	for _, m := range b.Marks {
		fmt.Fprintf(&text, "%s %s", m.Kind, minute(m.At))
		if m.To != nil {
			fmt.Fprintf(&text, "-%s", minute(*m.To))
		}
		fmt.Fprintf(&text, " %s\n", m.Text)
	}
	return text.String()
}

func wantBand(t *testing.T, b Band, want string) {
	t.Helper()
	if got := show(b); got != want {
		t.Errorf("the band is\n%swant\n%s", got, want)
	}
	at := b.From
	for _, s := range b.Phases {
		if !s.From.Equal(at) || !s.To.After(s.From) {
			t.Errorf("a gap before %v", s)
		}
		at = s.To
	}
	if !at.Equal(b.To) {
		t.Errorf("the phases end at %v, not at %v", at, b.To)
	}
}

// TestBand shows an hour with a message, a suspended turn, a nudge and a HALT.
func TestBand(t *testing.T) {
	at := func(minutes int) time.Time { return monday.Add(time.Duration(minutes) * time.Minute) }
	message := state.Line{At: at(10), Kind: state.LineMessage, Key: "mail:1", Message: &state.Message{Source: state.Mail, From: "op@example.com\u202e\nx"}}
	plan := state.Line{At: at(11), Kind: state.LineMessage, Key: "self:1", Message: &state.Message{Source: state.Self}}
	task := state.Line{At: at(30), Kind: state.LineTask, TurnID: "t1", Epoch: 2, Outcome: state.Success, Row: &state.Message{From: "op@example.com"}}
	p := past(t, state.State{Timers: state.Timers{Phase: state.ACTIVE, PhaseSince: at(10)}, Halts: state.Halts{HaltedMesh: true}}, at(60),
		phased(at(-20), state.ACTIVE, state.IDLE),
		phased(at(5), state.IDLE, state.PREP), state.Line{At: at(5), Kind: state.LineNudge, From: "ci"},
		phased(at(10), state.PREP, state.ACTIVE), message, plan,
		attempt(at(12), state.WordDispatched, "t1", 1), attempt(at(12), state.WordRunning, "t1", 1), attempt(at(15), state.WordSuspended, "t1", 1),
		attempt(at(25), state.WordDispatched, "t1", 2), attempt(at(26), state.WordRunning, "t1", 2), task,
		attempt(at(31), state.WordExited, "t1", 2),
		state.Line{At: at(35), Kind: state.LineHalt, What: state.WordHalt, From: "here"},
		state.Line{At: at(36), Kind: state.LineHalt, What: state.WordHalt, From: "mesh"},
		state.Line{At: at(40), Kind: state.LineHalt, What: state.WordGo, From: "here"},
	)
	wantBand(t, p.Band(at(0), at(60)), `IDLE 0-5
PREP 5-10
ACTIVE 10-60
nudge 5 nudge by ci
mail 10 mail from op@example.com`+"\uFFFD"+` x
turn 12-15 turn for op@example.com: suspended
turn 25-30 turn for op@example.com
answer 30 answer to op@example.com
halt 35-60 HALT
`)
	// What began before the band begins with it.
	wantBand(t, p.Band(at(28), at(37)), `ACTIVE 0-9
turn 0-2 turn for op@example.com
answer 2 answer to op@example.com
halt 7-9 HALT
`)
	wantBand(t, p.Band(at(-10), at(-5)), "IDLE 0-5\n")
}

// TestBandOfUnknownPast shows bands whose history lacks what came before.
func TestBandOfUnknownPast(t *testing.T) {
	at := func(minutes int) time.Time { return monday.Add(time.Duration(minutes) * time.Minute) }
	active := state.State{Timers: state.Timers{Phase: state.ACTIVE, PhaseSince: at(-100)}}
	active.HaltedHere = true
	wantBand(t, past(t, active, at(10)).Band(at(0), at(10)), "ACTIVE 0-10\nhalt 0-10 HALT\n")
	// GO and the end of a turn say that something had begun.
	p := past(t, state.State{Timers: state.Timers{Phase: state.IDLE}}, at(10),
		state.Line{At: at(2), Kind: state.LineHalt, What: state.WordGo, From: "mesh"}, attempt(at(4), state.WordReaped, "t", 1), attempt(at(5), state.WordReaped, "t", 1))
	wantBand(t, p.Band(at(0), at(10)), "IDLE 0-10\nturn 0-4 turn for a message: reaped\nhalt 0-2 HALT\n")
	// A damaged history lacks the end of a turn and the last change of the phase.
	p = past(t, state.State{Timers: state.Timers{Phase: state.IDLE, PhaseSince: at(8)}}, at(10),
		phased(at(1), state.IDLE, state.PREP), attempt(at(2), state.WordRunning, "t", 1), attempt(at(4), state.WordRunning, "u", 2))
	wantBand(t, p.Band(at(0), at(10)), "IDLE 0-1\nPREP 1-8\nIDLE 8-10\nturn 2-2 turn for op@example.com\nturn 4-4 turn for op@example.com\n")
	// A turn that runs has no end yet.
	runs := state.State{Timers: state.Timers{Phase: state.IDLE}}
	runs.Turn = state.Head{Status: state.HeadRunning, TurnID: "t", Epoch: 1}
	p = past(t, runs, at(10), attempt(at(2), state.WordRunning, "t", 1))
	wantBand(t, p.Band(at(0), at(10)), "IDLE 0-10\nturn 2-10 turn for op@example.com\n")
}

// TestBandAcrossMonthsAndRestarts reads the lines of two files, and again after each commit. The
// newest lines are in the state alone.
func TestBandAcrossMonthsAndRestarts(t *testing.T) {
	at := func(hours int) time.Time { return time.Date(2026, 3, 1, hours, 0, 0, 0, time.UTC) }
	lines := []state.Line{phased(at(-6), state.IDLE, state.PREP), phased(at(-3), state.PREP, state.IDLE), phased(at(2), state.IDLE, state.PREP)}
	s := state.State{Timers: state.Timers{Phase: state.PREP}}
	p := past(t, s, at(3), lines...)
	want := "IDLE 0-120\nPREP 120-300\nIDLE 300-600\nPREP 600-660\n"
	wantBand(t, p.Band(at(-8), at(3)), want)

	s.Phase, s.Serial = state.IDLE, 4
	newest := phased(at(4), state.PREP, state.IDLE)
	newest.Serial = 4
	s.Lines = []state.Line{newest}
	later := strings.Replace(want, "660", "720", 1) + "IDLE 720-780\n"
	for range 2 { // the second Read has nothing to do
		if err := p.Read(s, at(5)); err != nil {
			t.Fatal(err)
		}
		wantBand(t, p.Band(at(-8), at(5)), later)
	}
	writeLines(t, p.Store, 3, phased(at(4), state.PREP, state.IDLE), phased(at(5), state.IDLE, state.ACTIVE))
	s.Phase, s.Serial, s.Lines = state.ACTIVE, 5, nil
	fresh := &Past{Store: p.Store, Policy: p.Policy}
	for _, p := range []*Past{p, fresh} {
		if err := p.Read(s, at(6)); err != nil {
			t.Fatal(err)
		}
		wantBand(t, p.Band(at(-8), at(6)), strings.Replace(later, "780", "780", 1)+"ACTIVE 780-840\n")
	}
	// Another state took the place of this one.
	s.Serial, s.Place, s.Phase = 9, "elsewhere", state.PREP
	if err := os.Remove(p.Store.Path("history-2026-03.jsonl")); err != nil {
		t.Fatal(err)
	}
	if err := p.Read(s, at(6)); err != nil {
		t.Fatal(err)
	}
	if got := show(p.Band(at(-8), at(6))); strings.Contains(got, "ACTIVE") {
		t.Error(got)
	}
}

// TestBandOfWrongClocks has lines that a clock wrote ahead of time, in a later month, and others of
// a clock that began at 1970.
func TestBandOfWrongClocks(t *testing.T) {
	at := func(minutes int) time.Time { return monday.Add(time.Duration(minutes) * time.Minute) }
	lines := []state.Line{
		phased(at(1), state.IDLE, state.PREP),
		phased(at(2).AddDate(0, 2, 0), state.PREP, state.ACTIVE), // in May
		nudge(at(3).AddDate(0, 2, 0)),
		phased(at(5), state.ACTIVE, state.IDLE),
		phased(time.Unix(60, 0), state.IDLE, state.PREP),
		nudge(time.Unix(61, 0)),
		phased(at(9), state.PREP, state.IDLE),
	}
	// The wrong times have no length, and no change is lost.
	want := "IDLE 0-1\nPREP 1-5\nIDLE 5-20\nnudge 5 nudge\nnudge 9 nudge\n"
	s := state.State{Timers: state.Timers{Phase: state.IDLE, PhaseSince: at(9)}}
	p := past(t, s, at(20), lines...)
	wantBand(t, p.Band(at(0), at(20)), want)
	// The file of May is the last one for two months, and the next lines are not in it.
	s.Serial = writeLines(t, p.Store, uint64(len(lines)), phased(at(21), state.IDLE, state.PREP), nudge(at(22)))
	s.Phase, s.PhaseSince = state.PREP, at(21)
	if err := p.Read(s, at(25)); err != nil {
		t.Fatal(err)
	}
	wantBand(t, p.Band(at(0), at(25)), "IDLE 0-1\nPREP 1-5\nIDLE 5-21\nPREP 21-25\nnudge 5 nudge\nnudge 9 nudge\nnudge 22 nudge\n")
}

func nudge(at time.Time) state.Line { return state.Line{At: at, Kind: state.LineNudge} }

// TestBandHasFewMarks gives a day more marks and phases than a page shows.
func TestBandHasFewMarks(t *testing.T) {
	at := func(minutes int) time.Time { return monday.Add(time.Duration(minutes) * time.Minute) }
	var lines []state.Line
	for i := range 24 * 60 {
		m := state.Line{At: at(i), Kind: state.LineMessage, Key: fmt.Sprint("mail:", i), Message: &state.Message{Source: state.Mail, From: "op@example.com"}}
		begun, ended := attempt(at(i), state.WordRunning, "t", uint64(i+1)), attempt(at(i).Add(10*time.Second), state.WordReaped, "t", uint64(i+1))
		lines = append(lines, m, begun, ended)
		if i%2 == 0 {
			lines = append(lines, phased(at(i), state.IDLE, state.PREP), phased(at(i+1).Add(-time.Second), state.PREP, state.IDLE))
		}
	}
	p := past(t, state.State{Timers: state.Timers{Phase: state.IDLE}}, at(24*60), lines...)
	b := p.Band(at(0), at(24*60))
	if len(b.Marks) > maxMarks || len(b.Phases) > maxMarks || len(b.Marks) < 100 || len(b.Phases) < 100 {
		t.Errorf("%d marks and %d phases", len(b.Marks), len(b.Phases))
	}
	messages := 0
	for _, m := range b.Marks {
		var n int
		if _, err := fmt.Sscanf(m.Text, "%d messages", &n); err == nil {
			messages += n
		}
	}
	if messages != 24*60 {
		t.Errorf("the marks count %d messages", messages)
	}
	for _, m := range b.Marks {
		if m.Kind == MarkTurn && m.To.Sub(m.At) < 15*time.Minute {
			t.Errorf("a mark of several turns has a length of %v", m.To.Sub(m.At))
			break
		}
	}
	wantBand(t, b, show(b)) // without gaps
}

// TestCosts adds up the days of the history by the user's calendar.
func TestCosts(t *testing.T) {
	cost := func(day, turn, id string, cost state.Micros) state.Line {
		return state.Line{At: monday, Kind: state.LineSpend, TurnID: turn, Day: day, Spending: &state.Spending{ID: id, Cost: cost}}
	}
	p := past(t, state.State{}, monday, cost("2026-02-28", "a", "1", 7), cost("2026-03-01", "b", "2", 5), cost("2026-03-01", "b", "3", 6), cost("2026-03-02", "c", "4", 1))
	p.Policy.Location = time.FixedZone("east", 13*3600) // where it is the third already
	want := "[{2026-02-28 $0.000007 1} {2026-03-01 $0.000011 1} {2026-03-02 $0.000001 1} {2026-03-03 $0.00 0}]"
	if got := fmt.Sprint(p.Costs(4, monday)); got != want {
		t.Errorf("%s, want %s", got, want)
	}
}
