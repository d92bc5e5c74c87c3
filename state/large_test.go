package state_test

import (
	"slices"
	"testing"
	"time"

	"agentstateloop/state"
)

// A fetch apart and scans change the cursor in any order. Whichever ends last, what
// is settled is not owed again, what is owed stays owed, and the newest failure of a
// large mail counts.
func TestALargeMailAndScansAtTheSameTime(t *testing.T) {
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
			s := state.State{Cursor: began}
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

// A UID of the mailbox before it was renumbered says nothing about this one: the
// mail comes in, and no other is marked \Seen for it.
func TestALargeMailOfARenumberedMailbox(t *testing.T) {
	s := state.State{Cursor: state.Cursor{Mailbox: "box", Validity: 8, Next: 10, Owed: []uint32{5}}}
	s = state.Step(s, []state.Event{
		state.LargeFetched{UID: 5, Cursor: state.Cursor{Mailbox: "box", Validity: 7}},
		state.Arrived{UID: 5, Message: state.Message{Key: "mail:box.7.5", Source: state.Mail, Operator: true}},
	}, state.Policy{}, time.Date(2026, 1, 5, 9, 0, 0, 0, time.UTC))
	if len(s.Inbox) != 1 || len(s.ToFlag.UIDs) > 0 || !slices.Equal(s.Cursor.Owed, []uint32{5}) {
		t.Errorf("inbox %+v, to flag %+v, the cursor is %+v", s.Inbox, s.ToFlag, s.Cursor)
	}
}

// What was not tried comes before what has failed, and that when it is due.
func TestLargeMailsThatAreDue(t *testing.T) {
	now := time.Date(2026, 1, 5, 9, 0, 0, 0, time.UTC)
	c := state.Cursor{Large: []uint32{1, 2, 3, 4}, Failures: map[uint32]state.Failure{
		1: {Tries: 1, Next: now.Add(-time.Minute)}, 2: {Tries: 2, Next: now.Add(-time.Hour)}, 3: {Tries: 1, Next: now.Add(time.Hour)},
	}}
	if got := c.LargeDue(now); !slices.Equal(got, []uint32{4, 2, 1}) {
		t.Errorf("due are %v", got)
	}
}
