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

// failingCursor returns a cursor with so many mails that have failed so often.
func failingCursor(mails, tries int) *state.Cursor {
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

func stepWithCursor(s state.State, c *state.Cursor, now time.Time, more ...state.Event) state.State {
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
	s := stepWithCursor(state.New("goulard3120", "seed"), failingCursor(400, 3), nine)
	if notices(s) != 1 || strings.Count(s.Outbox[0].Text, "mail:box.7.") != 20 || !strings.Contains(s.Outbox[0].Text, "and 380 more") {
		t.Errorf("%d notices: %q", notices(s), s.Outbox[0].Text)
	}
}

// TestFetchNoticesSurviveRecovery checks that a state that was rebuilt from its copy knows which
// failing mails were reported, and which were dropped.
func TestFetchNoticesSurviveRecovery(t *testing.T) {
	before := stepWithCursor(state.New("goulard3120", "seed"), failingCursor(2, 2), nine)
	after := stepWithCursor(before, failingCursor(2, 3), nine.Add(time.Minute))
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
	if n := notices(stepWithCursor(back, &c, nine.Add(3*time.Minute))); n != notices(back) {
		t.Errorf("told again after the recovery: %d notices", n)
	}
}

// TestRebuildRereadsFailingMail checks that a state that is rebuilt from the history alone reads
// the mailbox from before the mail that could not be fetched.
func TestRebuildRereadsFailingMail(t *testing.T) {
	s := stepWithCursor(state.New("goulard3120", "seed"), failingCursor(1, 3), nine)
	lines := slices.Clone(s.Lines)
	mail := state.Arrived{Message: state.Message{Key: "mail:box.7.50", Source: state.Mail, From: "op@example.com", Operator: true, At: nine}}
	week := nine.Add(7 * 24 * time.Hour)
	s = stepWithCursor(s, failingCursor(1, 4), week, mail)
	lines = append(lines, s.Lines...)
	if got := state.Rebuild(state.New("goulard3120", "seed"), lines).Cursor.Complete; got.After(nine) {
		t.Errorf("read again from %v, and the mail failed at %v", got, nine)
	}
	s = stepWithCursor(s, &state.Cursor{Mailbox: "box", Validity: 7, Next: 1000, Complete: week}, week.Add(time.Hour),
		state.FetchEnded{Key: "mail:box.7.1", Told: state.ToldFirst, Gone: true})
	lines = append(lines, s.Lines...)
	if got := state.Rebuild(state.New("goulard3120", "seed"), lines).Cursor.Complete; got.Before(week) {
		t.Errorf("read again from %v, and the mail ended after %v", got, week)
	}
}

// TestScanKeepsMailDropped checks that a scan which began before a mail was dropped
// does not bring it back.
func TestScanKeepsMailDropped(t *testing.T) {
	s := stepWithCursor(state.New("goulard3120", "seed"), failingCursor(2, 2), nine)
	s = state.Step(s, []state.Event{state.Dropped{Key: "mail:box.7.1", Reason: "spam"}}, statetest.Policy(), nine)
	s = stepWithCursor(s, failingCursor(2, 3), nine.Add(time.Minute))
	if got := s.FailingMails(); len(got) != 1 || got[0].Key != "mail:box.7.2" || !slices.Equal(s.Cursor.Owed, []uint32{2}) {
		t.Errorf("failing %+v, owed %v", got, s.Cursor.Owed)
	}
	if strings.Contains(s.Outbox[0].Text, "mail:box.7.1,") {
		t.Errorf("told: %q", s.Outbox[0].Text)
	}
}

// TestSecretsInFailures checks that the server's words about a mail are redacted.
func TestSecretsInFailures(t *testing.T) {
	c := failingCursor(1, 1)
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
		check(t, err)
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

// TestClockSetBackKeepsFetchPause checks that a mail which is to be tried again in a
// minute is tried again a minute after the clock was set back by a day.
func TestClockSetBackKeepsFetchPause(t *testing.T) {
	s := stepWithCursor(state.New("goulard3120", "seed"), failingCursor(2, 1), nine)
	yesterday := nine.Add(-26 * time.Hour)
	s = stepWithCursor(s, new(s.Cursor.Clone()), yesterday)
	for _, f := range s.FailingMails() {
		if want := yesterday.Add(time.Minute); !f.Next.Equal(want) {
			t.Errorf("%s is tried again at %v, want %v", f.Key, f.Next, want)
		}
	}
}

// The fetch of a large mail and a scan change the cursor in any order. Whichever ends last,
// settled mail stays settled, unread mail stays pending, and the newest failure of a large mail
// counts.
func TestLargeMailAndScanInAnyOrder(t *testing.T) {
	now := time.Date(2026, 1, 5, 9, 0, 0, 0, time.UTC)
	began := state.Cursor{Mailbox: "box", Validity: 7, Next: 10, Owed: []uint32{3, 5}, Large: []uint32{5}}
	failed := state.Failure{}.Again(now, "connection reset")
	apart := func(c state.Cursor) state.LargeFetched {
		c.Mailbox, c.Validity = "box", 7
		return state.LargeFetched{UID: 5, Cursor: c}
	}
	scanned := began.Clone() // it has found two mails more, and one of them is large
	scanned.Next, scanned.Owed, scanned.Large = 13, []uint32{3, 5, 11, 12}, []uint32{5, 12}
	for name, tt := range map[string]struct {
		fetched       state.LargeFetched
		owed, large   []uint32
		fails, unseen bool
	}{
		"came":   {apart(state.Cursor{}), []uint32{3, 11, 12}, []uint32{12}, false, false},
		"missed": {apart(state.Cursor{Unseen: state.UIDRanges{{First: 5, Last: 5}}}), []uint32{3, 11, 12}, []uint32{12}, false, true},
		"failed": {
			apart(state.Cursor{Owed: []uint32{5}, Large: []uint32{5}, Failures: map[uint32]state.Failure{5: failed}}),
			[]uint32{3, 5, 11, 12}, []uint32{5, 12}, true, false,
		},
		"waits": {apart(state.Cursor{Owed: []uint32{5}, Large: []uint32{5}}), []uint32{3, 5, 11, 12}, []uint32{5, 12}, false, false},
	} {
		scan := state.SourceRead{Source: state.Mail, Cursor: &scanned, Large: began.Large}
		for _, order := range [][]state.Event{{tt.fetched, scan}, {scan, tt.fetched}} {
			s := state.State{Reading: state.Reading{Cursor: began}}
			for _, e := range order {
				s = state.Step(s, []state.Event{e}, state.Policy{}, now)
			}
			c := s.Cursor
			if !slices.Equal(c.Owed, tt.owed) || !slices.Equal(c.Large, tt.large) || c.Next != 13 ||
				(c.Failures[5] == failed) != tt.fails || c.Unseen.Contains(5) != tt.unseen {
				t.Errorf("%s, then %T: the cursor is %+v", name, order[1], c)
			}
		}
	}
}

// A UID from before the mailbox was renumbered is meaningless: the mail comes in, and no other
// mail is marked \Seen for it.
func TestLargeMailOfRenumberedMailbox(t *testing.T) {
	s := state.State{Reading: state.Reading{Cursor: state.Cursor{Mailbox: "box", Validity: 8, Next: 10, Owed: []uint32{5}}}}
	s = state.Step(s, []state.Event{
		state.LargeFetched{UID: 5, Cursor: state.Cursor{Mailbox: "box", Validity: 7}},
		state.Arrived{UID: 5, Message: state.Message{Key: "mail:box.7.5", Source: state.Mail, Operator: true}},
	}, state.Policy{}, time.Date(2026, 1, 5, 9, 0, 0, 0, time.UTC))
	if len(s.Inbox) != 1 || len(s.ToFlag.UIDs) > 0 || !slices.Equal(s.Cursor.Owed, []uint32{5}) {
		t.Errorf("inbox %+v, to flag %+v, the cursor is %+v", s.Inbox, s.ToFlag, s.Cursor)
	}
}

// Large mails that were not tried yet come first, then failed ones that are due.
func TestLargeMailsDue(t *testing.T) {
	now := time.Date(2026, 1, 5, 9, 0, 0, 0, time.UTC)
	c := state.Cursor{Large: []uint32{1, 2, 3, 4}, Failures: map[uint32]state.Failure{
		1: {Tries: 1, Next: now.Add(-time.Minute)}, 2: {Tries: 2, Next: now.Add(-time.Hour)}, 3: {Tries: 1, Next: now.Add(time.Hour)},
	}}
	if got := c.LargeDue(now); !slices.Equal(got, []uint32{4, 2, 1}) {
		t.Errorf("due are %v", got)
	}
}

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

// failingCursorFrom returns a cursor with so many mails that have failed once, from a UID on.
func failingCursorFrom(first uint32, mails int) *state.Cursor {
	c := failingCursor(0, 0)
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
			state.SourceRead{Source: state.Mail, Cursor: failingCursorFrom(uint32(i-i%3), i%4)},
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

// TestListedItemsAreNumbered checks that items in quarantine, mails that cannot be fetched and
// large mails being fetched have numbers, and that rejected items that are not kept have none.
func TestListedItemsAreNumbered(t *testing.T) {
	c := failingCursor(2, 1)
	c.Large = []uint32{2, 9}
	c.Owed = append(c.Owed, 9)
	s := stepWithCursor(state.New("goulard3120", "seed"), c, nine,
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
	s = stepWithCursor(s, failingCursor(1, 2), nine.Add(time.Minute))
	if got := fmt.Sprint(s.Unfetched); got != "map[mail:box.7.1:1]" {
		t.Errorf("still not fetched: %s", got)
	}
}
