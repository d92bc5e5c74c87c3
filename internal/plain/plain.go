// Package plain makes foreign text fit to show, to log and to store. Such a text must not look
// like a line of ours, move the cursor of a terminal, or end in half a character.
package plain

import (
	"bytes"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf16"
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

// JSON returns a JSON text from encoding/json in a form that is safe to show: every invisible
// character becomes a \u escape. These are control characters (DEL and C1, which encoding/json
// leaves as they are), format characters such as those that reverse the direction of writing,
// line and paragraph separators, tag characters, variation selectors and all others without a
// shape of their own. So a foreign text cannot control the terminal that shows it, or hide in
// it. The value stays the same for every reader of JSON. Invalid UTF-8 becomes U+FFFD, as a
// reader would read it.
func JSON(text []byte) []byte {
	if !bytes.ContainsFunc(text, escaped) {
		return text
	}
	out := make([]byte, 0, len(text)+len(text)/8)
	for len(text) > 0 {
		r, size := utf8.DecodeRune(text)
		switch {
		case !escaped(r):
			out = utf8.AppendRune(out, r)
		case r > 0xFFFF:
			high, low := utf16.EncodeRune(r)
			out = fmt.Appendf(out, `\u%04x\u%04x`, high, low)
		default:
			out = fmt.Appendf(out, `\u%04x`, r)
		}
		text = text[size:]
	}
	return out
}

// escaped reports whether JSON escapes a character. A newline is white space between values:
// inside a string, encoding/json has already escaped it.
func escaped(r rune) bool {
	switch {
	case r == '\n':
		return false
	case r < utf8.RuneSelf:
		return r < ' ' || r == 0x7f
	}
	return r == utf8.RuneError || !unicode.IsPrint(r) || unicode.In(r, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector)
}

// Spaceless are the scripts without spaces between words, and Hangul, whose particles follow a
// name without a space. The last range has the signs that Han, Hiragana and Katakana share.
var Spaceless = []*unicode.RangeTable{
	unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Bopomofo, unicode.Hangul, unicode.Yi,
	unicode.Thai, unicode.Lao, unicode.Khmer, unicode.Myanmar, unicode.Tibetan, unicode.Javanese, unicode.Balinese,
	unicode.Tai_Le, unicode.New_Tai_Lue, unicode.Tai_Tham, unicode.Tai_Viet,
	{R16: []unicode.Range16{{Lo: 0x3000, Hi: 0x30ff, Stride: 1}, {Lo: 0xff66, Hi: 0xff9f, Stride: 1}}},
}

// ASCIIDigits returns s with the decimal digits of other scripts as ASCII digits.
func ASCIIDigits(s string) string {
	return strings.Map(func(r rune) rune {
		if r < 0x80 || !unicode.IsDigit(r) {
			return r
		}
		zero := r
		for unicode.IsDigit(zero-1) && r-zero < 9 {
			zero--
		}
		return '0' + r - zero
	}, s)
}

// Size returns a number of bytes in words: "1 byte", "12 KiB", "1.5 MiB".
func Size(n int64) string {
	if n == 1 {
		return "1 byte"
	}
	if n < 1<<10 {
		return fmt.Sprintf("%d bytes", n)
	}
	size, units := float64(n)/(1<<10), []string{"KiB", "MiB", "GiB"}
	for size >= 1023.5 && len(units) > 1 {
		size, units = size/(1<<10), units[1:]
	}
	if size < 9.95 {
		return strings.TrimSuffix(fmt.Sprintf("%.1f", size), ".0") + " " + units[0]
	}
	return fmt.Sprintf("%.0f %s", size, units[0])
}

// Name returns the foreign name of a file as one line for use in a sentence. A safe file name
// (see FileName) without commas and round brackets stays as it is. Any other name is quoted and
// cut to 120 characters.
func Name(name string) string {
	if safe, ok := FileName(name); ok && !strings.ContainsAny(safe, ",()") {
		return safe
	}
	return `"` + strings.ReplaceAll(Shorten(Line(name), 120), `"`, `\"`) + `"`
}
