package terminal

import "slices"

// Nearest returns the candidate that a mistyped word most likely means. It returns "" if no
// candidate is similar enough.
func Nearest(word string, candidates []string) string {
	best, distance := "", max(1, min(3, len(word)/2))+1
	for _, c := range candidates {
		if d := edits(word, c); d < distance {
			best, distance = c, d
		}
	}
	return best
}

// DidYouMean returns a hint with the nearest candidate, or other if Nearest finds no candidate.
func DidYouMean(word string, candidates []string, other string) string {
	if near := Nearest(word, candidates); near != "" {
		return "did you mean " + near + "?"
	}
	return other
}

// edits returns the number of insertions, deletions, replacements and swaps of neighboring bytes
// that turn a into b.
func edits(a, b string) int {
	before, last, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			row[j] = min(last[j]+1, row[j-1]+1, last[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, last, row = last, row, slices.Clone(before)
	}
	return last[len(b)]
}
