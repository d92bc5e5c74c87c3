package prompt

import "slices"

// Recall chooses exchanges for room bytes of a prompt. all is sorted newest first; the result is
// sorted oldest first. The newest exchanges fill half of the room. The exchanges that share the
// most words with the question fill the rest.
func Recall(all []*Past, room int, question ...string) []Recalled {
	rank := NewRanking(question...)
	for i, p := range all {
		rank.Add(i, p.plain)
	}
	return inOrder(all, pick(all, rank.Best(), room))
}

// pick chooses exchanges, sorted newest first, for room bytes: the newest up to half of the
// room, then the best in their order, then the newest again.
func pick(all []*Past, best []int, room int) []bool {
	taken, used := make([]bool, len(all)), 0
	take := func(i, most int) bool {
		size := all[i].size()
		if taken[i] || used+size > most {
			return taken[i]
		}
		taken[i], used = true, used+size
		return true
	}
	for i := range all {
		if !take(i, room/2) {
			break // a conversation with gaps at its end would mislead
		}
	}
	for _, i := range best {
		take(i, room)
	}
	for i := range all {
		take(i, room)
	}
	return taken
}

// inOrder returns the taken exchanges, oldest first. Each has the number of exchanges left out
// before it, except the first.
func inOrder(all []*Past, taken []bool) []Recalled {
	var chosen []Recalled
	gap := 0
	for i, p := range slices.Backward(all) {
		if !taken[i] {
			gap++
			continue
		}
		if len(chosen) == 0 {
			gap = 0
		}
		chosen, gap = append(chosen, Recalled{Past: p, Skipped: gap}), 0
	}
	return chosen
}
