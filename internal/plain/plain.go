// Package plain makes foreign text fit to show, to log and to store: what a
// stranger sent must not look like a line of ours, move the cursor of a
// terminal, or end in half a character.
package plain

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// Line returns s as one line of valid UTF-8: runs of blanks, line ends and
// control characters become one space, and every other character that cannot be
// printed, such as one that reverses the direction of writing, becomes U+FFFD.
// It does not limit the length; see Cut and Shorten.
func Line(s string) string {
	s = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || unicode.IsSpace(r) {
			return ' '
		}
		if unicode.IsPrint(r) || r == zeroWidthJoiner {
			return r
		}
		return unicode.ReplacementChar
	}, strings.ToValidUTF8(s, string(unicode.ReplacementChar)))
	return strings.Join(strings.Fields(s), " ")
}

// zeroWidthJoiner cannot be seen, but holds many emoji together.
const zeroWidthJoiner = '\u200d'

// Text returns s as lines of valid UTF-8: every line ends in LF, and control
// characters other than tab, as well as byte order marks, are dropped.
func Text(s string) string {
	s = strings.ToValidUTF8(s, string(unicode.ReplacementChar))
	s = strings.ReplaceAll(s, "\r\n", "\n")
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n', r == '\t':
			return r
		case r == '\r':
			return '\n'
		case r == byteOrderMark, unicode.IsControl(r):
			return -1
		}
		return r
	}, s)
}

const byteOrderMark = '\uFEFF'

// Cut returns the first n bytes of s, or fewer where the cut would split a
// character.
func Cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	n = max(n, 0)
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}

// OneLine returns foreign text as one line of at most n bytes.
func OneLine(s string, n int) string { return Cut(Line(s), n) }

// TrimPartial returns b without the beginning of a character at its end whose
// rest is missing.
func TrimPartial(b []byte) []byte {
	for i := len(b) - 1; i >= max(0, len(b)-utf8.UTFMax+1); i-- {
		if utf8.RuneStart(b[i]) {
			if !utf8.FullRune(b[i:]) {
				return b[:i]
			}
			break
		}
	}
	return b
}

// Shorten returns s if it has at most n characters, and else its first n
// characters and an ellipsis.
func Shorten(s string, n int) string {
	if len(s) <= n {
		return s
	}
	at := 0
	for i := range s {
		if at == n {
			return s[:i] + "…"
		}
		at++
	}
	return s
}
