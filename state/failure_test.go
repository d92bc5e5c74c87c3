package state_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"agentstateloop/internal/testkit/statetest"
	"agentstateloop/state"
)

var nine = time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC)

// failing returns a cursor with so many mails that have failed so often.
func failing(mails, tries int) *state.Cursor {
	c := state.Cursor{Mailbox: "box", Validity: 7, Next: 1000, Complete: nine, Failures: map[uint32]state.Failure{}}
	for i := range uint32(mails) {
		var f state.Failure
		for range tries {
			f = f.Again(nine, "NO corrupt")
		}
		c.Owed = append(c.Owed, i+1)
		c.Failures[i+1] = f
	}
	return &c
}

func moved(s state.State, c *state.Cursor, now time.Time, more ...state.Event) state.State {
	return state.Step(s, append([]state.Event{state.SourceRead{Source: state.Mail, Cursor: c}, state.Polled{}}, more...), statetest.Policy(), now)
}

func notices(s state.State) (n int) {
	for _, e := range s.Outbox {
		if e.Kind == state.Notice {
			n++
		}
	}
	return n
}

// TestManyFailingMailsAreOneNotice checks that a server that hands out none of very
// many mails causes one mail, of a length that can be read.
func TestManyFailingMailsAreOneNotice(t *testing.T) {
	s := moved(state.New("goulard3120", "seed"), failing(400, 3), nine)
	if notices(s) != 1 || strings.Count(s.Outbox[0].Text, "mail:box.7.") != 20 || !strings.Contains(s.Outbox[0].Text, "and 380 more") {
		t.Errorf("%d notices: %q", notices(s), s.Outbox[0].Text)
	}
}

// TestTellingSurvivesARecovery checks that what the operator has heard of a failing
// mail, and that it was dropped, is known after state.json was rebuilt from its copy.
func TestTellingSurvivesARecovery(t *testing.T) {
	before := moved(state.New("goulard3120", "seed"), failing(2, 2), nine)
	after := moved(before, failing(2, 3), nine.Add(time.Minute))
	lines := slices.Clone(after.Lines)
	after = state.Step(after, []state.Event{state.Dropped{Key: "mail:box.7.2"}}, statetest.Policy(), nine.Add(2*time.Minute))
	lines = append(lines, after.Lines...)

	back := state.Replay(before, lines)
	if got := back.FailingMails(); len(got) != 1 || got[0].Key != "mail:box.7.1" || got[0].Told != state.ToldFirst {
		t.Errorf("failing after the recovery: %+v", got)
	}
	if !back.Cursor.Swept.IsZero() || !back.SweepDue(statetest.Policy(), nine) {
		t.Errorf("after a recovery nothing is swept: %v", back.Cursor.Swept)
	}
	c := back.Cursor.Clone()
	c.Failures[1] = c.Failures[1].Again(nine.Add(3*time.Minute), "NO corrupt")
	if n := notices(moved(back, &c, nine.Add(3*time.Minute))); n != notices(back) {
		t.Errorf("told again after the recovery: %d notices", n)
	}
}

// TestRebuiltWhileAMailFails checks that a state that is made from the history alone
// reads the mailbox from before the mail that could not be fetched.
func TestRebuiltWhileAMailFails(t *testing.T) {
	s := moved(state.New("goulard3120", "seed"), failing(1, 3), nine)
	lines := slices.Clone(s.Lines)
	mail := state.Arrived{Message: state.Message{Key: "mail:box.7.50", Source: state.Mail, From: "op@example.com", Operator: true, At: nine}}
	week := nine.Add(7 * 24 * time.Hour)
	s = moved(s, failing(1, 4), week, mail)
	lines = append(lines, s.Lines...)
	if got := state.Rebuild(state.New("goulard3120", "seed"), lines).Cursor.Complete; got.After(nine) {
		t.Errorf("read again from %v, and the mail failed at %v", got, nine)
	}
	s = moved(s, &state.Cursor{Mailbox: "box", Validity: 7, Next: 1000, Complete: week}, week.Add(time.Hour),
		state.FetchEnded{Key: "mail:box.7.1", Told: state.ToldFirst, Gone: true})
	lines = append(lines, s.Lines...)
	if got := state.Rebuild(state.New("goulard3120", "seed"), lines).Cursor.Complete; got.Before(week) {
		t.Errorf("read again from %v, and the mail ended after %v", got, week)
	}
}

