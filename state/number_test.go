package state_test

import (
	"fmt"
	"testing"
	"time"

	"agentstateloop/internal/testkit/statetest"
	"agentstateloop/state"
)

// numbered holds what each short number was given to.
type numbered map[string]string

// note notes the numbers that a step gave. A number that means something else already is
// an error.
func (n numbered) note(t *testing.T, s state.State) {
	t.Helper()
	give := func(number, to string) {
		if before, given := n[number]; given && before != to {
			t.Errorf("%s was given to %s, and is now %s", number, before, to)
		}
		n[number] = to
	}
	for _, l := range s.Lines {
		switch {
		case l.Kind == state.LineGate && l.Number > 0:
			give(fmt.Sprint("q", l.Number), l.Key)
		case l.Kind == state.LineNumber:
			give(fmt.Sprint("f", l.Number), l.Key)
		case l.Kind == state.LineBounce && l.Number > 0:
			give(fmt.Sprint("o", l.Number), "returned "+l.ID)
		case l.Effect != nil && l.Effect.Channel == state.ByHook:
			give(fmt.Sprint("h", l.Effect.Number), l.ID)
		case l.Effect != nil:
			give(fmt.Sprint("o", l.Effect.Number), l.ID)
		case l.Message != nil:
			give(fmt.Sprint(l.Message.Seq), l.Message.Key)
		}
	}
	for key, number := range s.Unfetched {
		give(fmt.Sprint("f", number), key)
	}
}

// failingFrom returns a cursor with so many mails that have failed once, from a UID on.
func failingFrom(first uint32, mails int) *state.Cursor {
	c := failing(0, 0)
	for i := range uint32(mails) {
		c.Owed = append(c.Owed, first+i)
		c.Failures[first+i] = state.Failure{}.Again(nine, "NO corrupt")
	}
	return c
}

// TestNumbersAreNeverReused gives and takes back numbers of every kind, and rebuilds the
// state from its lines in between, from nothing and from an old copy. No number may come to
// mean another thing.
func TestNumbersAreNeverReused(t *testing.T) {
	p := statetest.Policy()
	p.Hooks = []state.HookPolicy{{Name: "log", On: []string{"*"}}}
	given := numbered{}
	s, old := state.New("goulard3120", "seed"), state.State{}
	var lines []state.Line
	for i := range 60 {
		now := nine.Add(time.Duration(i) * time.Minute)
		mail := func(what string) string { return fmt.Sprintf("mail:box.7.%s%d", what, i) }
		events := []state.Event{
			state.Rejected{Key: mail("q"), Source: state.Mail, Gate: "trust", Reason: "dmarc=fail", At: now, Unkept: i%5 == 4},
			state.Arrived{Message: state.Message{Key: mail("m"), Source: state.Mail, From: "op@example.com", Operator: true, At: now}},
			state.Bounced{Key: mail("b"), ID: fmt.Sprint("reply.", i), To: "op@example.com"},
			state.SourceRead{Source: state.Mail, Cursor: failingFrom(uint32(i-i%3), i%4)},
			state.Polled{},
		}
		if i%3 == 0 {
			events = append(events, state.Discarded{Key: fmt.Sprintf("mail:box.7.q%d", i-1)}, state.Dropped{Key: fmt.Sprintf("mail:box.7.m%d", i-2)})
		}
		s = state.Step(s, events, p, now)
		given.note(t, s)
		lines = append(lines, s.Lines...)
		switch i % 20 {
		case 5:
			old = s
		case 9:
			s = state.Replay(old, lines) // the copy, with the newer lines
		case 19:
			s = state.Rebuild(state.New("goulard3120", "seed"), lines)
		}
	}
	if len(given) < 200 {
		t.Errorf("only %d numbers were given: %v", len(given), given)
	}
}

// TestListedItemsAreNumbered checks that an item in quarantine, a mail that cannot be
// fetched and a large one on its way have numbers, and that what is not kept has none.
func TestListedItemsAreNumbered(t *testing.T) {
	c := failing(2, 1)
	c.Large = []uint32{2, 9}
	c.Owed = append(c.Owed, 9)
	s := moved(state.New("goulard3120", "seed"), c, nine,
		state.Rejected{Key: "mail:box.7.20", Source: state.Mail, Gate: "trust", At: nine},
		state.Rejected{Key: "mail:box.7.21", Source: state.Mail, Gate: "trust", At: nine, Unkept: true},
		state.Rejected{Key: "mail:box.7.22", Source: state.Mail, Gate: "list", At: nine})
	if got := fmt.Sprint(s.Unfetched); got != "map[mail:box.7.1:1 mail:box.7.2:2 mail:box.7.9:3]" {
		t.Errorf("not fetched yet: %s", got)
	}
	got := ""
	for _, l := range s.Lines {
		if l.Kind == state.LineGate {
			got += fmt.Sprint(l.Number, " ")
		}
	}
	if got != "1 0 2 " {
		t.Errorf("rejected: %s", got)
	}
	// What has come in has its number in the history alone.
	s = moved(s, failing(1, 2), nine.Add(time.Minute))
	if got := fmt.Sprint(s.Unfetched); got != "map[mail:box.7.1:1]" {
		t.Errorf("still not fetched: %s", got)
	}
}
