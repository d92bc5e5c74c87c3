package mail

import (
	"encoding/binary"
	"math"
	"slices"
	"testing"

	"github.com/emersion/go-imap/v2"
)

// TestCapsFoundUIDs checks that the UIDs of a search are capped: the first ones count.
func TestCapsFoundUIDs(t *testing.T) {
	uids, more, err := foundUIDs(imap.UIDSet{{Start: 7, Stop: 7 + 2*maxFound}, {Start: 2, Stop: 3}}, math.MaxUint32)
	if len(uids) != maxFound || !more || err != nil || uids[0] != 2 || uids[2] != 7 {
		t.Errorf("%d UIDs, more %v, %v", len(uids), more, err)
	}
}

// FuzzFound checks that for any ranges of a server at most as many UIDs are returned as there are
// mails, in ascending order and only from the set.
func FuzzFound(f *testing.F) {
	for _, ranges := range [][]uint32{
		{5, 5}, {1, 900_000_000}, {math.MaxUint32, math.MaxUint32}, {1, math.MaxUint32}, {0, 0}, {5, 0}, {9, 1},
		{1, 3, 2, 5, 2, 2}, {7, 7, 3, 3, 5, 5}, {1, 10, 11, 20}, {10, 20, 1, 30},
	} {
		var data []byte
		for _, n := range ranges {
			data = binary.LittleEndian.AppendUint32(data, n)
		}
		f.Add(data, uint16(12))
	}
	f.Fuzz(func(t *testing.T, data []byte, mails uint16) {
		var set imap.UIDSet
		for ; len(data) >= 8; data = data[8:] {
			set = append(set, imap.UIDRange{
				Start: imap.UID(binary.LittleEndian.Uint32(data)), Stop: imap.UID(binary.LittleEndian.Uint32(data[4:])),
			})
		}
		uids, more, err := foundUIDs(set, uint32(mails))
		if err != nil {
			return
		}
		if len(uids) > int(mails) || more {
			t.Fatalf("%d UIDs of %d mails, more %v", len(uids), mails, more)
		}
		if slices.Contains(uids, 0) || slices.Contains(uids, math.MaxUint32) || !slices.IsSorted(uids) || len(slices.Compact(slices.Clone(uids))) != len(uids) {
			t.Fatalf("from %v: %v", set, uids)
		}
		for _, u := range uids {
			if !slices.ContainsFunc(set, func(r imap.UIDRange) bool {
				return min(r.Start, r.Stop) <= imap.UID(u) && imap.UID(u) <= max(r.Start, r.Stop)
			}) {
				t.Fatalf("%d is not in %v", u, set)
			}
		}
		for _, r := range set {
			for _, u := range []imap.UID{r.Start, r.Stop} {
				if _, found := slices.BinarySearch(uids, uint32(u)); !found {
					t.Fatalf("%d of %v is missing", u, set)
				}
			}
		}
	})
}
