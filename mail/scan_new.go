package mail

import (
	"maps"
	"slices"
	"time"

	"agentstateloop/state"

	"github.com/emersion/go-imap/v2"
)

// This file finds the new mail of a scan, and takes mails by UID.

// scanNew takes the new mail, from the cursor's Next on. It returns the UIDs that an earlier
// scan suspected and that are due. These are owed, but not taken yet.
func (sc *scanner) scanNew() (suspects []uint32, err error) {
	cur := &sc.out.Cursor
	if sc.uidNext != 0 && sc.uidNext <= cur.Next {
		return nil, nil
	}
	if sc.full() {
		return nil, errLimit
	}
	suspected := slices.ContainsFunc(slices.Collect(maps.Keys(cur.Failures)), func(u uint32) bool { return u >= cur.Next })
	few := sc.uidNext-cur.Next <= searchAbove
	if sc.uidNext == 0 {
		few = sc.mails() <= searchAbove
	}
	if !suspected && few {
		return nil, sc.takeRange(cur.Next, sc.uidNext)
	}
	return sc.takeSearched(sc.uidNext)
}

// takeRange takes the mails from first up to but not including end, or up to the end of the
// mailbox if end is 0. It does not depend on which UIDs exist.
func (sc *scanner) takeRange(first, end uint32) error {
	stop := imap.UID(0) // "*"
	if end != 0 {
		stop = imap.UID(end - 1)
	}
	var err error
	heads, ok := sc.newAhead(first, end)
	if !ok {
		heads, err = sc.headers(imap.UIDSet{imap.UIDRange{Start: imap.UID(first), Stop: stop}})
	}
	// "n:*" returns the last message even if its UID is below n. go-imap drops
	// it, but the cursor does not rely on that.
	heads = headsOf(heads, func(u uint32) bool { return u >= first && (end == 0 || u < end) })
	if err != nil && serverRefused(err) {
		_, err := sc.takeSearched(end)
		return err
	}
	if err != nil {
		at := first
		if len(heads) > 0 {
			at = heads[len(heads)-1].uid + 1
		}
		if sc.mayBlameMail(err) {
			sc.countFailure(at, time.Time{}, reasonOf(err))
		}
		return err
	}
	if err := sc.take(heads); err != nil {
		return err
	}
	sc.passTo(end)
	return nil
}

// takeSearched takes, from the cursor on, the mails that the server finds to be from the
// operator, or from a mail server. It leaves out suspected mails, and returns those that are
// due.
func (sc *scanner) takeSearched(end uint32) (suspects []uint32, err error) {
	cur := &sc.out.Cursor
	stop := imap.UID(0)
	if end != 0 {
		stop = imap.UID(end - 1)
	}
	found, more, err := sc.searchOperator(imap.SearchCriteria{UID: []imap.UIDSet{{imap.UIDRange{Start: imap.UID(cur.Next), Stop: stop}}}}, reporters...)
	if err != nil {
		return nil, err
	}
	found = slices.DeleteFunc(found, func(u uint32) bool { return u < cur.Next || end != 0 && u >= end })
	suspects, err = sc.takeFound(found)
	if err != nil {
		return nil, err
	}
	if more {
		return nil, errLimit // the suspects are owed
	}
	sc.passTo(end)
	if end == 0 && len(suspects) > 0 {
		sc.passUpTo(suspects[len(suspects)-1])
	}
	return sc.due(suspects), nil
}

// takeFound takes the mails that a search has found, except owed and suspected ones. Suspected
// mails are owed from now on, and takeFound returns them.
func (sc *scanner) takeFound(found []uint32) (suspects []uint32, err error) {
	var clear []uint32
	for _, u := range found {
		if slices.Contains(sc.out.Cursor.Owed, u) {
			continue // taken as an owed mail
		}
		if sc.inheritFailure(u) {
			sc.owe(u) // before the cursor passes it
			suspects = append(suspects, u)
		} else {
			clear = append(clear, u)
		}
	}
	return suspects, sc.takeUIDs(clear)
}

// inheritFailure moves a failure of "the first mail from here on" to u, if u is that mail.
func (sc *scanner) inheritFailure(u uint32) bool {
	failures := sc.out.Cursor.Failures
	var worst state.Failure
	for at, f := range failures {
		if at > u || slices.Contains(sc.out.Cursor.Owed, at) {
			continue
		}
		if f.Tries > worst.Tries {
			worst = f
		}
		delete(failures, at)
	}
	if worst.Tries > 0 {
		failures[u] = worst
	}
	return worst.Tries > 0
}

// takeUIDs takes mails that exist according to the server.
func (sc *scanner) takeUIDs(uids []uint32) error {
	for chunk := range slices.Chunk(uids, headerChunk) {
		if sc.full() {
			return errLimit
		}
		heads, err := sc.headers(uidSet(chunk))
		heads = headsOf(heads, func(u uint32) bool { return slices.Contains(chunk, u) })
		switch {
		case err != nil && serverRefused(err) && len(chunk) > 1:
			// One of them is broken. Fetching each alone shows which one.
			for _, u := range chunk {
				if err := sc.takeUIDs([]uint32{u}); err != nil {
					return err
				}
			}
			continue
		case err != nil && serverRefused(err):
			sc.fail(chunk[0], time.Time{}, reasonOf(err))
			continue
		case err != nil && len(chunk) == 1:
			if sc.mayBlameMail(err) {
				sc.fail(chunk[0], time.Time{}, reasonOf(err))
			}
			return err
		case err != nil && !sc.mayBlameMail(err):
			return err
		case err != nil:
			if u, ok := firstMissing(chunk, heads); ok {
				sc.countFailure(u, time.Time{}, reasonOf(err))
			}
			return err
		}
		for _, u := range chunk {
			if !containsUID(heads, u) {
				sc.recordMissing(u)
			}
		}
		if err := sc.take(heads); err != nil {
			return err
		}
		for _, u := range chunk {
			sc.passUpTo(u)
		}
	}
	return nil
}

// headsOf returns the heads of the requested UIDs.
func headsOf(heads []head, wanted func(uint32) bool) []head {
	return slices.DeleteFunc(heads, func(h head) bool { return !wanted(h.uid) })
}

// containsUID reports whether the mail with this UID is among heads.
func containsUID(heads []head, uid uint32) bool {
	return slices.ContainsFunc(heads, func(h head) bool { return h.uid == uid })
}

// firstMissing returns the first of uids that is not among heads.
func firstMissing(uids []uint32, heads []head) (uid uint32, ok bool) {
	i := slices.IndexFunc(uids, func(u uint32) bool { return !containsUID(heads, u) })
	if i < 0 {
		return 0, false
	}
	return uids[i], true
}
