package mail

import (
	"fmt"
	"slices"
	"time"

	"github.com/emersion/go-imap/v2"
)

// This file sweeps: it compares the operator's unread mail with the mail that the state knows
// (docs/design.md, "Keys and the cursor").

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
		return u >= sc.before.Next || sc.known(u) || cur.Unseen.Contains(u) || sc.took(u)
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
