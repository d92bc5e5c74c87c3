package message

import (
	"bytes"
	"encoding/base64"
	"errors"
	"io"
	"mime/quotedprintable"
	"strings"
	"unicode/utf8"

	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/charmap"
	"golang.org/x/text/encoding/htmlindex"
	"golang.org/x/text/encoding/simplifiedchinese"
	"golang.org/x/text/encoding/unicode"
	"golang.org/x/text/encoding/unicode/utf32"
)

// charset decodes b from the charset named label. If the charset is unknown, b is read as UTF-8
// if it is valid UTF-8, and otherwise as Windows-1252.
func (c *contentReader) charset(b []byte, label string) string {
	label = strings.ToLower(strings.TrimSpace(label))
	s, known, whole := decodeCharset(b, label)
	_, wide := wideCharsetOf(label)
	switch {
	case whole, known && !wide && !utf8Label(label):
		return s
	case wide:
		c.problem("the text is not valid %s", label)
		return s
	case label == "utf-8" || label == "utf8":
		c.problem("the text is not valid UTF-8")
		return strings.ToValidUTF8(s, "\uFFFD")
	case utf8.Valid(b):
		return string(b)
	}
	c.problem("charset %q is read as Windows-1252", label)
	return windows1252(b)
}

// decode undoes the transfer encoding as far as it can.
func (c *contentReader) decode(e entity) []byte {
	switch e.encoding {
	case "base64":
		out, broken := decodeBase64(e.body)
		if broken {
			c.problem("broken base64 in a part of type %s", e.mediaType)
		}
		return out
	case "quoted-printable":
		out, err := decodeQuotedPrintable(e.body)
		if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
			c.problem("broken quoted-printable in a part of type %s", e.mediaType)
			// The text with a few "=" is better than a part of it.
			return e.body
		}
		return out
	case "", "7bit", "8bit", "binary":
		return e.body
	default:
		c.problem("unknown transfer encoding %q", e.encoding)
		return e.body
	}
}

func decodeQuotedPrintable(b []byte) ([]byte, error) {
	out := bytes.NewBuffer(make([]byte, 0, len(b)+bytes.MinRead)) // large enough, so that it does not grow
	_, err := out.ReadFrom(quotedprintable.NewReader(bytes.NewReader(b)))
	return out.Bytes(), err
}

// decodeBase64 decodes as much as it can: it skips bytes that are not base64, and drops an
// incomplete end.
func decodeBase64(b []byte) (out []byte, broken bool) {
	out = make([]byte, 0, base64.RawStdEncoding.DecodedLen(len(b)))
	var clean [4 << 10]byte // a mail may be large, so it is not copied first
	n := 0
	decode := func() bool {
		var err error
		out, err = base64.RawStdEncoding.AppendDecode(out, clean[:n])
		n = 0
		return err == nil
	}
	for _, ch := range b {
		switch {
		case ch >= 'A' && ch <= 'Z', ch >= 'a' && ch <= 'z', ch >= '0' && ch <= '9', ch == '+', ch == '/':
			clean[n] = ch
			n++
		case ch == '=', ch == '\r', ch == '\n', ch == ' ', ch == '\t':
		default:
			broken = true
		}
		if n == len(clean) && !decode() {
			return out, true
		}
	}
	if n%4 == 1 {
		n, broken = n-1, true
	}
	return out, !decode() || broken
}

// encodingOf returns the encoding of the charset named label, or nil if the charset is unknown
// or a wide one.
// It knows the names of the WHATWG and of IANA for every encoding of x/text. It reads US-ASCII
// as UTF-8, which contains it, and ISO-8859-1 and ISO-8859-9 as the Windows charsets that
// extend them, as browsers do: programs write those under these names.
//
// htmlindex has the names of the WHATWG. The switch has the names that only IANA has, because
// ianaindex would cost each start of the program as much again.
func encodingOf(label string) encoding.Encoding {
	label = strings.ToLower(strings.TrimSpace(label))
	switch label {
	case "ansi_x3.4-1968", "ansi_x3.4-1986", "ascii", "cp367", "csascii", "csutf8", "ibm367", "iso-ir-6", "iso646-us", "iso_646.irv:1991", "us",
		"us-ascii", "x-utf_8j":
		return unicode.UTF8
	case "hz-gb-2312": // which browsers refuse
		return simplifiedchinese.HZGB2312
	case "cp037", "csibm037", "ebcdic-cp-ca", "ebcdic-cp-nl", "ebcdic-cp-us", "ebcdic-cp-wt", "ibm037":
		return charmap.CodePage037
	case "437", "cp437", "cspc8codepage437", "ibm437", "pc8codepage437":
		return charmap.CodePage437
	case "850", "cp850", "cspc850multilingual", "ibm850", "pc850multilingual":
		return charmap.CodePage850
	case "852", "cp852", "cspcp852", "ibm852", "pcp852":
		return charmap.CodePage852
	case "855", "cp855", "csibm855", "ibm855":
		return charmap.CodePage855
	case "ccsid00858", "cp00858", "csibm00858", "ibm00858", "pc-multilingual-850+euro":
		return charmap.CodePage858
	case "860", "cp860", "csibm860", "ibm860":
		return charmap.CodePage860
	case "862", "cp862", "cspc862latinhebrew", "ibm862", "pc862latinhebrew":
		return charmap.CodePage862
	case "863", "cp863", "csibm863", "ibm863":
		return charmap.CodePage863
	case "865", "cp865", "csibm865", "ibm865":
		return charmap.CodePage865
	case "csibm1047", "ibm-1047", "ibm1047":
		return charmap.CodePage1047
	case "ccsid01140", "cp01140", "csibm01140", "ebcdic-us-37+euro", "ibm01140":
		return charmap.CodePage1140
	case "eucpkdfmtjapanese", "euckr", "iso2022jp", "iso88596e", "iso88596i", "iso88598e", "iso88598i", "isolatin1", "isolatin2", "isolatin3",
		"isolatin4", "isolatin5", "isolatin6", "isolatinarabic", "isolatincyrillic", "isolatingreek", "isolatinhebrew", "koi8r", "shiftjis":
		label = "cs" + label
	case "cswindows874", "windows874":
		label = "windows-874"
	case "cswindows1250", "cswindows1251", "cswindows1252", "cswindows1253", "cswindows1254", "cswindows1255", "cswindows1256", "cswindows1257",
		"cswindows1258", "windows1250", "windows1251", "windows1252", "windows1253", "windows1254", "windows1255", "windows1256", "windows1257",
		"windows1258":
		label = "windows-" + label[len(label)-len("1250"):]
	case "ansi_x3.110-1983":
		label = "iso-8859-1"
	case "iso_8859-6-e", "iso_8859-6-i", "iso_8859-8-e", "iso_8859-8-i":
		label = strings.Replace(label, "_", "-", 1)
	case "iso_8859-10:1992":
		label = "iso-8859-10"
	case "csiso885913":
		label = "iso-8859-13"
	case "csiso885914", "iso-celtic", "iso-ir-199", "iso_8859-14", "iso_8859-14:1998", "l8", "latin8":
		label = "iso-8859-14"
	case "csiso885915", "latin-9":
		label = "iso-8859-15"
	case "csiso885916", "iso-ir-226", "iso885916", "iso_8859-16", "iso_8859-16:2001", "l10", "latin10":
		label = "iso-8859-16"
	case "cskoi8u", "koi8u":
		label = "koi8-u"
	case "extended_unix_code_packed_format_for_japanese":
		label = "euc-jp"
	case "csgb18030":
		label = "gb18030"
	case "cp936", "csgbk", "ms936", "windows-936":
		label = "gbk"
	}
	known, err := htmlindex.Get(label)
	if err != nil {
		return nil
	}
	return known
}

