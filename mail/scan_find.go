package mail

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"agentstateloop/internal/order"
	"agentstateloop/mail/message"
	"agentstateloop/state"

	"github.com/emersion/go-imap/v2"
)

// This file places the cursor and searches.

// placeCursor makes the cursor one of this mailbox.
func (sc *scanner) placeCursor() error {
	cur, id := &sc.out.Cursor, sc.mailbox.ID()
	ours := cur.Mailbox == id || cur.Mailbox == "" && !cur.Complete.IsZero()
	// UIDNEXT must not fall while UIDVALIDITY stays. It does fall if the mailbox was restored
	// from a backup, and new mail then has old numbers.
	fell := sc.uidNext != 0 && sc.uidNext < cur.Next
	switch {
	case ours && cur.Validity == sc.uidValidity && cur.Next > 0 && !fell:
		return nil
	case ours && !cur.Complete.IsZero():
		again := sinceComplete(*cur)
		if cur.Restored != nil && cur.Mailbox == "" {
			again.Unread = true // the backup never read the mailbox, so this is a baseline as well
		}
		err := sc.resetCursor(rereadSearch(again), cur.Complete)
		if err == nil {
			cur.Reread = &again
		}
		return err
	default:
		return sc.resetCursor(imap.SearchCriteria{NotFlag: []imap.Flag{imap.FlagSeen}}, time.Time{})
	}
}

// resetCursor sets the cursor to the end of the mailbox. The mails below it that c finds are
// owed.
func (sc *scanner) resetCursor(c imap.SearchCriteria, complete time.Time) error {
	next, err := sc.end()
	if err != nil {
		return err
	}
	var others []string
	if !complete.IsZero() {
		others = reporters // a report may have come since then
	}
	found, more, err := sc.searchOperator(c, others...)
	if err != nil {
		return err
	}
	if more {
		return fmt.Errorf("search: the server returned more than %d mails from the operator, too many for a first scan", maxFound)
	}
	found = slices.DeleteFunc(found, func(u uint32) bool { return u >= next })
	sc.reset = true
	old := sc.out.Cursor
	sc.out.Cursor = state.Cursor{
		Mailbox: sc.mailbox.ID(), Validity: sc.uidValidity, Next: next, Owed: found, Complete: complete,
	}
	if old.Restored != nil {
		sc.out.Cursor.Restored = &state.RestoredMail{Below: next} // its UIDs are other ones now
	}
	if old.Mailbox != sc.mailbox.ID() || old.Validity != sc.uidValidity {
		return nil
	}
	// The UIDs are still valid.
	sc.out.Cursor.Reports = slices.DeleteFunc(old.Reports, func(r state.UnreadReport) bool { return r.UID >= next })
	for _, u := range old.Owed {
		if f, failing := old.Failures[u]; failing && u < next {
			sc.owe(u)
			sc.setFailure(u, f)
		}
	}
	sc.recordUnseen(old.Unseen.Without(state.UIDRange{First: next, Last: math.MaxUint32})...)
	return nil
}

// end returns the UID after the last mail of the mailbox.
func (sc *scanner) end() (uint32, error) {
	if sc.uidNext != 0 {
		return sc.uidNext, nil
	}
	last, _, err := sc.search(imap.SearchCriteria{UID: []imap.UIDSet{{imap.UIDRange{Start: 0, Stop: 0}}}})
	if err != nil || len(last) == 0 {
		return 1, err
	}
	return last[len(last)-1] + 1, nil // search returns no UID without a successor
}

// placeRestored records which mail was in the mailbox at the first scan after a restore.
func (sc *scanner) placeRestored() error {
	restored := sc.out.Cursor.Restored
	if restored == nil || restored.Below != 0 {
		return nil
	}
	var err error
	restored.Below, err = sc.end()
	return err
}

// endRestored ends the restore once all mail that was in the mailbox then has been read. Until then a
// large mail, a failed fetch or a UID that was not shown holds it open.
func (sc *scanner) endRestored() {
	if !sc.out.Cursor.OwesRestored(true) {
		sc.out.Cursor.Restored = nil
	}
}

// rereadAll is how far before Complete a renumbered mailbox is read again, including read mail,
// to find a mail that could not be fetched. The state knows the mails accepted since then.
const rereadAll = 13 * 24 * time.Hour

// sinceComplete returns which mail to read again: the mail since the mailbox was last read to
// its end, and the mail that could not be fetched until then.
func sinceComplete(cur state.Cursor) state.Reread {
	since, oldest, unknown := cur.Complete, cur.Complete, false
	for _, u := range cur.Owed {
		f, failing := cur.Failures[u]
		switch {
		case !failing:
		case f.After.IsZero():
			unknown = true
		case f.After.Before(cur.Complete.Add(-rereadAll)):
			oldest = earlier(oldest, f.After)
		default:
			since, oldest = earlier(since, f.After), earlier(oldest, f.After)
		}
	}
	r := state.Reread{All: since, Unread: unknown || !oldest.Equal(since)}
	if r.Unread && !unknown {
		r.UnreadSince = oldest
	}
	return r
}

