package mail

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"agentstateloop/mail/message"
	"agentstateloop/state"

	"github.com/emersion/go-imap/v2"
)

// Where a look finds mail: the cursor placed, what is owed, what is new.

// placeCursor makes the cursor one of this mailbox.
func (sc *scanner) placeCursor() error {
	cur, id := &sc.out.Cursor, sc.mailbox.ID()
	ours := cur.Mailbox == id || cur.Mailbox == "" && !cur.Complete.IsZero()
	// UIDNEXT never falls within one UIDVALIDITY. A mailbox restored from a
	// backup does it all the same, and gives old numbers to new mail.
	fell := sc.uidNext != 0 && sc.uidNext < cur.Next
	switch {
	case ours && cur.Validity == sc.uidValidity && cur.Next > 0 && !fell:
		return nil
	case ours && !cur.Complete.IsZero():
		return sc.resetCursor(imap.SearchCriteria{Since: cur.Complete.UTC().AddDate(0, 0, -1)}, cur.Complete)
	default:
		return sc.resetCursor(imap.SearchCriteria{NotFlag: []imap.Flag{imap.FlagSeen}}, time.Time{})
	}
}

// resetCursor sets the cursor to the mailbox's end and owes what c finds below it.
func (sc *scanner) resetCursor(c imap.SearchCriteria, complete time.Time) error {
	next := sc.uidNext
	if next == 0 {
		last, err := sc.search(imap.SearchCriteria{UID: []imap.UIDSet{{imap.UIDRange{Start: 0, Stop: 0}}}})
		if err != nil {
			return err
		}
		next = 1
		if len(last) > 0 {
			next = last[len(last)-1] + 1
		}
	}
	found, err := sc.search(sc.fromOperator(c))
	if err != nil {
		return err
	}
	found = slices.DeleteFunc(found, func(u uint32) bool { return u >= next })
	sc.out.Cursor = state.Cursor{
		Mailbox: sc.mailbox.ID(), Validity: sc.uidValidity, Next: next, Owed: found, Complete: complete,
	}
	return nil
}

// fromOperator narrows c to mail that may be the operator's. The server
// compares parts of the field only, so that this is never more than a filter
// ahead of the real one; addresses it may not be able to compare lift it.
func (sc *scanner) fromOperator(c imap.SearchCriteria) imap.SearchCriteria {
	var any []imap.SearchCriteria
	for _, op := range sc.filter.Operators {
		if !message.IsASCII(op) || strings.ContainsAny(op, "\r\n\x00") {
			return c
		}
		any = append(any, imap.SearchCriteria{Header: []imap.SearchCriteriaHeaderField{{Key: "From", Value: op}}})
	}
	if len(any) == 0 {
		return c
	}
	from := any[0]
	for _, a := range any[1:] {
		from = imap.SearchCriteria{Or: [][2]imap.SearchCriteria{{from, a}}}
	}
	c.And(&from)
	return c
}

// search gives the UIDs that c finds, ascending.
func (sc *scanner) search(c imap.SearchCriteria) ([]uint32, error) {
	sc.mailbox.startPhase(sc.conn)
	data, err := sc.client.UIDSearch(&c, nil).Wait()
	if err != nil {
		return nil, fmt.Errorf("search: %w", err)
	}
	// AllUIDs would panic on a server that answers with a "*".
	set, _ := data.All.(imap.UIDSet)
	nums, ok := set.Nums()
	if !ok {
		return nil, errors.New("search: the server answered with no UIDs")
	}
	uids := make([]uint32, len(nums))
	for i, u := range nums {
		uids[i] = uint32(u)
	}
	slices.Sort(uids)
	return slices.Compact(uids), nil
}

// scanNew takes what is new from cursor.Next on. It returns the UIDs that are
// under suspicion from an earlier look and were only put among the owed.
func (sc *scanner) scanNew() (suspects []uint32, err error) {
	cur := &sc.out.Cursor
	if sc.uidNext != 0 && sc.uidNext <= cur.Next {
		return nil, nil
	}
	if sc.full() {
		return nil, errLimit
	}
	suspected := slices.ContainsFunc(slices.Collect(maps.Keys(cur.Tries)), func(u uint32) bool { return u >= cur.Next })
	if !suspected && (sc.uidNext == 0 || sc.uidNext-cur.Next <= searchAbove) {
		return nil, sc.takeRange(cur.Next, sc.uidNext)
	}
	return sc.takeSearched(sc.uidNext)
}

