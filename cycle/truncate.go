package cycle

import (
	"slices"
	"strings"
	"unicode/utf8"

	"agentstateloop/mesh"
)

// mostPosted is how many bytes a text may take in a mesh message, as JSON: the
// rest of a body's 64 KiB is for what stands around it.
const mostPosted = mesh.MaxMessage - 4<<10

// cutMark stands where the rest of a text is missing.
const cutMark = "\n[cut: the rest did not fit]"

// clip cuts a text to fit into n bytes, and says so.
func clip(text string, n int) string {
	if len(text) <= n {
		return text
	}
	return strings.ToValidUTF8(text[:n-len(cutMark)], "") + cutMark
}

// fit cuts a text to fit into n bytes of JSON, and says so.
func fit(text string, n int) string {
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

// jsonSize is how many bytes a text takes in JSON, without the quotes.
func jsonSize(text string) int {
	size := 0
	for _, r := range text {
		size += runeSize(r)
	}
	return size
}

// runeSize is how many bytes encoding/json needs for r at most, where it does
// not escape for HTML.
func runeSize(r rune) int {
	switch {
	case r == '"', r == '\\', r == '\n', r == '\r', r == '\t':
		return 2
	case r < ' ', r == '\u2028', r == '\u2029', r == utf8.RuneError:
		return 6
	}
	return utf8.RuneLen(r)
}

// passed are the hops of an answer to what came over hops: us added, and the
// oldest left out where that is one more than a message may have. An answer
// causes no turn, so no loop can hide in what is left out.
func passed(hops []string, handle string) []string {
	hops = append(slices.Clone(hops), handle)
	return hops[max(0, len(hops)-mesh.MaxHops):]
}
