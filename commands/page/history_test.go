package page

import (
	"encoding/json"
	"fmt"
	"os"
	"testing"
	"time"

	"agentstateloop/cycle"
	"agentstateloop/state"
	"agentstateloop/state/store"
)

// addYear adds days of history before the present state of an agent, with so many turns on each day.
func addYear(t testing.TB, a *cycle.Agent, until time.Time, days, turns int) {
	t.Helper()
	s, err := a.Store.Read()
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]*os.File{}
	line := func(l state.Line) {
		name := a.Store.Path("history-" + l.At.Format("2006-01") + ".jsonl")
		if files[name] == nil {
			f, err := os.OpenFile(name, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
			if err != nil {
				t.Fatal(err)
			}
			files[name] = f
			t.Cleanup(func() { f.Close() })
		}
		data, err := json.Marshal(l)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := files[name].Write(append(data, '\n')); err != nil {
			t.Fatal(err)
		}
	}
	serial := s.Serial
	for day := range days {
		for turn := range turns {
			at := until.Add(-time.Duration(days-day)*24*time.Hour + time.Duration(turn)*24*time.Hour/time.Duration(turns))
			id, key := fmt.Sprintf("t%d", serial), fmt.Sprintf("mail:%d", serial)
			m := state.Message{Key: key, Source: state.Mail, From: operator, Operator: true, Title: fmt.Sprintf("order %d of day %d", turn, day), At: at, Observed: at, Status: state.Queued, Sum: fmt.Sprintf("%064d", serial)}
			if day == 3 && turn == 7 {
				m.Title = "the Needle"
			}
			for i, l := range []state.Line{
				{Kind: state.LineTransition, Old: state.IDLE, New: state.PREP},
				{Kind: state.LineMessage, Key: key, Source: m.Source, From: m.From, Message: &m},
				{Kind: state.LineEffect, What: state.WordQueued, ID: "ack." + id, Effect: &state.Effect{ID: "ack." + id, Kind: state.Ack, To: operator, Channel: state.ByMail}},
				{Kind: state.LineTransition, Old: state.PREP, New: state.ACTIVE},
				{Kind: state.LineTurn, What: state.WordDispatched, Key: key, TurnID: id, Epoch: serial, Row: &m},
				{Kind: state.LineTurn, What: state.WordRunning, Key: key, TurnID: id, Epoch: serial},
				{Kind: state.LineDelivery, What: state.WordSent, ID: "ack." + id},
				{Kind: state.LineSpend, TurnID: id, Epoch: serial, From: operator, Day: at.Format(time.DateOnly), Spending: &state.Spending{ID: id, Cost: 10_000}},
				{Kind: state.LineTask, Key: key, TurnID: id, Epoch: serial, Outcome: state.Success, Row: &m},
				{Kind: state.LineEffect, What: state.WordQueued, ID: "reply." + id, Effect: &state.Effect{ID: "reply." + id, Kind: state.Reply, To: operator, Channel: state.ByMail}},
				{Kind: state.LineDelivery, What: state.WordSent, ID: "reply." + id},
				{Kind: state.LineTransition, Old: state.ACTIVE, New: state.IDLE, Reason: "silence"},
			} {
				l.Serial, l.N, l.At = serial, i, at.Add(time.Duration(i)*time.Second).UTC()
				line(l)
			}
			serial++
		}
	}
	data, err := os.ReadFile(a.Store.Path("state.json"))
	if err != nil {
		t.Fatal(err)
	}
	var raw map[string]any
	if err := json.Unmarshal(data, &raw); err != nil {
		t.Fatal(err)
	}
	raw["serial"] = serial
	delete(raw, "chain")
	delete(raw, "file")
	delete(raw, "lines")
	if data, err = json.Marshal(raw); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"state.json", "state.json.prev"} {
		if err := os.WriteFile(a.Store.Path(name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	a.Store = &store.Store{Dir: a.Store.Dir, Agent: a.Store.Agent}
}

// TestHistory searches a history of three months.
func TestHistory(t *testing.T) {
	s := newStage(t)
	addYear(t, s.agent, s.now, 90, 30)
	from := Source{Agent: s.agent}
	search := func(before, query, kind string, limit int) Found {
		t.Helper()
		found, err := History(from, before, query, kind, limit, s.now)
		s.check(err)
		return found
	}
	// All entries, page by page, are those of one walk: each once, the newest first.
	entries, before := 0, ""
	last := s.now
	seen := map[string]bool{}
	for {
		found := search(before, "", "", 200)
		for _, e := range found.Entries {
			if seen[e.ID] || e.At.After(last) {
				t.Fatalf("%s is twice or out of order", e.ID)
			}
			seen[e.ID], last = true, e.At
		}
		entries += len(found.Entries)
		if found.Before == nil {
			break
		}
		before = *found.Before
	}
	if want := 90 * 30 * 3; entries != want { // the message, its answer, going quiet
		t.Errorf("%d entries, want %d", entries, want)
	}
	// An old entry is found after some searches, none of which reads everything.
	before = ""
	var got []Entry
	searches := 0
	for {
		found := search(before, "NEEDLE the", "message", 10)
		searches++
		got = append(got, found.Entries...)
		if found.Before == nil {
			break
		}
		before = *found.Before
	}
	if len(got) != 1 || searches < 5 || *got[0].Quote != "the Needle" || got[0].Text != "you" {
		t.Errorf("%d searches found %s", searches, encode(t, got))
	}
	if found := search("", "", "answer", 3); len(found.Entries) != 3 || found.Before == nil || found.Entries[0].Kind != "answer" {
		t.Errorf("the newest answers are %s", encode(t, found))
	}
	if _, err := History(from, "x", "", "", 3, s.now); err == nil {
		t.Error("a wrong position is accepted")
	}
}

// BenchmarkDocument makes the document of an agent with a year of 100 turns a day: for the first time,
// after a change, and without one.
func BenchmarkDocument(b *testing.B) {
	s := newStage(b)
	addYear(b, s.agent, s.now, 365, 100)
	from := []Source{{Agent: s.agent}}
	b.Run("first", func(b *testing.B) {
		for b.Loop() {
			NewDocument(from, s.now)
		}
	})
	b.Run("unchanged", func(b *testing.B) {
		s.maker.Document(from, s.now)
		for b.Loop() {
			s.maker.Document(from, s.now)
		}
	})
	b.Run("changed", func(b *testing.B) {
		s.maker.Document(from, s.now)
		for i := 0; b.Loop(); i++ {
			b.StopTimer()
			s.check(s.agent.Ring("ci", fmt.Sprint(i)))
			s.poll()
			b.StartTimer()
			s.maker.Document(from, s.now)
		}
	})
	b.Run("search", func(b *testing.B) {
		for b.Loop() {
			_, err := History(from[0], "", "order nothing", "", 50, s.now)
			s.check(err)
		}
	})
	b.Run("old", func(b *testing.B) {
		for b.Loop() {
			_, err := History(from[0], "10000.0", "", "", 50, s.now)
			s.check(err)
		}
	})
}
