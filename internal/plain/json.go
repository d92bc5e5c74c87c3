package plain

import (
	"bytes"
	"fmt"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

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
