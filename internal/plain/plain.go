// Package plain makes foreign text fit to show, to log and to store. Such a text must not look
// like a line of ours, move the cursor of a terminal, or end in half a character.
package plain

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// Line returns s as one line of valid UTF-8. Runs of blanks, line ends and control characters
// become one space. Every other unprintable character, such as one that reverses the direction
// of writing, becomes U+FFFD. Line does not limit the length; see Cut and Shorten.
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

// zeroWidthJoiner is invisible, but joins the parts of many emoji.
const zeroWidthJoiner = '\u200d'

// Text returns s as lines of valid UTF-8. Every line ends in LF. Text drops byte order marks,
// and control characters other than tab.
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

// Cut returns the first n bytes of s, or fewer if the cut would split a character.
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

// Brief shortens a foreign text to one line of at most 200 bytes, for an error or a history line.
func Brief(s string) string { return Shorten(Line(Cut(s, 800)), 200) }

// TrimPartial returns b without an incomplete character at its end.
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

// Shorten returns s if it has at most n characters, and otherwise its first n characters and an
// ellipsis.
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
