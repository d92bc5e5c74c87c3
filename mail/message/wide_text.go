package message

import (
	"encoding/binary"
	"strings"
	"unicode/utf16"
)

// wideLabels are the charsets of two or four bytes for each character, in lower case
// and without dashes, underscores and the year of a standard.
var wideLabels = map[string]wideCharset{
	"utf16": {2, nil}, "unicode": {2, nil}, "ucs2": {2, nil}, "iso10646ucs2": {2, nil}, "csunicode": {2, nil},
	"utf16le": {2, binary.LittleEndian}, "unicodelittle": {2, binary.LittleEndian}, "ucs2le": {2, binary.LittleEndian},
	"utf16be": {2, binary.BigEndian}, "unicodebig": {2, binary.BigEndian}, "ucs2be": {2, binary.BigEndian}, "unicodefffe": {2, binary.BigEndian},
	"utf32": {4, nil}, "ucs4": {4, nil}, "iso10646ucs4": {4, nil}, "csucs4": {4, nil},
	"utf32le": {4, binary.LittleEndian}, "ucs4le": {4, binary.LittleEndian},
	"utf32be": {4, binary.BigEndian}, "ucs4be": {4, binary.BigEndian},
}

// wideCharset is a charset of so many bytes for each unit. A nil order is that of the
// byte order mark, or of the zero bytes.
type wideCharset struct {
	width int
	order binary.ByteOrder
}

// wideCharsetOf returns the charset of this label, if it is a wide one.
func wideCharsetOf(label string) (w wideCharset, ok bool) {
	w, ok = wideLabels[strings.NewReplacer("-", "", "_", "", " ", "").Replace(strings.ToLower(label))]
	return w, ok
}

// decode decodes b. An incomplete unit at the end, half of a surrogate pair and what is
// beyond Unicode become U+FFFD.
func (w wideCharset) decode(b []byte) string {
	order := w.order
	if order == nil {
		order = w.orderOf(b)
	}
	units := make([]uint32, 0, len(b)/w.width)
	for len(b) >= w.width {
		if w.width == 2 {
			units = append(units, uint32(order.Uint16(b)))
		} else {
			units = append(units, order.Uint32(b))
		}
		b = b[w.width:]
	}
	if len(units) > 0 && units[0] == '\uFEFF' {
		units = units[1:]
	}
	var out strings.Builder
	for i := 0; i < len(units); i++ {
		r := rune(units[i])
		if w.width == 2 && utf16.IsSurrogate(r) {
			next := rune(0)
			if i+1 < len(units) {
				next = rune(units[i+1])
			}
			if r = utf16.DecodeRune(r, next); r != '\uFFFD' {
				i++
			}
		}
		out.WriteRune(r) // U+FFFD for what is not a character
	}
	if len(b) > 0 {
		out.WriteRune('\uFFFD')
	}
	return out.String()
}

// orderOf returns the byte order of b: that of its byte order mark, or else the one in
// which the first byte of a unit is zero more often than the last one. Most texts have
// blanks and line ends at least. Without either it is big endian (RFC 2781 section 4.3).
func (w wideCharset) orderOf(b []byte) binary.ByteOrder {
	high, low := 0, 0
	for i := 0; i+w.width <= len(b); i += w.width {
		first, last := b[i], b[i+w.width-1]
		if i == 0 && w.width == 2 && first == 0xff && last == 0xfe {
			return binary.LittleEndian
		}
		if i == 0 && w.width == 2 && first == 0xfe && last == 0xff {
			return binary.BigEndian
		}
		if first == 0 {
			high++
		}
		if last == 0 {
			low++
		}
	}
	if low > high {
		return binary.LittleEndian
	}
	return binary.BigEndian
}
