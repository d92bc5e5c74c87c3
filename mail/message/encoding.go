package message

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"mime/quotedprintable"
	"strings"
	"unicode/utf8"
)

// soleDecoding returns the body of e, decoded, or an error if it could be decoded
// in another way as well.
func (e entity) soleDecoding(typeSigned, encodingSigned bool) ([]byte, error) {
	if encodingSigned {
		var c contentReader
		return c.decode(e), nil
	}
	text, isBase64 := wholeBase64(e.body, !typeSigned || utf8Label(e.params["charset"]))
	isQuoted, escapes := wholeQuotedPrintable(e.body)
	switch e.encoding {
	case "", "7bit", "8bit", "binary":
		if isBase64 || isQuoted && escapes {
			return nil, errors.New("the body looks encoded, and no field says so")
		}
		return e.body, nil
	case "base64":
		if !isBase64 {
			return nil, errors.New("the body is not all base64 of a text")
		}
		return text, nil
	case "quoted-printable":
		if !isQuoted || isBase64 {
			return nil, errors.New("the body is not what an encoder of quoted-printable writes")
		}
		return io.ReadAll(quotedprintable.NewReader(bytes.NewReader(e.body)))
	}
	return nil, fmt.Errorf("the transfer encoding %q is not known", oneLine(e.encoding, 40))
}

// wholeBase64 decodes a body that is the base64 of a text and nothing else: full
// lines of one length and a last one, and no bit more than needed. If inUTF8,
// the text must be UTF-8.
func wholeBase64(body []byte, inUTF8 bool) (text []byte, ok bool) {
	body = bytes.TrimRight(body, " \t\r\n")
	first := bytes.IndexByte(body, '\n')
	width := len(body)
	if first >= 0 {
		width = len(bytes.TrimSuffix(body[:first], []byte("\r")))
	}
	if width == 0 {
		return nil, false
	}
	var dense []byte
	for line := range bytes.Lines(body) {
		whole := line[len(line)-1] == '\n'
		line = bytes.TrimSuffix(bytes.TrimSuffix(line, []byte("\n")), []byte("\r"))
		if bytes.IndexByte(line, '\r') >= 0 || len(line)%4 != 0 || len(line) > width || whole && len(line) != width {
			return nil, false
		}
		dense = append(dense, line...)
	}
	text = make([]byte, base64.StdEncoding.DecodedLen(len(dense)))
	n, err := base64.StdEncoding.Strict().Decode(text, dense)
	text = text[:n]
	return text, err == nil && printable(text) && (!inUTF8 || utf8.Valid(text))
}

// printable reports whether text holds no control characters but those that
// texts have.
func printable(text []byte) bool {
	for _, c := range text {
		if c < ' ' && c != '\t' && c != '\n' && c != '\r' || c == 0x7f {
			return false
		}
	}
	return true
}

// maxQuotedLine is the length of a line in quoted-printable (RFC 2045 section
// 6.7).
const maxQuotedLine = 76

// wholeQuotedPrintable reports whether body is quoted-printable as encoders
// write it, and whether anything in it is encoded. Only what needs it may be:
// bytes beyond ASCII, "=", a blank at the end of a line, and the first character
// of a line. So nothing that is encoded ends a line.
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

// neededEscape reports whether the three bytes at i encode a byte that needs it.
func neededEscape(line string, i int) bool {
	const hex = "0123456789ABCDEF"
	high, low := strings.IndexByte(hex, line[i+1]), strings.IndexByte(hex, line[i+2])
	if high < 0 || low < 0 {
		return false
	}
	b := byte(high<<4 | low)
	last := i+3 == len(line) || line[i+3:] == "="
	switch {
	case b >= 0x80 || b == '=':
		return true
	case b == ' ' || b == '\t':
		return last
	}
	return i == 0 && b > ' ' && b <= '~'
}
