package message

import (
	"bytes"
	"encoding/base64"
	"errors"
	"io"
	"mime/quotedprintable"
	"strings"
	"unicode/utf8"

	"golang.org/x/text/encoding/charmap"
)

// charset decodes b from the charset named label. If the charset is unknown, b is read as UTF-8
// if it is valid UTF-8, and otherwise as Windows-1252.
func (c *contentReader) charset(b []byte, label string) string {
	label = strings.ToLower(strings.TrimSpace(label))
	if wide, ok := wideCharsetOf(label); ok {
		s := wide.decode(b)
		if len(b)%wide.width != 0 || strings.ContainsRune(s, '\uFFFD') {
			c.problem("the text is not all %s", label)
		}
		return s
	}
	if label == "" || label == "utf-8" || label == "utf8" || label == "us-ascii" {
		if utf8.Valid(b) {
			return string(b)
		}
		if label == "utf-8" || label == "utf8" {
			c.problem("the text is not all UTF-8")
			return strings.ToValidUTF8(string(b), "\uFFFD")
		}
	} else if known := encodingOf(label); known != nil {
		if s, err := known.NewDecoder().Bytes(b); err == nil {
			return string(s)
		}
	}
	if utf8.Valid(b) {
		return string(b)
	}
	c.problem("charset %q is read as Windows-1252", label)
	s, err := charmap.Windows1252.NewDecoder().Bytes(b)
	if err != nil {
		return strings.ToValidUTF8(string(b), "\uFFFD")
	}
	return string(s)
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
