package mail

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/emersion/go-imap/v2"
)

const (
	maxFound  = 1 << 18 // UIDs that one search returns
	uidLength = 11      // bytes of a UID in the answer to a search, with its blank
)

// errLastUID is the error for the last possible UID. It leaves no UID for the next mail, and a
// cursor could not be placed after it.
var errLastUID = fmt.Errorf("the server answered with the UID %d, after which no mail can come", uint32(math.MaxUint32))

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
			return nil, false, errors.New("the server answered without UIDs")
		}
		ranges[i] = imap.UIDRange{Start: min(r.Start, r.Stop), Stop: max(r.Start, r.Stop)}
	}
	slices.SortFunc(ranges, func(a, b imap.UIDRange) int { return cmp.Compare(a.Start, b.Start) })

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
		return nil, false, fmt.Errorf("the server answered with %d UIDs, and the mailbox has %d mails", count, mails)
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
