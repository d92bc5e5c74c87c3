package cycle

import (
	"encoding/json"
	"slices"
	"unicode/utf8"

	"agentstateloop/internal/plain"
	"agentstateloop/mesh"
)

// maxPosted limits a text in a mesh message, in bytes of JSON. The rest of a body's 64 KiB is
// for the other fields.
const maxPosted = mesh.MaxMessage - 4<<10

// cutMark replaces the rest of a truncated text.
const cutMark = "\n[cut: the rest did not fit]"

// truncate returns text in at most n bytes, with a mark if it had more.
func truncate(text string, n int) string {
	if len(text) <= n {
		return text
	}
	return plain.Cut(text, n-len(cutMark)) + cutMark
}

// truncateJSON returns text in at most n bytes of JSON, with a mark if it had
// more.
func truncateJSON(text string, n int) string {
	size, end := 0, 0
	for i, r := range text {
		if size <= n-jsonSize(cutMark) {
			end = i
		}
		if size += runeSize(r); size > n {
			return text[:end] + cutMark
		}
	}
	return text
}

// jsonSize returns how many bytes a text takes in JSON, without the quotes.
func jsonSize(text string) int {
	size := 0
	for _, r := range text {
		size += runeSize(r)
	}
	return size
}

// runeSize returns the most bytes that encoding/json needs for r, without its escapes for HTML.
func runeSize(r rune) int {
	switch {
	case r == '"', r == '\\', r == '\n', r == '\r', r == '\t':
		return 2
	case r < ' ', r == '\u2028', r == '\u2029', r == utf8.RuneError:
		return 6
	}
	return utf8.RuneLen(r)
}

// roomFor returns how many bytes of JSON a text with these files may take.
func roomFor(files []mesh.File) int {
	if len(files) == 0 {
		return maxPosted
	}
	list, _ := json.Marshal(files) // strings and numbers cannot fail
	return maxPosted - len(list)
}

// passed returns the hops of an answer to a message with these hops. It adds us, and drops the
// oldest hop if a message may not have so many. An answer causes no turn, so a dropped hop
// cannot hide a loop.
func passed(hops []string, handle string) []string {
	hops = append(slices.Clone(hops), handle)
	return hops[max(0, len(hops)-mesh.MaxHops):]
}
