package message

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"
)

// soleDecoding returns the decoded body of e, or an error if it could be decoded in another way
// as well.
func (e entity) soleDecoding(signed SignedFields) ([]byte, error) {
	if signed.Encoding {
		var c contentReader
		return c.decode(e), nil
	}
	foreign := minForeign
	switch {
	case signed.Type && utf8Label(e.params["charset"]):
		foreign = math.MaxInt
	case signed.Type:
		foreign = 0
	}
	switch e.encoding {
	case "", "7bit", "8bit", "binary":
		if likeBase64(e.body, foreign) || isFileInBase64(e.body) || likeQuotedPrintable(e.body, foreign) {
			return nil, errors.New("the body looks encoded, but the header declares no encoding")
		}
		return e.body, nil
	case "base64":
		text, ok := wholeBase64(e.body, foreign)
		if !ok {
			return nil, errors.New("the body is not valid base64 of a text")
		}
		return text, nil
	case "quoted-printable":
		ok, escapes := wholeQuotedPrintable(e.body)
		if !ok || escapes && !likeQuotedPrintable(e.body, foreign) || likeBase64(e.body, foreign) {
			return nil, errors.New("the body is not well-formed quoted-printable")
		}
		return decodeQuotedPrintable(e.body)
	}
	return nil, fmt.Errorf("the transfer encoding %q is unknown", oneLine(e.encoding, 40))
}

// wholeBase64 decodes a body that is strictly base64 of a text. A text that is not UTF-8 must
// have at least foreign characters of base64.
func wholeBase64(body []byte, foreign int) (text []byte, ok bool) {
	text, _, ok = strictBase64(body)
	return text, ok && printable(text) && (utf8.Valid(text) || base64.StdEncoding.EncodedLen(len(text)) >= foreign)
}

// isFileInBase64 reports whether a body is base64 of a file: of bytes that begin like one, or
// of several lines of bytes that are not a text.
func isFileInBase64(body []byte) bool {
	file, lines, ok := strictBase64(body)
	return ok && (beginsAsFile(file) || lines > 1 && !printable(file))
}

// strictBase64 decodes a body that consists of base64 alone: full lines of one length and a
// last line, without unneeded bits.
func strictBase64(body []byte) (decoded []byte, lines int, ok bool) {
	body = bytes.TrimRight(body, " \t\r\n")
	first := bytes.IndexByte(body, '\n')
	width := len(body)
	if first >= 0 {
		width = len(bytes.TrimSuffix(body[:first], []byte("\r")))
	}
	if width == 0 {
		return nil, 0, false
	}
	dense := make([]byte, 0, len(body))
	for line := range bytes.Lines(body) {
		whole := line[len(line)-1] == '\n'
		line = bytes.TrimSuffix(bytes.TrimSuffix(line, []byte("\n")), []byte("\r"))
		if bytes.IndexByte(line, '\r') >= 0 || len(line)%4 != 0 || len(line) > width || whole && len(line) != width {
			return nil, 0, false
		}
		dense = append(dense, line...)
		lines++
	}
	decoded = make([]byte, base64.StdEncoding.DecodedLen(len(dense)))
	n, err := base64.StdEncoding.Strict().Decode(decoded, dense)
	return decoded[:n], lines, err == nil
}

// minForeign is the minimum length, in characters of base64, of a body that may be base64 of a
// text that is not UTF-8, if its charset is not signed. A shorter one, such as "HALT", is a
// text.
const minForeign = 20

// likeBase64 reports whether a body may be base64 of a text: of a UTF-8 text from a less
// careful encoder, or of another text that wholeBase64 accepts.
func likeBase64(body []byte, foreign int) bool {
	text, broken := decodeBase64(body)
	if !broken && len(text) > 0 && printable(text) && utf8.Valid(text) {
		return true
	}
	_, whole := wholeBase64(body, foreign)
	return whole
}

