package page

import (
	"bytes"
	"context"
	"testing"
	"time"

	"agentstateloop/cycle/listen"
	"agentstateloop/cycle/view"
	"agentstateloop/internal/secret"
	"agentstateloop/state"
)

// TestEssenceIgnoresThePassageOfTime checks that the ends of the bands are no change, and that a mark, a
// phase and any other field are one.
func TestEssenceIgnoresThePassageOfTime(t *testing.T) {
	now := time.Date(2026, 11, 29, 9, 0, 0, 0, time.UTC)
	agent := func(now time.Time, change func(*Agent)) []byte {
		band := view.Band{From: now.AddDate(0, 0, -1), To: now, Phases: []view.Span{{Phase: state.IDLE, From: now.AddDate(0, 0, -1), To: now}}}
		a := Agent{Handle: "goulard3120", Bands: Bands{Day: band, Week: band}}
		change(&a)
		return essence(a)
	}
	same := func(*Agent) {}
	first := agent(now, same)
	if !bytes.Equal(first, agent(now.Add(time.Minute), same)) {
		t.Error("a minute is a change")
	}
	for name, change := range map[string]func(*Agent){
		"a mark":  func(a *Agent) { a.Bands.Day.Marks = append(a.Bands.Day.Marks, view.Mark{Kind: "mail", At: now}) },
		"a phase": func(a *Agent) { a.Bands.Week.Phases = append(a.Bands.Week.Phases, view.Span{Phase: state.PREP}) },
		"a row":   func(a *Agent) { a.Rows = []Row{{"inbox", "1 waiting"}} },
	} {
		if bytes.Equal(first, agent(now, change)) {
			t.Errorf("%s does not count as a change", name)
		}
	}
}

// TestWatchedIsDue checks when the part of an agent is made again.
func TestWatchedIsDue(t *testing.T) {
	s := newStage(t)
	var w watched
	read := func(at time.Duration) bool { return w.read(listen.Shown{Agent: s.agent}, s.now.Add(at)) }
	due := func(at time.Duration) bool { return w.due(s.agent, s.now.Add(at)) }
	if !read(0) || read(0) {
		t.Error("the first part has not changed, or the second one has")
	}
	if due(14*time.Second) || !due(15*time.Second) {
		t.Error("an unchanged part is made again too early, or never")
	}
	_, err := s.agent.Tell(context.Background(), "you", "hello")
	s.check(err)
	if due(time.Second/2) || !due(10*time.Second) || !read(10*time.Second) || due(12*time.Second) {
		t.Error("a commit does not change the part, or more than once")
	}
	_, err = s.agent.Next(context.Background())
	s.check(err)
	read(12 * time.Second)
	if !due(14 * time.Second) {
		t.Error("a running turn is not followed each second")
	}
	w.shown.Status.Turn.Status = state.HeadSuspended
	if due(14*time.Second) || !due(27*time.Second) {
		t.Error("a suspended turn is followed each second, or never")
	}
}

// TestPanicOfAnAgent checks that the panic of one agent is its error on the page, without secrets, and that
// the next part is made as before.
func TestPanicOfAnAgent(t *testing.T) {
	s := newStage(t)
	s.agent.Secrets = &secret.Known{}
	s.agent.Secrets.Learn("imap", "canary-0123456789")
	now := s.agent.Now
	var w watched
	w.read(listen.Shown{Agent: s.agent}, s.now)
	s.agent.Now = func() time.Time { panic("canary-0123456789 in <a state>") }
	if !w.read(listen.Shown{Agent: s.agent}, s.now) || w.shown.Error == nil || *w.shown.Error != "internal: *** in <a state>; please report this" || w.shown.Handle != "goulard3120" || w.shown.Rows == nil {
		t.Errorf("the page shows %+v", w.shown)
	}
	s.agent.Now = now
	if !w.read(listen.Shown{Agent: s.agent}, s.now) || w.shown.Error != nil {
		t.Errorf("the page shows %+v after the panic", w.shown)
	}
}
