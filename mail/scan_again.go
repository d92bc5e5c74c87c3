package mail

import (
	"fmt"
	"slices"
	"time"

	"agentstateloop/state"

	"github.com/emersion/go-imap/v2"
)

// This file requests again the UIDs that no answer has shown (docs/protocol.md, "Keys and the
// cursor").

// lookAgain requests exactly the UIDs that earlier sessions did not show, and takes the mails
// that come. The other UIDs are gone, and are passed.
func (sc *scanner) lookAgain(ranges state.UIDRanges) error {
	if len(ranges) == 0 {
		return nil
	}
	if sc.full() {
		return errLimit
	}
	suspected := func() bool {
		for u := range sc.out.Cursor.Failures {
			if ranges.Contains(u) {
				return true
			}
		}
		return false
	}
	if ranges.Count() > searchAbove || suspected() {
		return sc.searchAgain(ranges)
	}
	var err error
	heads, ok := sc.againAhead(ranges)
	if !ok {
		heads, err = sc.headers(setOf(ranges))
	}
	heads = headsOf(heads, ranges.Contains)
	if err != nil && serverRefused(err) {
		return sc.searchAgain(ranges)
	}
	if err != nil {
		if at, ok := firstMissingIn(ranges, heads); ok && sc.mayBlameMail(err) {
			sc.countFailure(at, time.Time{}, reasonOf(err))
		}
		return err
	}
	// A set that was kept small contains UIDs between the unshown ones.
	if err := sc.take(headsOf(heads, func(u uint32) bool { return !sc.known(u) })); err != nil {
		return err
	}
	sc.passAbsent(ranges)
	return nil
}

// searchAgain is lookAgain for very many UIDs, or after an earlier answer has broken off. The
// server searches them for mails of the operator.
func (sc *scanner) searchAgain(ranges state.UIDRanges) error {
	found, more, err := sc.searchOperator(imap.SearchCriteria{UID: []imap.UIDSet{setOf(ranges)}})
	if err != nil {
		return err
	}
	found = slices.DeleteFunc(found, func(u uint32) bool { return !ranges.Contains(u) || sc.known(u) })
	if _, err := sc.takeFound(found); err != nil {
		return err
	}
	if more {
		return errLimit
	}
	for _, u := range found {
		ranges = ranges.Without(state.UIDRange{First: u, Last: u}) // it exists, but may still not be shown
	}
	sc.passAbsent(ranges)
	return nil
}

// passAbsent passes the UIDs that a second session has not shown.
func (sc *scanner) passAbsent(absent state.UIDRanges) {
	cur := &sc.out.Cursor
	cur.Unseen = cur.Unseen.Without(absent...).Bounded()
	for u := range cur.Failures {
		if absent.Contains(u) && !slices.Contains(cur.Owed, u) {
			delete(cur.Failures, u) // the answer did not break off at a mail for us
		}
	}
}

// rereadAgain searches once more for the mail of a renumbered mailbox, in the session after the
// one that detected the renumbering.
func (sc *scanner) rereadAgain() error {
	again := sc.before.Reread
	if again == nil || sc.reset {
		return nil
	}
	found, _, err := sc.searchOperator(rereadSearch(*again))
	if err != nil {
		return err
	}
	missed := slices.DeleteFunc(found, func(u uint32) bool {
		return u >= sc.before.Next || sc.known(u) || sc.hasTaken(u) || sc.out.Cursor.Unseen.Contains(u)
	})
	if _, err := sc.takeFound(missed); err != nil {
		return err
	}
	sc.out.Cursor.Reread = nil
	return nil
}

// known reports whether u is owed, or belongs to a mail that was taken or rejected.
func (sc *scanner) known(u uint32) bool {
	return sc.out.Cursor.Owes(u) || sc.mailbox.Known != nil && sc.mailbox.Known(sc.out.Cursor.Key(u))
}

// hasTaken reports whether this scan has taken u.
func (sc *scanner) hasTaken(u uint32) bool {
	return slices.ContainsFunc(sc.out.Messages, func(m Message) bool { return m.UID == u })
}

// setOf returns ranges as a set for a command.
func setOf(ranges state.UIDRanges) imap.UIDSet {
	var set imap.UIDSet
	for _, r := range ranges {
		set.AddRange(imap.UID(r.First), imap.UID(r.Last))
	}
	return set
}

// firstMissingIn returns the first UID of ranges that is not among heads.
func firstMissingIn(ranges state.UIDRanges, heads []head) (uid uint32, ok bool) {
	for _, h := range heads {
		ranges = ranges.Without(state.UIDRange{First: h.uid, Last: h.uid})
	}
	if len(ranges) == 0 {
		return 0, false
	}
	return ranges[0].First, true
}

// This file sweeps: it compares the operator's unread mail with the mail that the state knows
// (docs/protocol.md, "Keys and the cursor").

const (
	sweepDays = 7   // maximum age of the mail in a sweep
	maxSwept  = 500 // maximum number of mails in a sweep, the newest
)

// Sweep is the result of a sweep.
type Sweep struct {
	Looked int      // unread mails of the operator in the last week
	Keys   []string // of the missed mails, which are in Messages
}

// sweepSearch returns the search for unread mail before the UID next.
func sweepSearch(next uint32, now time.Time) imap.SearchCriteria {
	return imap.SearchCriteria{
		UID:     []imap.UIDSet{{imap.UIDRange{Start: 1, Stop: imap.UID(next - 1)}}},
		Since:   now.AddDate(0, 0, -sweepDays),
		NotFlag: []imap.Flag{imap.FlagSeen},
	}
}

// newest returns the last UIDs, at most maxSwept.
func newest(uids []uint32) []uint32 { return uids[max(0, len(uids)-maxSwept):] }

// sweep takes the unread mail of the last week that the state does not know. A
// refusal of its search is not an error of the scan.
func (sc *scanner) sweep() error {
	if !sc.mailbox.Sweep || sc.reset || sc.before.Next <= 1 || sc.full() {
		return nil
	}
	cur := &sc.out.Cursor
	now := sc.mailbox.now().UTC()
	found, _, err := sc.searchOperator(sweepSearch(sc.before.Next, now))
	if err != nil && refusal(err) {
		sc.out.SweepErr = fmt.Errorf("sweep: %w", err)
		return nil
	}
	if err != nil {
		return fmt.Errorf("sweep: %w", err)
	}
	missed := slices.DeleteFunc(slices.Clone(found), func(u uint32) bool {
		return u >= sc.before.Next || sc.known(u) || cur.Unseen.Contains(u) || sc.hasTaken(u)
	})

	n := len(sc.out.Messages)
	sc.sweeping = true
	_, err = sc.takeFound(newest(missed))
	sc.sweeping = false
	sc.out.Swept = &Sweep{Looked: len(found)}
	for _, m := range sc.out.Messages[n:] {
		sc.out.Swept.Keys = append(sc.out.Swept.Keys, m.Key)
	}
	if err == nil {
		cur.Swept = now.Truncate(time.Second)
	}
	return err
}
