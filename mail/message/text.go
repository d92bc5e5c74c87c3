package message

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// Line makes s fit for one line of a log: valid UTF-8, no control
// characters, runs of blanks folded, at most max bytes.
func Line(s string, max int) string {
	s = strings.ToValidUTF8(s, "\uFFFD")
	s = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, s)
	return cut(strings.Join(strings.Fields(s), " "), max)
}

// cut shortens s to max bytes, between characters.
func cut(s string, max int) string {
	if len(s) <= max {
		return s
	}
	for max > 0 && !utf8.RuneStart(s[max]) {
		max--
	}
	return s[:max]
}

// Text makes s fit for a text file: valid UTF-8, LF line ends, and no
// control characters but tabs.
func Text(s string) string {
	s = strings.ToValidUTF8(s, "\uFFFD")
	s = strings.ReplaceAll(s, "\r\n", "\n")
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n', r == '\t':
			return r
		case r == '\r':
			return '\n'
		case r == '\uFEFF', unicode.IsControl(r):
			return -1
		}
		return r
	}, s)
}

// Lower is strings.ToLower without its surprise: there are letters beyond ASCII
// whose lower case is within, and what they spell must not become a name that
// it is not.
func Lower(s string) string {
	return strings.Map(func(r rune) rune {
		if l := unicode.ToLower(r); r < utf8.RuneSelf || l >= utf8.RuneSelf {
			return l
		}
		return r
	}, s)
}
