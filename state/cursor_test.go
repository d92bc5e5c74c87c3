package state_test

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"agentstateloop/internal/testkit/statetest"
	"agentstateloop/state"
)

// TestFailuresOfAnOlderCursorAreKept checks that the failures that an older program has counted are
// read.
func TestFailuresOfAnOlderCursorAreKept(t *testing.T) {
	var c state.Cursor
	check(t, json.Unmarshal([]byte(`{"mailbox":"box","uidvalidity":7,"next":9,"owed":[5],"tries":{"5":2}}`), &c))
	c = c.Clone()
	if c.Next != 9 || !slices.Equal(c.Owed, []uint32{5}) || c.Failures[5].Tries != 2 || !c.Failures[5].Due(time.Unix(0, 0)) {
		t.Errorf("got %+v", c)
	}
	data, err := json.Marshal(c)
	check(t, err)
	var again state.Cursor
	if err := json.Unmarshal(data, &again); err != nil || again.OldTries != nil || again.Failures[5] != c.Failures[5] {
		t.Errorf("read back %+v, %v", again, err)
	}
}

// TestRefetchPausesGrow checks that the pauses between the tries of a mail grow, up to six
// hours.
func TestRefetchPausesGrow(t *testing.T) {
	now := time.Date(2026, 1, 5, 12, 0, 0, 0, time.UTC)
	var f state.Failure
	var pauses []time.Duration
	for range 12 {
		f = f.Again(now, "why")
		pauses = append(pauses, f.Next.Sub(now))
		if f.Due(f.Next.Add(-time.Minute)) || !f.Due(f.Next) {
			t.Errorf("due at the wrong time: %+v", f)
		}
	}
	for i, p := range pauses {
		if want := min(time.Minute<<i, 6*time.Hour); p != want {
			t.Errorf("pause %d is %v, want %v", i, p, want)
		}
	}
	if !f.Since.Equal(now) || f.Reason != "why" || f.Tries != 12 {
		t.Errorf("got %+v", f)
	}
}

// TestUIDRanges compares sets of ranges with sets of numbers.
func TestUIDRanges(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		var set state.UIDRanges
		model := map[uint32]bool{}
		for range 8 {
			first := 1 + r.Uint32N(40)
			change := state.UIDRange{First: first, Last: first + r.Uint32N(6)}
			add := r.IntN(3) > 0
			if add {
				set = set.With(change)
			} else {
				set = set.Without(change)
			}
			for u := change.First; u <= change.Last; u++ {
				if model[u] = add; !add {
					delete(model, u)
				}
			}
		}
		if set.Count() != uint64(len(model)) {
			t.Fatalf("%v has %d UIDs, want %d", set, set.Count(), len(model))
		}
		for u := range uint32(60) {
			if set.Contains(u) != model[u] {
				t.Fatalf("%v contains %d: %v", set, u, set.Contains(u))
			}
		}
		for i := range len(set) - 1 {
			if set[i].Last+1 >= set[i+1].First {
				t.Fatalf("%v overlaps or touches", set)
			}
		}
	}
}

// TestUIDRangesOfLastUID checks the last UID that there can be.
func TestUIDRangesOfLastUID(t *testing.T) {
	all := state.UIDRanges{}.With(state.UIDRange{First: 1, Last: math.MaxUint32})
	if all.Count() != math.MaxUint32 || len(all.Without(all...)) != 0 {
		t.Errorf("got %v, without itself %v", all, all.Without(all...))
	}
	want := state.UIDRanges{{First: 1, Last: math.MaxUint32 - 1}}
	if got := all.Without(state.UIDRange{First: math.MaxUint32, Last: math.MaxUint32}); !slices.Equal(got, want) {
		t.Errorf("got %v", got)
	}
}

// TestBoundedUIDRanges checks that a set that was made small still has every UID.
func TestBoundedUIDRanges(t *testing.T) {
	var many state.UIDRanges
	for i := range uint32(5000) {
		many = append(many, state.UIDRange{First: 3*i + 1 + i%2, Last: 3*i + 1 + i%2})
	}
	few := many.Bounded()
	if len(few) > 200 || len(few) < 100 {
		t.Errorf("%d ranges", len(few))
	}
	if rest := many.Without(few...); len(rest) > 0 {
		t.Errorf("%v is lost", rest)
	}
	if got := many[:150].Bounded(); !slices.Equal(got, many[:150]) {
		t.Errorf("a small set was changed: %v", got)
	}
}

// TestAnsweredMailIsMarkedLater checks which mails of a sent reply are marked: those of the mailbox
// as it is numbered now.
func TestAnsweredMailIsMarkedLater(t *testing.T) {
	cur := state.Cursor{Mailbox: "box", Validity: 7, Next: 9}
	for _, c := range []struct {
		name    string
		now     state.Cursor
		channel state.Channel
		want    []uint32
	}{
		{"by mail", cur, state.ByMail, []uint32{5, 3}},
		{"through the mesh", cur, state.ByMesh, nil},
		{"renumbered", state.Cursor{Mailbox: "box", Validity: 8, Next: 9}, state.ByMail, nil},
		{"another mailbox", state.Cursor{Mailbox: "other", Validity: 7, Next: 9}, state.ByMail, nil},
	} {
		s := state.New("goulard3120", "seed")
		s.Cursor = c.now
		s.ToFlag = state.ToFlag{Mailbox: "box", Validity: 6, UIDs: []uint32{1}}
		answers := []string{cur.Key(5), cur.Key(3), cur.Key(5), "mesh:dorlange3120:5", cur.Key(0)}
		s.Outbox = []state.Effect{{ID: "reply.t1", Kind: state.Reply, Channel: c.channel, To: "op@example.com", Answers: answers, Created: nine}}
		s = state.Step(s, []state.Event{state.Sending{ID: "reply.t1"}, state.Sent{ID: "reply.t1"}}, statetest.Policy(), nine)
		if !slices.Equal(s.ToFlag.Answered, c.want) {
			t.Errorf("%s: to mark %+v", c.name, s.ToFlag)
		}
		if len(c.want) > 0 && (s.ToFlag.Validity != 7 || len(s.ToFlag.UIDs) > 0) {
			t.Errorf("%s: UIDs of two mailboxes are mixed: %+v", c.name, s.ToFlag)
		}
	}
}
