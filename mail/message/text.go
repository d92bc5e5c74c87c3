package message

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"agentstateloop/internal/plain"
)

// oneLine returns s as one line of valid UTF-8 of at most max bytes. Control characters become
// blanks, and runs of blanks one blank. Unlike plain.Line it keeps invisible characters,
// because an answer repeats the subject of its thread unchanged, and a link with such a
// character breaks without it.
func oneLine(s string, max int) string {
	s = strings.ToValidUTF8(s, "\uFFFD")
	s = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, s)
	return plain.Cut(strings.Join(strings.Fields(s), " "), max)
}

// Lower returns s in lower case. Unlike strings.ToLower it keeps a letter beyond ASCII whose
// lower case is an ASCII letter, so that a name cannot pass for another one.
func Lower(s string) string {
	return strings.Map(func(r rune) rune {
		if l := unicode.ToLower(r); r < utf8.RuneSelf || l >= utf8.RuneSelf {
			return l
		}
		return r
	}, s)
}
