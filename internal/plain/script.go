package plain

import (
	"strings"
	"unicode"
)

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
