package state

import (
	"slices"
	"time"
)

// Large mail is fetched apart from the scans (docs/design.md, "Large mail").

// LargeDue returns the UIDs of the large mails to fetch now: first those not tried yet, then those
// whose next try is due, longest waiting first.
func (c Cursor) LargeDue(now time.Time) []uint32 {
	due := slices.DeleteFunc(slices.Clone(c.Large), func(uid uint32) bool {
		f, failing := c.Failures[uid]
		return failing && !f.Due(now)
	})
	slices.SortStableFunc(due, func(a, b uint32) int { return c.Failures[a].Next.Compare(c.Failures[b].Next) })
	return due
}

// LargeMails returns the keys of the large mails that are being fetched or come next. A mail whose
// fetch failed is in FailingMails.
func (s State) LargeMails() []string {
	var keys []string
	for _, uid := range s.Cursor.Large {
		if _, failing := s.Cursor.Failures[uid]; !failing {
			keys = append(keys, s.Cursor.Key(uid))
		}
	}
	return keys
}

// Owes reports whether uid is still to be read.
func (c Cursor) Owes(uid uint32) bool {
	_, found := slices.BinarySearch(c.Owed, uid)
	return found
}

// Settle removes uid from all lists of mail that is still to be read.
func (c *Cursor) Settle(uid uint32) {
	is := func(u uint32) bool { return u == uid }
	c.Owed = slices.DeleteFunc(c.Owed, is)
	c.Large = slices.DeleteFunc(c.Large, is)
	delete(c.Failures, uid)
}

// sameMailbox reports whether a UID names the same mail in both cursors.
func (c Cursor) sameMailbox(other Cursor) bool {
	return c.Mailbox == other.Mailbox && c.Validity == other.Validity
}

// LargeFetched reports the result of fetching one large mail. Cursor is about this mail alone. It
// still owes the mail, with its failure; or it has the mail in Unseen, because no answer has shown
// it; or it has dropped the mail, because it came or is not for us. A mail that came has its own
// event in the same step.
type LargeFetched struct {
	UID    uint32
	Cursor Cursor
}

// apply merges the result into the cursor, which a scan may have moved meanwhile. A UID of another
// or a renumbered mailbox is meaningless.
func (e LargeFetched) apply(m *machine) {
	if !m.Cursor.sameMailbox(e.Cursor) {
		m.foreign = true
		return
	}
	if !m.Cursor.Owes(e.UID) {
		return // dropped meanwhile
	}
	f, fails := e.Cursor.Failures[e.UID]
	switch {
	case e.Cursor.Owes(e.UID) && fails:
		f.Told = max(f.Told, m.Cursor.Failures[e.UID].Told)
		if m.Cursor.Failures == nil {
			m.Cursor.Failures = map[uint32]Failure{}
		}
		m.Cursor.Failures[e.UID] = f
		m.tellFailing()
	case e.Cursor.Owes(e.UID):
		// It waits for a proof of its sender, without a failure.
	default:
		m.Cursor.Settle(e.UID)
	}
	if e.Cursor.Unseen.Contains(e.UID) {
		m.Cursor.Unseen = m.Cursor.Unseen.With(UIDRange{First: e.UID, Last: e.UID}).Bounded()
	}
}

// Redacted implements [Redactable].
func (e LargeFetched) Redacted(redact func(string) string) Event {
	e.Cursor = *e.Cursor.redacted(redact)
	return e
}

// keepLarge merges the large fetches since a scan began into the scan's cursor c. was are the large
// mails that the scan began with. A mail settled since then is not owed again, and a large mail has
// the failure of its last fetch.
func (m *machine) keepLarge(c *Cursor, was []uint32) {
	if !c.sameMailbox(m.Cursor) {
		return
	}
	for _, uid := range was {
		f, fails := m.Cursor.Failures[uid]
		switch {
		case !m.Cursor.Owes(uid):
			c.Settle(uid)
		case fails && c.Owes(uid):
			if c.Failures == nil {
				c.Failures = map[uint32]Failure{}
			}
			c.Failures[uid] = f
		}
		if m.Cursor.Unseen.Contains(uid) {
			c.Unseen = c.Unseen.With(UIDRange{First: uid, Last: uid}).Bounded()
		}
	}
}

// largeUnderWay reports whether a large mail is due or on its way. A mail that waits for its next
// try is not.
func (m *machine) largeUnderWay() bool { return len(m.Cursor.LargeDue(m.now)) > 0 }