// wideCharset is UTF-16 or UTF-32.
type wideCharset struct {
	width   int // bytes of a unit
	little  bool
	guessed bool // the byte order is that of the byte order mark, or of the zero bytes
}

// wideCharsetOf returns the charset of label if it is a wide one. It compares labels in lower
// case and without blanks, dashes and underscores.
func wideCharsetOf(label string) (w wideCharset, ok bool) {
	switch strings.NewReplacer("-", "", "_", "", " ", "", "\t", "").Replace(strings.ToLower(label)) {
	case "utf16", "unicode", "ucs2", "iso10646ucs2", "csunicode", "csutf16":
		return wideCharset{width: 2, guessed: true}, true
	case "utf16le", "unicodelittle", "ucs2le", "csutf16le":
		return wideCharset{width: 2, little: true}, true
	case "utf16be", "unicodebig", "ucs2be", "unicodefffe", "csutf16be":
		return wideCharset{width: 2}, true
	case "utf32", "ucs4", "iso10646ucs4", "csucs4":
		return wideCharset{width: 4, guessed: true}, true
	case "utf32le", "ucs4le":
		return wideCharset{width: 4, little: true}, true
	case "utf32be", "ucs4be":
		return wideCharset{width: 4}, true
	}
	return wideCharset{}, false
}

// decode decodes b. An incomplete unit, half of a surrogate pair and a number beyond Unicode
// become U+FFFD.
func (w wideCharset) decode(b []byte) string {
	little := w.little || w.guessed && w.looksLittle(b)
	known := unicode.UTF16(unicode.Endianness(little), unicode.IgnoreBOM)
	if w.width == 4 {
		known = utf32.UTF32(utf32.Endianness(little), utf32.IgnoreBOM)
	}
	text, err := known.NewDecoder().Bytes(b)
	if err != nil {
		return strings.ToValidUTF8(string(b), "\uFFFD")
	}
	return strings.TrimPrefix(string(text), "\uFEFF")
}

// looksLittle reports whether b is little endian: by its byte order mark, or else because the
// last byte of a unit is zero more often than the first. Most texts have blanks and line ends
// at least. Without either, b is big endian (RFC 2781 section 4.3).
func (w wideCharset) looksLittle(b []byte) bool {
	high, low := 0, 0
	for i := 0; i+w.width <= len(b); i += w.width {
		first, last := b[i], b[i+w.width-1]
		if i == 0 && w.width == 2 && (first == 0xff && last == 0xfe || first == 0xfe && last == 0xff) {
			return first == 0xff
		}
		if first == 0 {
			high++
		}
		if last == 0 {
			low++
		}
	}
	return low > high
}

// decodeCharset decodes b from the charset named label. known is false if that is unknown, and
// whole is false if b is not all text in it.
func decodeCharset(b []byte, label string) (s string, known, whole bool) {
	if utf8Label(label) {
		return string(b), true, utf8.Valid(b)
	}
	if wide, ok := wideCharsetOf(label); ok {
		s = wide.decode(b)
		return s, true, !strings.ContainsRune(s, utf8.RuneError)
	}
	encoding := encodingOf(label)
	if encoding == nil {
		return "", false, false
	}
	text, err := encoding.NewDecoder().Bytes(b)
	s = string(text)
	return s, true, err == nil && !strings.ContainsRune(s, utf8.RuneError)
}

// windows1252 decodes b, in which each byte is a character.
func windows1252(b []byte) string {
	var s strings.Builder
	for _, c := range b {
		s.WriteRune(charmap.Windows1252.DecodeByte(c))
	}
	return s.String()
}
