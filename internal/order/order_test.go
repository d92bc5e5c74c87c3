package order_test

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"testing"

	"agentstateloop/internal/order"
)

type pair struct{ key, place int }

func byKey(a, b pair) int { return cmp.Compare(a.key, b.key) }

// Both functions give what package slices gives.
func TestOrder(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for length := range 300 {
		pairs := make([]pair, length)
		for i := range pairs {
			pairs[i] = pair{random.IntN(20), i}
		}
		sorted, stable := slices.Clone(pairs), slices.Clone(pairs)
		order.Sort(sorted, byKey)
		order.Stable(stable, byKey)
		want := slices.Clone(pairs)
		slices.SortStableFunc(want, byKey)
		if !slices.Equal(stable, want) {
			t.Fatalf("Stable: %v, not %v", stable, want)
		}
		if !slices.IsSortedFunc(sorted, byKey) {
			t.Fatalf("Sort: %v", sorted)
		}
		order.Stable(sorted, func(a, b pair) int { return cmp.Or(byKey(a, b), cmp.Compare(a.place, b.place)) })
		if !slices.Equal(sorted, want) {
			t.Fatalf("Sort: other elements: %v, not %v", sorted, want)
		}
	}
}
