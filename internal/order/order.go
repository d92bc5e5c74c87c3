// Package order sorts slices with little code in the binary. The functions of package slices
// have a copy of their algorithm for each type, 10 KB in size (docs/decisions/0076-sorting.md).
package order

import "sort"

// Sort sorts s by compare, like slices.SortFunc: equal elements may change places.
func Sort[E any](s []E, compare func(a, b E) int) { sort.Sort(sorter[E]{s, compare}) }

// Stable sorts s by compare, like slices.SortStableFunc: equal elements keep their order.
func Stable[E any](s []E, compare func(a, b E) int) { sort.Stable(sorter[E]{s, compare}) }

type sorter[E any] struct {
	elements []E
	compare  func(a, b E) int
}

func (s sorter[E]) Len() int           { return len(s.elements) }
func (s sorter[E]) Less(i, j int) bool { return s.compare(s.elements[i], s.elements[j]) < 0 }
func (s sorter[E]) Swap(i, j int)      { s.elements[i], s.elements[j] = s.elements[j], s.elements[i] }