// likeQuotedPrintable reports whether a body may be quoted-printable from a less careful
// encoder: each "=" ends a line or begins an escape, and at least one of them does something
// that only an encoder does. "timeout=20" and "?id=fa" are texts.
//
// If foreign is math.MaxInt, the encoded text is UTF-8. Otherwise two signs distinguish an
// encoded text from a plain one: its escapes are in upper case, as encoders write them, and one
// of them is outside of URLs. Plain texts have escapes in URLs: "?v=C3xx".
func likeQuotedPrintable(body []byte, foreign int) bool {
	encoded, beyondASCII, outside, upper := false, false, false, true
	body = bytes.TrimRight(body, " \t\r\n")
	for line := range bytes.Lines(body) {
		last := line[len(line)-1] != '\n'
		line = bytes.TrimRight(line, " \t\r\n")
		for i, c := range line {
			if c != '=' {
				continue
			}
			if i == len(line)-1 {
				encoded = encoded || last || len(line) >= minBroken
				continue
			}
			b, ok := unhex(line[i+1:])
			if !ok {
				return false
			}
			encoded = encoded || b == '='
			beyondASCII = beyondASCII || b >= 0x80
			outside = outside || b >= 0x80 && !inURL(line[:i])
			upper = upper && bytes.Equal(bytes.ToUpper(line[i+1:i+3]), line[i+1:i+3])
		}
	}
	if encoded || !beyondASCII {
		return encoded
	}
	text, err := decodeQuotedPrintable(body)
	return err == nil && utf8.Valid(text) || foreign < math.MaxInt && upper && outside
}

// inURL reports whether the word that line ends with is the beginning of a URL.
func inURL(line []byte) bool {
	word := line[bytes.LastIndexAny(line, " \t")+1:]
	return bytes.Contains(word, []byte("://")) || bytes.ContainsAny(word, "?&")
}

// minBroken is the minimum length of a line that an encoder may have broken. Shorter ones, such
// as "NAME=", are the writer's.
const minBroken = 50

// unhex returns the byte that s begins with, in two hexadecimal digits.
func unhex[S string | []byte](s S) (byte, bool) {
	if len(s) < 2 {
		return 0, false
	}
	n, err := strconv.ParseUint(string(s[:2]), 16, 8)
	return byte(n), err == nil
}

// printable reports whether text has only the control characters that are usual in texts.
func printable(text []byte) bool {
	for _, c := range text {
		if c < ' ' && c != '\t' && c != '\n' && c != '\r' || c == 0x7f {
			return false
		}
	}
	return true
}

// maxQuotedLine is the maximum length of a line in quoted-printable (RFC 2045 section 6.7).
const maxQuotedLine = 76

// wholeQuotedPrintable reports whether body is quoted-printable as encoders write it, and
// whether it has escapes. Only a byte that needs an escape may have one: a byte beyond ASCII,
// "=", a blank at the end of a line, or the first character of a line. So line ends are never
// encoded.
func wholeQuotedPrintable(body []byte) (ok, escapes bool) {
	for line := range bytes.Lines(body) {
		line = bytes.TrimSuffix(bytes.TrimSuffix(line, []byte("\n")), []byte("\r"))
		if len(line) > maxQuotedLine {
			return false, false
		}
		escaped, ok := quotedPrintableLine(string(line))
		if !ok {
			return false, false
		}
		escapes = escapes || escaped
	}
	return true, escapes
}

func quotedPrintableLine(line string) (escapes, ok bool) {
	if strings.TrimRight(line, " \t") != line {
		return false, false
	}
	for i := 0; i < len(line); i++ {
		c := line[i]
		switch {
		case c == '=' && i == len(line)-1:
			return true, true // a soft line break
		case c == '=':
			if i+2 >= len(line) || !neededEscape(line, i) {
				return false, false
			}
			escapes = true
			i += 2
		case c != '\t' && (c < ' ' || c > '~'):
			return false, false
		}
	}
	return escapes, true
}

// neededEscape reports whether the three bytes at i encode a byte that needs an escape.
func neededEscape(line string, i int) bool {
	pair := []byte(line[i+1 : i+3])
	b, ok := unhex(pair)
	if !ok || !bytes.Equal(bytes.ToUpper(pair), pair) {
		return false
	}
	last := i+3 == len(line) || line[i+3:] == "="
	switch {
	case b >= 0x80 || b == '=':
		return true
	case b == ' ' || b == '\t':
		return last
	}
	return i == 0 && b > ' ' && b <= '~'
}
