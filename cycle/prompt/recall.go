package prompt

import (
	"fmt"
	"slices"
	"strings"
)

// Recall chooses from texts, newest first, what a prompt tells of the past in
// room bytes: the newest fill half of the room, those that share most words with
// the question the rest. It gives them oldest first.
func Recall(texts []string, room int, question ...string) string {
	rank := NewRanking(question...)
	for i, text := range texts {
		rank.Add(i, text)
	}
	return told(texts, pick(texts, rank.Best(), room))
}

// pick chooses which texts, newest first, fit into room bytes and are worth it:
// the newest, up to half of the room; the best, in their order; then again the
// newest.
func pick(texts []string, best []int, room int) map[int]bool {
	taken, used := map[int]bool{}, 0
	take := func(i, most int) bool {
		size := len(texts[i]) + 1
		if taken[i] || used+size > most {
			return taken[i]
		}
		taken[i], used = true, used+size
		return true
	}
	for i := range texts {
		if !take(i, room/2) {
			break // a conversation whose end has holes would mislead
		}
	}
	for _, i := range best {
		take(i, room)
	}
	for i := range texts {
		take(i, room)
	}
	return taken
}

// told puts the taken texts into the order in which they were said, and says
// where some are missing between them.
func told(texts []string, taken map[int]bool) string {
	var parts []string
	gap := 0
	for i, text := range slices.Backward(texts) {
		if !taken[i] {
			gap++
			continue
		}
		if gap > 0 && len(parts) > 0 {
			parts = append(parts, fmt.Sprintf("(%d left out)\n", gap))
		}
		parts, gap = append(parts, text), 0
	}
	return strings.Join(parts, "\n")
}