// takeRange takes from first up to but without end, or up to the mailbox's end when
// that is 0. Which UIDs exist is not known beforehand.
func (sc *scanner) takeRange(first, end uint32) error {
	stop := imap.UID(0) // "*"
	if end != 0 {
		stop = imap.UID(end - 1)
	}
	heads, err := sc.headers(imap.UIDSet{imap.UIDRange{Start: imap.UID(first), Stop: stop}})
	// "n:*" returns the last message even if that is below n. go-imap drops it;
	// the cursor does not rely on that.
	heads = slices.DeleteFunc(heads, func(h head) bool { return h.uid < first })
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
			sc.suspect(at)
		}
		return err
	}
	if err := sc.take(heads); err != nil {
		return err
	}
	if end != 0 {
		sc.out.Cursor.Next = end
	}
	return nil
}

// takeSearched takes what the server finds from the cursor on to be the
// operator's, leaving out what is under suspicion.
func (sc *scanner) takeSearched(end uint32) (suspects []uint32, err error) {
	cur := &sc.out.Cursor
	stop := imap.UID(0)
	if end != 0 {
		stop = imap.UID(end - 1)
	}
	found, err := sc.search(sc.fromOperator(imap.SearchCriteria{UID: []imap.UIDSet{{imap.UIDRange{Start: imap.UID(cur.Next), Stop: stop}}}}))
	if err != nil {
		return nil, err
	}
	found = slices.DeleteFunc(found, func(u uint32) bool { return u < cur.Next })
	var clear []uint32
	for _, u := range found {
		if slices.Contains(cur.Owed, u) {
			continue // its turn comes as such
		}
		if sc.inheritTries(u) {
			sc.owe(u) // before the cursor passes it
			suspects = append(suspects, u)
		} else {
			clear = append(clear, u)
		}
	}
	if err := sc.takeUIDs(clear); err != nil {
		return nil, err
	}
	if end != 0 {
		cur.Next = end
	} else if len(suspects) > 0 {
		cur.Next = max(cur.Next, suspects[len(suspects)-1]+1)
	}
	return suspects, nil
}

// inheritTries moves the tries noted for "the first UID from here on" to u, if u is
// the first that exists there.
func (sc *scanner) inheritTries(u uint32) bool {
	tries := sc.out.Cursor.Tries
	n := 0
	for at, t := range tries {
		if at >= sc.out.Cursor.Next && at <= u && !slices.Contains(sc.out.Cursor.Owed, at) {
			n = max(n, t)
			delete(tries, at)
		}
	}
	if n > 0 {
		tries[u] = n
	}
	return n > 0
}

// takeUIDs takes uids, which the server said to exist. One that has vanished is
// owed no longer.
func (sc *scanner) takeUIDs(uids []uint32) error {
	for chunk := range slices.Chunk(uids, headerChunk) {
		if sc.full() {
			return errLimit
		}
		heads, err := sc.headers(uidSet(chunk))
		switch {
		case err != nil && serverRefused(err) && len(chunk) > 1:
			// One of them is broken. Alone, each speaks for itself.
			for _, u := range chunk {
				if err := sc.takeUIDs([]uint32{u}); err != nil {
					return err
				}
			}
			continue
		case err != nil && serverRefused(err):
			sc.fail(chunk[0])
			continue
		case err != nil && len(chunk) == 1:
			if sc.mayBlameMail(err) {
				sc.fail(chunk[0])
			}
			return err
		case err != nil && !sc.mayBlameMail(err):
			return err
		case err != nil:
			for _, u := range chunk {
				if !slices.ContainsFunc(heads, func(h head) bool { return h.uid == u }) {
					sc.suspect(u)
					break
				}
			}
			return err
		}
		for _, u := range chunk {
			if !slices.ContainsFunc(heads, func(h head) bool { return h.uid == u }) {
				sc.disown(u)
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
