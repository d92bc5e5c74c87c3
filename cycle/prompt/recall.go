package prompt

import (
	"fmt"
	"slices"
	"strings"
)

// Recall chooses from texts, newest first, those that a prompt holds in room
// bytes, and returns them oldest first. The newest fill half of the room; those
// that share most words with the question fill the rest.
func Recall(texts []string, room int, question ...string) string {
	rank := NewRanking(question...)
	for i, text := range texts {
		rank.Add(i, text)
	}
	return inOrder(texts, pick(texts, rank.Best(), room))
}

// pick chooses texts, newest first, for room bytes: the newest up to half of the
// room, then the best in their order, then the newest again.
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

// inOrder returns the taken texts, oldest first, with a note where some between
// them are left out.
func inOrder(texts []string, taken map[int]bool) string {
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
