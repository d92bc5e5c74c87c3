package state

import (
	"cmp"
	"slices"
)

// maxUIDRanges is the maximum number of ranges in UIDRanges. It keeps the state small, and a
// command that names all of them short.
const maxUIDRanges = 200

// UIDRange is the UIDs from First to Last, both included.
type UIDRange struct {
	First uint32 `json:"first"`
	Last  uint32 `json:"last"`
}

// UIDRanges is a set of UIDs: ascending ranges that do not overlap or touch.
type UIDRanges []UIDRange

// Count returns how many UIDs the set has.
func (s UIDRanges) Count() (n uint64) {
	for _, r := range s {
		n += uint64(r.Last-r.First) + 1
	}
	return n
}

// Contains reports whether uid is in the set.
func (s UIDRanges) Contains(uid uint32) bool {
	_, found := slices.BinarySearchFunc(s, uid, func(r UIDRange, uid uint32) int {
		switch {
		case r.Last < uid:
			return -1
		case r.First > uid:
			return 1
		}
		return 0
	})
	return found
}

// With returns the set with the UIDs of added. It does not change either set.
func (s UIDRanges) With(added ...UIDRange) UIDRanges {
	all := slices.Concat(s, added)
	slices.SortFunc(all, func(a, b UIDRange) int { return cmp.Compare(a.First, b.First) })
	var union UIDRanges
	for _, r := range all {
		if r.First == 0 || r.Last < r.First {
			continue
		}
		last := len(union) - 1
		if last >= 0 && uint64(r.First) <= uint64(union[last].Last)+1 {
			union[last].Last = max(union[last].Last, r.Last)
			continue
		}
		union = append(union, r)
	}
	return union
}

// Without returns the set without the UIDs of removed. It does not change either set.
func (s UIDRanges) Without(removed ...UIDRange) UIDRanges {
	gaps := UIDRanges(nil).With(removed...)
	var rest UIDRanges
	for _, r := range s {
		for len(gaps) > 0 && gaps[0].Last < r.First {
			gaps = gaps[1:]
		}
		first := uint64(r.First)
		for _, gap := range gaps {
			if gap.First > r.Last {
				break
			}
			if uint64(gap.First) > first {
				rest = append(rest, UIDRange{uint32(first), gap.First - 1})
			}
			first = max(first, uint64(gap.Last)+1)
		}
		if first <= uint64(r.Last) {
			rest = append(rest, UIDRange{uint32(first), r.Last})
		}
	}
	return rest
}

// Bounded returns a set of at most maxUIDRanges ranges. If s has more, it joins the ranges that are
// closest together, with the UIDs between them.
func (s UIDRanges) Bounded() UIDRanges {
	if len(s) <= maxUIDRanges {
		return s
	}
	var gaps []uint32
	for i := range s[1:] {
		gaps = append(gaps, s[i+1].First-s[i].Last)
	}
	slices.SortFunc(gaps, func(a, b uint32) int { return cmp.Compare(b, a) })
	narrowest, kept := gaps[maxUIDRanges-2], 0 // of the gaps that stay
	joined := UIDRanges{s[0]}
	for _, r := range s[1:] {
		last := &joined[len(joined)-1]
		if r.First-last.Last >= narrowest && kept < maxUIDRanges-1 {
			joined, kept = append(joined, r), kept+1
			continue
		}
		last.Last = r.Last
	}
	return joined
}
