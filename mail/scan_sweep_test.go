package mail_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"agentstateloop/internal/testkit/mailtest"
	"agentstateloop/mail"
	"agentstateloop/state"
)

// TestSweepTakesMissedMail checks that a sweep takes exactly the operator's unread mail of the last
// week that the state does not know, with one search.
func TestSweepTakesMissedMail(t *testing.T) {
	w := newWithholding(t)
	missed := w.put("@goulard3120 missed")
	known := w.put("@goulard3120 known")
	read := w.put("@goulard3120 read")
	w.put("@dorlange3120 of another agent")
	w.Put(letter("@goulard3120 of a stranger", "operator@example.com", "stranger@example.net"), w.now)
	w.Put(letter("@goulard3120 old"), w.now.AddDate(0, 0, -9))
	owed := w.put("@goulard3120 owed")
	w.Do(func(s *mailtest.Scripted) { s.Mails[read].Seen = true })
	w.cur.Next, w.cur.Owed = owed+1, []uint32{owed} // as a bug would leave it
	w.box.Sweep, w.box.Known = true, func(key string) bool { return key == w.cur.Key(known) }
	fresh := w.put("@goulard3120 new")

	l := w.scan()
	wantUIDs(t, "taken", uids(l), []uint32{missed, owed, fresh})
	if l.Swept == nil || !slices.Equal(l.Swept.Keys, []string{w.cur.Key(missed)}) || l.Swept.Looked != 5 {
		t.Errorf("swept %+v", l.Swept)
	}
	if searches := strings.Count(strings.Join(w.Commands, "\n"), "SEARCH"); searches != 1 {
		t.Errorf("%d searches: %q", searches, w.Commands)
	}
	if !w.cur.Swept.Equal(w.now) {
		t.Errorf("swept at %v, want %v", w.cur.Swept, w.now)
	}
	w.box.Sweep = false
	w.wantSettled()
}

// TestSweepAfterBaseline checks that mail that the search of a baseline misses is taken by the sweep
// of the next scan.
func TestSweepAfterBaseline(t *testing.T) {
	w := newWithholding(t)
	missed := w.put("@goulard3120 missed")
	w.answer("SEARCH", emptySearch)
	w.cur, w.box.Sweep = state.Cursor{}, true
	if l := w.scan(); l.Swept != nil || !w.cur.Swept.IsZero() || len(w.Commands) != 1 {
		t.Errorf("swept %+v, asked %q", l.Swept, w.Commands)
	}
	w.tellTruth()
	wantUIDs(t, "by the sweep", uids(w.scan()), []uint32{missed})
}

// TestFailedSweep checks that a refused or broken sweep is repeated, and does not delay other mail.
func TestFailedSweep(t *testing.T) {
	for name, answer := range map[string]string{
		"refused": "TAG NO not today\r\n", "not known": "TAG BAD what\r\n", "hung up": mailtest.HangUp,
		"unavailable": "TAG NO [UNAVAILABLE] later\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			w := newWithholding(t)
			missed := w.put("@goulard3120 missed")
			w.cur.Next, w.box.Sweep = missed+1, true
			w.answer("SEARCH", answer)
			fresh := w.put("@goulard3120 new")
			l := w.scan()
			wantUIDs(t, "the new one", uids(l), []uint32{fresh})
			if !w.cur.Swept.IsZero() || (l.SweepErr == nil) != (answer == mailtest.HangUp) {
				t.Errorf("swept at %v, error %v", w.cur.Swept, l.SweepErr)
			}
			w.tellTruth()
			w.Do(func(s *mailtest.Scripted) { s.Mails[fresh].Seen = true })
			wantUIDs(t, "by the next sweep", uids(w.scan()), []uint32{missed})
		})
	}
}

// TestSweepOfBrokenMail checks that a mail that breaks the connection of a sweep stays pending, and
// that the sweep takes the other mail.
func TestSweepOfBrokenMail(t *testing.T) {
	w := newWithholding(t)
	bad, other := w.put("@goulard3120 bad"), w.put("@goulard3120 other")
	w.cur.Next, w.box.Sweep = other+1, true
	w.lie(always, about(bad, atEach(mailtest.HangUp)))
	var got []uint32
	for range 4 {
		got = append(got, uids(w.scan())...)
	}
	wantUIDs(t, "the other", got, []uint32{other})
	if !slices.Equal(w.cur.Owed, []uint32{bad}) || w.cur.Swept.IsZero() {
		t.Errorf("cursor %+v", w.cur)
	}
}

// TestSweepIsBounded checks that a sweep examines only the newest of very many mails, and does not
// report a rejection twice.
func TestSweepIsBounded(t *testing.T) {
	w := newWithholding(t)
	var all []uint32
	for i := range 700 {
		all = append(all, w.put(fmt.Sprint("@dorlange3120 ", i)))
	}
	lost := w.put("@goulard3120 lost")
	forged := w.Put(letter("@goulard3120 forged", "\r\n\r\nhello", "\r\nAuto-Submitted: auto-replied\r\n\r\nhello"), w.now)
	w.cur.Next, w.box.Sweep = forged+1, true
	w.box.Room = func(*mail.Message) bool { return false }
	l := w.scan()
	wantUIDs(t, "taken", uids(l), []uint32{lost})
	commands := strings.Join(w.Commands, "\n")
	if strings.Contains(commands, fmt.Sprintf("FETCH %d:", all[0])) || !strings.Contains(commands, fmt.Sprintf("FETCH %d:%d ", forged-499, forged)) {
		t.Errorf("asked %q", w.Commands)
	}
	if len(l.Beyond)+len(l.Further) != 0 {
		t.Errorf("loud about %v, %v", l.Beyond, l.Further)
	}
}

// storySweep sweeps a real server twice: the second sweep has no result.
func storySweep(t *testing.T, h host) {
	b := mailboxOf(h)
	b.Now = time.Now
	cur := mustScan(t, b, state.Cursor{}, 10, discard).Cursor
	h.append(letter("@goulard3120 read"), true)
	missed := h.append(letter("@goulard3120 missed"), false)
	h.append(letter("@goulard3120 a stranger", "operator@example.com", "stranger@example.net"), false)
	cur.Next = missed + 2
	b.Sweep = true
	l := mustScan(t, b, cur, 10, discard)
	wantUIDs(t, "swept", uids(l), []uint32{missed})
	if l.Swept == nil || l.Swept.Looked != 1 || l.Cursor.Swept.IsZero() {
		t.Errorf("swept %+v, cursor %+v", l.Swept, l.Cursor)
	}
	b.Known = func(key string) bool { return key == cur.Key(missed) }
	if l = mustScan(t, b, l.Cursor, 10, discard); len(l.Messages) != 0 || l.Swept.Looked != 1 {
		t.Errorf("swept again %+v, taken %v", l.Swept, uids(l))
	}
}
