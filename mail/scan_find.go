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

// This file finds the mails of a scan: those that are owed and those that are
// new.

// placeCursor makes the cursor a cursor of this mailbox.
func (sc *scanner) placeCursor() error {
	cur, id := &sc.out.Cursor, sc.mailbox.ID()
	ours := cur.Mailbox == id || cur.Mailbox == "" && !cur.Complete.IsZero()
	// UIDNEXT must not fall while UIDVALIDITY stays. That of a mailbox restored
	// from a backup does fall, and new mail then has old numbers.
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

// resetCursor sets the cursor to the end of the mailbox. What c finds below it
// is owed.
func (sc *scanner) resetCursor(c imap.SearchCriteria, complete time.Time) error {
	next := sc.uidNext
	if next == 0 {
		last, _, err := sc.search(imap.SearchCriteria{UID: []imap.UIDSet{{imap.UIDRange{Start: 0, Stop: 0}}}})
		if err != nil {
			return err
		}
		next = 1
		if len(last) > 0 {
			next = last[len(last)-1] + 1 // search returns no UID without a successor
		}
	}
	found, more, err := sc.search(sc.fromOperator(c))
	if err != nil {
		return err
	}
	if more {
		return fmt.Errorf("search: the server answered with more than %d mails of the operator, too many to begin with", maxFound)
	}
	found = slices.DeleteFunc(found, func(u uint32) bool { return u >= next })
	sc.out.Cursor = state.Cursor{
		Mailbox: sc.mailbox.ID(), Validity: sc.uidValidity, Next: next, Owed: found, Complete: complete,
	}
	return nil
}

// fromOperator narrows c to mail that may be from the operator. The server
// compares only parts of the From field, so this is just a filter ahead of the
// real one. With an address that the server may not be able to compare, c stays
// as it is.
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

// search returns the UIDs that c finds, ascending. Of more than maxFound it
// returns the first ones, and more is true.
func (sc *scanner) search(c imap.SearchCriteria) (uids []uint32, more bool, err error) {
	sc.mailbox.startPhase(sc.conn)
	answer := uidLength * int64(min(sc.mails(), maxFound))
	sc.conn.allow(answer)
	sc.conn.paced.expect(answer)
	data, err := sc.client.UIDSearch(&c, nil).Wait()
	if err != nil {
		return nil, false, fmt.Errorf("search: %w", err)
	}
	set, ok := data.All.(imap.UIDSet)
	if !ok && data.All != nil {
		return nil, false, errors.New("search: the server answered without UIDs")
	}
	// A mail that has just come is counted only now.
	if uids, more, err = foundUIDs(set, sc.mails()); err != nil {
		return nil, false, fmt.Errorf("search: %w", err)
	}
	return uids, more, nil
}

// scanNew takes the new mail, from the cursor's Next on. It returns the UIDs
// that an earlier scan suspected; these were only added to the owed ones.
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

// takeRange takes the mails from first up to, but without, end, or up to the
// end of the mailbox if end is 0. It does not depend on which UIDs exist.
func (sc *scanner) takeRange(first, end uint32) error {
	stop := imap.UID(0) // "*"
	if end != 0 {
		stop = imap.UID(end - 1)
	}
	heads, err := sc.headers(imap.UIDSet{imap.UIDRange{Start: imap.UID(first), Stop: stop}})
	// "n:*" returns the last message even if its UID is below n. go-imap drops
	// it, but the cursor does not rely on that.
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

// takeSearched takes, from the cursor on, the mails that the server finds to be
// from the operator. It leaves out those that are under suspicion.
func (sc *scanner) takeSearched(end uint32) (suspects []uint32, err error) {
	cur := &sc.out.Cursor
	stop := imap.UID(0)
	if end != 0 {
		stop = imap.UID(end - 1)
	}
	found, more, err := sc.search(sc.fromOperator(imap.SearchCriteria{UID: []imap.UIDSet{{imap.UIDRange{Start: imap.UID(cur.Next), Stop: stop}}}}))
	if err != nil {
		return nil, err
	}
	found = slices.DeleteFunc(found, func(u uint32) bool { return u < cur.Next })
	var clear []uint32
	for _, u := range found {
		if slices.Contains(cur.Owed, u) {
			continue // it is taken as an owed mail
		}
		if sc.inheritTries(u) {
			sc.owe(u) // now, before the cursor passes it
			suspects = append(suspects, u)
		} else {
			clear = append(clear, u)
		}
	}
	if err := sc.takeUIDs(clear); err != nil {
		return nil, err
	}
	if more {
		return nil, errLimit // the suspects are owed
	}
	if end != 0 {
		cur.Next = end
	} else if len(suspects) > 0 {
		cur.Next = max(cur.Next, suspects[len(suspects)-1]+1)
	}
	return suspects, nil
}

// inheritTries moves the tries counted for "the first UID from here on" to u,
// if u is the first UID that exists there.
func (sc *scanner) inheritTries(u uint32) bool {
	failures := sc.out.Cursor.Failures
	var worst state.Failure
	for at, f := range failures {
		if at >= sc.out.Cursor.Next && at <= u && !slices.Contains(sc.out.Cursor.Owed, at) {
			if f.Tries > worst.Tries {
				worst = f
			}
			delete(failures, at)
		}
	}
	if worst.Tries > 0 {
		failures[u] = worst
	}
	return worst.Tries > 0
}

// takeUIDs takes mails that the server said to exist. A mail that has vanished
// stops being owed.
func (sc *scanner) takeUIDs(uids []uint32) error {
	for chunk := range slices.Chunk(uids, headerChunk) {
		if sc.full() {
			return errLimit
		}
		heads, err := sc.headers(uidSet(chunk))
		switch {
		case err != nil && serverRefused(err) && len(chunk) > 1:
			// One of them is broken. Fetched alone, each shows whether it is.
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
