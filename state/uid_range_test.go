package state_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"agentstateloop/state"
)

// TestUIDRanges compares sets of ranges with sets of numbers.
func TestUIDRanges(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		var set state.UIDRanges
		model := map[uint32]bool{}
		for range 8 {
			first := 1 + r.Uint32N(40)
			change := state.UIDRange{First: first, Last: first + r.Uint32N(6)}
			add := r.IntN(3) > 0
			if add {
				set = set.With(change)
			} else {
				set = set.Without(change)
			}
			for u := change.First; u <= change.Last; u++ {
				if model[u] = add; !add {
					delete(model, u)
				}
			}
		}
		if set.Count() != uint64(len(model)) {
			t.Fatalf("%v has %d UIDs, want %d", set, set.Count(), len(model))
		}
		for u := range uint32(60) {
			if set.Contains(u) != model[u] {
				t.Fatalf("%v contains %d: %v", set, u, set.Contains(u))
			}
		}
		for i := range len(set) - 1 {
			if set[i].Last+1 >= set[i+1].First {
				t.Fatalf("%v overlaps or touches", set)
			}
		}
	}
}

// TestUIDRangesAtTheEnd checks the last UID that there can be.
func TestUIDRangesAtTheEnd(t *testing.T) {
	all := state.UIDRanges{}.With(state.UIDRange{First: 1, Last: math.MaxUint32})
	if all.Count() != math.MaxUint32 || len(all.Without(all...)) != 0 {
		t.Errorf("got %v, without itself %v", all, all.Without(all...))
	}
	want := state.UIDRanges{{First: 1, Last: math.MaxUint32 - 1}}
	if got := all.Without(state.UIDRange{First: math.MaxUint32, Last: math.MaxUint32}); !slices.Equal(got, want) {
		t.Errorf("got %v", got)
	}
}

// TestBoundedUIDRanges checks that a set that was made small still has every UID.
func TestBoundedUIDRanges(t *testing.T) {
	var many state.UIDRanges
	for i := range uint32(5000) {
		many = append(many, state.UIDRange{First: 3*i + 1 + i%2, Last: 3*i + 1 + i%2})
	}
	few := many.Bounded()
	if len(few) > 200 || len(few) < 100 {
		t.Errorf("%d ranges", len(few))
	}
	if rest := many.Without(few...); len(rest) > 0 {
		t.Errorf("%v is lost", rest)
	}
	if got := many[:150].Bounded(); !slices.Equal(got, many[:150]) {
		t.Errorf("a small set was changed: %v", got)
	}
}
