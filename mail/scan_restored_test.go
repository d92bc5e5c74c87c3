package mail_test

import (
	"math"
	"testing"
	"time"

	"agentstateloop/mail"
	"agentstateloop/state"
)

// before returns the UIDs of the mails of l that were in the mailbox at the restore.
func before(l mail.Scan) (uids []uint32) {
	for _, m := range l.Messages {
		if m.Before {
			uids = append(uids, m.UID)
		}
	}
	return uids
}

// restoredCursor returns the cursor of a mailbox at a backup from which the state was restored.
func restoredCursor(t *testing.T, b mail.Mailbox) state.Cursor {
	t.Helper()
	cur := mustScan(t, b, state.Cursor{}, 10, discard).Cursor
	cur.Restored = &state.RestoredMail{}
	return cur
}

// storyRestored checks which mails count as those of a restored mailbox, and when the restore ends:
// at the first scan that is complete and owes none of them.
func storyRestored(t *testing.T, h host) {
	b := mailboxOf(h)
	b.Large = 10 << 10
	cur := restoredCursor(t, b)
	read, unread := h.append(letter("@goulard3120 read"), true), h.append(letter("@goulard3120 unread"), false)
	large := h.append(longLetter("@goulard3120 large", 50<<10), true)
	last := h.append(letter("@goulard3120 last"), false)

	l := mustScan(t, b, cur, 1, discard)
	wantUIDs(t, "up to the limit", before(l), []uint32{read})
	if r := l.Cursor.Restored; r == nil || r.Below != last+1 {
		t.Fatalf("after the first scan: %+v", r)
	}
	later := h.append(letter("@goulard3120 later"), true)
	l = mustScan(t, b, l.Cursor, 10, discard)
	wantUIDs(t, "taken", uids(l), []uint32{unread, last, later})
	wantUIDs(t, "of the restored mailbox", before(l), []uint32{unread, last})
	if r := l.Cursor.Restored; r == nil || r.Below != last+1 {
		t.Fatalf("while a large mail is owed: %+v", r)
	}
	got, err := fetchLarge(t, b, l.Cursor, large, discard)
	if err != nil {
		t.Fatal(err)
	}
	wantUIDs(t, "fetched apart", before(got), []uint32{large})
	l.Cursor.Settle(large)
	if l = mustScan(t, b, l.Cursor, 10, discard); l.Cursor.Restored != nil {
		t.Errorf("at the end: %+v", l.Cursor.Restored)
	}
	h.append(letter("@goulard3120 new"), true)
	wantUIDs(t, "afterwards", before(mustScan(t, b, l.Cursor, 10, discard)), nil)
}

// storyRestoredFailing checks that a mail which cannot be fetched holds the restore open.
func storyRestoredFailing(t *testing.T, h host) {
	cur := restoredCursor(t, mailboxOf(h))
	last := h.append(letter("@goulard3120 last"), true)
	cur.Next, cur.Owed = last+1, []uint32{last}
	cur.Failures = map[uint32]state.Failure{last: {Tries: 3, Next: noon.Add(time.Hour)}}
	l := mustScan(t, mailboxOf(h), cur, 10, discard)
	if r := l.Cursor.Restored; r == nil || r.Below != last+1 {
		t.Errorf("while its next try is ahead: %+v", r)
	}
	delete(l.Cursor.Failures, last)
	l = mustScan(t, mailboxOf(h), l.Cursor, 10, discard)
	wantUIDs(t, "at last", before(l), []uint32{last})
	if l.Cursor.Restored != nil {
		t.Errorf("at the end: %+v", l.Cursor.Restored)
	}
}

// TestRestoredWaitsForUnseen checks that UIDs which no answer shows hold the restore open, until a
// second session agrees that they are gone.
func TestRestoredWaitsForUnseen(t *testing.T) {
	w := newWithholding(t)
	w.cur.Restored = &state.RestoredMail{}
	w.expunge(w.put("@goulard3120 gone"))
	last := w.put("@goulard3120 last")
	wantUIDs(t, "first", before(w.scan()), []uint32{last})
	if w.cur.Restored == nil || len(w.cur.Unseen) == 0 {
		t.Errorf("after one session: %+v", w.cur)
	}
	if w.scan(); w.cur.Restored != nil {
		t.Errorf("after two sessions: %+v", w.cur)
	}
}

// storyRestoredRenumbered checks a mailbox whose UIDs changed, or that was restored from a backup
// itself, since the backup: all its mail counts.
func storyRestoredRenumbered(t *testing.T, h host) {
	if h.renumber == nil {
		t.Skip("this server's mailboxes are not renumbered by hand")
	}
	b := mailboxOf(h)
	b.Now = time.Now
	h.append(letter("@goulard3120 taken"), false)
	cur := restoredCursor(t, b)
	cur.Restored.Below = 1
	h.renumber()
	read := h.append(letter("@goulard3120 read"), true)
	for range 2 { // the second session looks once more
		l := mustScan(t, b, cur, 10, discard)
		if cur.Validity != l.Cursor.Validity {
			wantUIDs(t, "renumbered", before(l), []uint32{read})
			if r := l.Cursor.Restored; r == nil || r.Below != read+1 {
				t.Errorf("renumbered: %+v", r)
			}
		} else if l.Cursor.Restored != nil {
			t.Errorf("in the second session: %+v", l.Cursor.Restored)
		}
		cur = l.Cursor
	}
	cur.Next, cur.Restored = math.MaxUint32-100, &state.RestoredMail{Below: math.MaxUint32 - 100}
	l := mustScan(t, b, cur, 10, discard)
	wantUIDs(t, "UIDNEXT fell", before(l), []uint32{read})
	if r := l.Cursor.Restored; r == nil || r.Below != read+1 {
		t.Errorf("UIDNEXT fell: %+v", r)
	}
	l = mustScan(t, b, state.Cursor{Mailbox: "another", Next: 7, Validity: 1, Complete: noon, Restored: &state.RestoredMail{Below: 7}}, 10, discard)
	if l.Cursor.Restored != nil || len(l.Messages) > 0 {
		t.Errorf("another mailbox without unread mail: %+v", l.Cursor)
	}
}

// storyRestoredSweep checks that a mail which a sweep finds counts, too.
func storyRestoredSweep(t *testing.T, h host) {
	b := mailboxOf(h)
	b.Now, b.Sweep = time.Now, true
	missed := h.append(letter("@goulard3120 missed"), false)
	cur := restoredCursor(t, b)
	wantUIDs(t, "by the sweep", before(mustScan(t, b, cur, 10, discard)), []uint32{missed})
}
