package message

import (
	"encoding/binary"
	"strings"
	"unicode/utf16"
)

// wideCharset is a charset of width bytes per unit. If order is nil, the byte order mark or the
// zero bytes determine the order.
type wideCharset struct {
	width int
	order binary.ByteOrder
}

// wideCharsetOf returns the charset with this label, if it is a wide one. It compares labels in
// lower case and without dashes, underscores and blanks.
func wideCharsetOf(label string) (w wideCharset, ok bool) {
	switch strings.NewReplacer("-", "", "_", "", " ", "").Replace(strings.ToLower(label)) {
	case "utf16", "unicode", "ucs2", "iso10646ucs2", "csunicode":
		return wideCharset{2, nil}, true
	case "utf16le", "unicodelittle", "ucs2le":
		return wideCharset{2, binary.LittleEndian}, true
	case "utf16be", "unicodebig", "ucs2be", "unicodefffe":
		return wideCharset{2, binary.BigEndian}, true
	case "utf32", "ucs4", "iso10646ucs4", "csucs4":
		return wideCharset{4, nil}, true
	case "utf32le", "ucs4le":
		return wideCharset{4, binary.LittleEndian}, true
	case "utf32be", "ucs4be":
		return wideCharset{4, binary.BigEndian}, true
	}
	return wideCharset{}, false
}

// decode decodes b. An incomplete unit at the end, half of a surrogate pair and a value beyond
// Unicode become U+FFFD.
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
		out.WriteRune(r) // U+FFFD if r is not a character
	}
	if len(b) > 0 {
		out.WriteRune('\uFFFD')
	}
	return out.String()
}

// orderOf returns the byte order of b: that of its byte order mark, otherwise the one in which
// the first byte of a unit is zero more often than the last one. Most texts have at least
// blanks and line ends. A text without either sign is big endian (RFC 2781 section 4.3).
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