// rereadSearch returns the search that finds the mail to read again.
func rereadSearch(r state.Reread) imap.SearchCriteria {
	all := imap.SearchCriteria{Since: dayBefore(r.All)}
	if !r.Unread {
		return all
	}
	unread := imap.SearchCriteria{NotFlag: []imap.Flag{imap.FlagSeen}}
	if !r.UnreadSince.IsZero() {
		unread.Since = dayBefore(r.UnreadSince)
	}
	return imap.SearchCriteria{Or: [][2]imap.SearchCriteria{{all, unread}}}
}

func dayBefore(t time.Time) time.Time { return t.UTC().AddDate(0, 0, -1) }

func earlier(t, u time.Time) time.Time {
	if u.Before(t) {
		return u
	}
	return t
}

// FromOperator narrows c to mail that may be from the operator or from others. The server
// compares only parts of the From field, so this is only a filter ahead of the real one. If the
// server may be unable to compare an address, c stays unchanged.
func (sc *scanner) fromOperator(c imap.SearchCriteria, others ...string) imap.SearchCriteria {
	var any []imap.SearchCriteria
	for _, op := range slices.Concat(sc.judge.Filter.Operators, others) {
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

// searchOperator searches for c among the mail that may be from the operator. A server that
// cannot parse one of the mails may refuse to compare its From field. searchOperator then
// searches for c alone, which requires no parsing.
func (sc *scanner) searchOperator(c imap.SearchCriteria, others ...string) (uids []uint32, more bool, err error) {
	uids, more, err = sc.search(sc.fromOperator(c, others...))
	if err != nil && serverRefused(err) {
		return sc.search(c)
	}
	return uids, more, err
}

// search returns the UIDs that c finds, ascending. Of more than maxFound UIDs it returns the
// first ones, and more is true.
func (s *Session) search(c imap.SearchCriteria) (uids []uint32, more bool, err error) {
	s.mailbox.startPhase(s.conn)
	answer := uidLength * int64(min(s.mails(), maxFound))
	s.conn.allow(answer)
	s.conn.paced.expect(answer)
	data, err := s.client.UIDSearch(&c, nil).Wait()
	if err != nil {
		return nil, false, fmt.Errorf("search: %w", err)
	}
	set, ok := data.All.(imap.UIDSet)
	if !ok && data.All != nil {
		return nil, false, errors.New("search: the server returned no UIDs")
	}
	// Mail that has just come is counted only now.
	if uids, more, err = foundUIDs(set, s.mails()); err != nil {
		return nil, false, fmt.Errorf("search: %w", err)
	}
	return uids, more, nil
}

const (
	maxFound  = 1 << 18 // UIDs that one search returns
	uidLength = 11      // bytes of a UID in the answer to a search, with its blank
)

// errLastUID is the error for the last possible UID. It leaves no UID for the next mail, and a
// cursor could not be placed after it.
var errLastUID = fmt.Errorf("the server returned the UID %d, which leaves no UID for new mail", uint32(math.MaxUint32))

// foundUIDs returns the UIDs in set, the answer to a search of a mailbox that holds at most the
// given number of mails. The UIDs are ascending and unique. Of more than maxFound UIDs it
// returns the first ones, and more is true.
//
// It counts the set before it expands it: a few bytes can name four billion UIDs. A set with
// more UIDs than mails is an error, and so is a set with "*", with 0, or with the last possible
// UID.
func foundUIDs(set imap.UIDSet, mails uint32) (uids []uint32, more bool, err error) {
	ranges := slices.Clone(set)
	for i, r := range ranges {
		if r.Start == 0 || r.Stop == 0 {
			return nil, false, errors.New("the server returned no UIDs")
		}
		ranges[i] = imap.UIDRange{Start: min(r.Start, r.Stop), Stop: max(r.Start, r.Stop)}
	}
	order.Sort(ranges, func(a, b imap.UIDRange) int { return cmp.Compare(a.Start, b.Start) })

	var count, past uint64 // past is the first UID that is not counted yet
	for i, r := range ranges {
		first, end := max(uint64(r.Start), past), uint64(r.Stop)+1
		if end > math.MaxUint32 {
			return nil, false, errLastUID
		}
		count += max(first, end) - first
		past = max(past, end)
		ranges[i] = imap.UIDRange{Start: imap.UID(first), Stop: imap.UID(max(first, end) - 1)}
	}
	if count > uint64(mails) {
		return nil, false, fmt.Errorf("the server returned %d UIDs for a mailbox of %d mails", count, mails)
	}
	uids = make([]uint32, 0, min(count, maxFound))
	for _, r := range ranges {
		for u := r.Start; u <= r.Stop; u++ {
			if len(uids) == maxFound {
				return uids, true, nil
			}
			uids = append(uids, uint32(u))
		}
	}
	return uids, false, nil
}