// TestDroppedDuringAScan checks that a scan which began before a mail was dropped
// does not bring it back.
func TestDroppedDuringAScan(t *testing.T) {
	s := moved(state.New("goulard3120", "seed"), failing(2, 2), nine)
	s = state.Step(s, []state.Event{state.Dropped{Key: "mail:box.7.1", Reason: "spam"}}, statetest.Policy(), nine)
	s = moved(s, failing(2, 3), nine.Add(time.Minute))
	if got := s.FailingMails(); len(got) != 1 || got[0].Key != "mail:box.7.2" || !slices.Equal(s.Cursor.Owed, []uint32{2}) {
		t.Errorf("failing %+v, owed %v", got, s.Cursor.Owed)
	}
	if strings.Contains(s.Outbox[0].Text, "mail:box.7.1,") {
		t.Errorf("told: %q", s.Outbox[0].Text)
	}
}

// TestSecretsInFailures checks that what a server says of a mail is redacted.
func TestSecretsInFailures(t *testing.T) {
	c := failing(1, 1)
	c.Failures[1] = c.Failures[1].Again(nine, "NO hunter2")
	hide := func(text string) string { return strings.ReplaceAll(text, "hunter2", "***") }
	for _, e := range state.Redact([]state.Event{state.SourceRead{Source: state.Mail, Cursor: c}, state.SourceFailed{Source: state.Mail, Cursor: c}}, hide) {
		if s := state.Step(state.New("goulard3120", "seed"), []state.Event{e}, statetest.Policy(), nine); s.Cursor.Failures[1].Reason != "NO ***" {
			t.Errorf("kept %q", s.Cursor.Failures[1].Reason)
		}
	}
	if c.Failures[1].Reason != "NO hunter2" {
		t.Error("the event was changed")
	}
}

// TestSweepDue checks that a sweep is due once on each local day.
func TestSweepDue(t *testing.T) {
	p := statetest.Policy()
	p.Location = time.FixedZone("west", -5*3600)
	s := state.New("goulard3120", "seed")
	s.Cursor.Swept = time.Date(2026, 3, 2, 4, 0, 0, 0, time.UTC) // the evening of the 1st
	for at, want := range map[string]bool{
		"2026-03-02T04:59:00Z": false, "2026-03-02T05:00:00Z": true, "2026-03-01T04:00:00Z": true,
	} {
		now, err := time.Parse(time.RFC3339, at)
		if err != nil {
			t.Fatal(err)
		}
		if got := s.SweepDue(p, now); got != want {
			t.Errorf("at %s: %v", at, got)
		}
	}
	// A clock that was far ahead does not keep the sweeps away.
	s.Cursor.Swept = nine.AddDate(1, 0, 0)
	s = state.Step(s, []state.Event{state.Polled{}}, p, nine)
	if !s.SweepDue(p, nine.AddDate(0, 0, 1)) {
		t.Error(fmt.Sprint("swept at ", s.Cursor.Swept))
	}
}

// TestAClockSetBackKeepsThePause checks that a mail which is to be tried again in a
// minute is tried again a minute after the clock was set back by a day.
func TestAClockSetBackKeepsThePause(t *testing.T) {
	s := moved(state.New("goulard3120", "seed"), failing(2, 1), nine)
	yesterday := nine.Add(-26 * time.Hour)
	s = moved(s, new(s.Cursor.Clone()), yesterday)
	for _, f := range s.FailingMails() {
		if want := yesterday.Add(time.Minute); !f.Next.Equal(want) {
			t.Errorf("%s is tried again at %v, want %v", f.Key, f.Next, want)
		}
	}
}
