package message

import (
	"bytes"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"unicode/utf8"
)

// Where a signature covers the body but not the fields that say how to read it,
// anybody who holds the mail can replace these fields. Then only a body is read
// that itself leaves one way to do so (docs/design.md, "The gate").

// SoleReading returns nil if the body of raw, a whole mail, can be read in only
// one way, whatever Content-Type and Content-Transfer-Encoding say, and these
// fields name that way. Otherwise the error says what is in doubt. typeSigned
// and encodingSigned report which of the fields cannot have been replaced.
//
// Of any two mails with one body and different fields that pass, ReadContent
// returns the same. The rules by which a body shows what it is exclude one
// another:
//
//   - A multipart begins with a boundary line, with nothing before it but a
//     sentence that programs write there, and ends with the closing line of that
//     boundary. Its subtype matters where it has several texts: an alternative is
//     one plain text and one HTML behind it.
//   - A text holds no such line. It is HTML if it begins as an HTML document.
//   - A body is base64 or quoted-printable if it is what an encoder of a text
//     writes, to the last byte.
func SoleReading(raw []byte, typeSigned, encodingSigned bool) error {
	e := readEntity(raw)
	if strings.HasPrefix(e.mediaType, "multipart/") {
		if typeSigned {
			return nil // the encoding of a multipart has no effect
		}
		return soleMultipart(e)
	}
	if typeSigned && encodingSigned {
		return nil
	}
	text, err := e.soleDecoding(typeSigned, encodingSigned)
	if err != nil || typeSigned {
		return err
	}
	return soleText(e, text)
}

// soleText returns an error if a body that claims to be one text could be
// something else. text is the body, decoded.
func soleText(e entity, text []byte) error {
	if e.mediaType != "text/plain" && e.mediaType != "text/html" {
		return fmt.Errorf("the whole body is %s", oneLine(e.mediaType, 100))
	}
	if label := e.params["charset"]; !utf8Label(label) {
		return fmt.Errorf("the charset is %q and not UTF-8", oneLine(label, 40))
	}
	if !utf8.Valid(text) {
		return errors.New("the text is not UTF-8")
	}
	if holdsParts(e.body) {
		return errors.New("a text that holds boundary lines may be a multipart")
	}
	if html := beginsAsHTML(text); html != (e.mediaType == "text/html") {
		return fmt.Errorf("the text is called %s, and begins otherwise", e.mediaType)
	}
	return nil
}

// utf8Label reports whether contentReader reads valid UTF-8 as such under this
// charset.
func utf8Label(label string) bool {
	switch strings.ToLower(strings.TrimSpace(label)) {
	case "", "utf-8", "utf8", "us-ascii":
		return true
	}
	return false
}

// maxBegin is within how many bytes of a text the tag begins that makes it HTML.
const maxBegin = 100

func beginsAsHTML(text []byte) bool {
	begin := strings.ToLower(string(bytes.TrimLeft(text[:min(len(text), maxBegin)], "\ufeff \t\r\n")))
	for _, tag := range []string{"<!doctype html", "<html"} {
		if rest, ok := strings.CutPrefix(begin, tag); ok && (rest == "" || strings.ContainsAny(rest[:1], "> \t\r\n")) {
			return true
		}
	}
	return false
}

// preambles are the sentences that programs write before the first boundary
// line. They reach nobody.
var preambles = []string{
	"This is a multi-part message in MIME format.",
	"This is a multipart message in MIME format.",
	"This is a cryptographically signed message in MIME format.",
}

// soleMultipart returns an error unless the body is a multipart to its first and
// to its last byte.
func soleMultipart(e entity) error {
	switch e.encoding {
	case "", "7bit", "8bit", "binary":
	default:
		return fmt.Errorf("a multipart in %s", oneLine(e.encoding, 40))
	}
	boundary := e.params["boundary"]
	if !boundaryText(boundary) || strings.Trim(boundary, "-") == "" {
		return fmt.Errorf("the boundary %q is doubtful", oneLine(boundary, 80))
	}
	if err := framed(e.body, boundary); err != nil {
		return err
	}
	parts := splitParts(e.body, boundary)
	if several, alternatives := severalTexts(parts); several && alternatives != (e.mediaType == "multipart/alternative") {
		return fmt.Errorf("%s is not what its parts are", oneLine(e.mediaType, 100))
	}
	return nil
}

// framed returns an error unless body begins with a boundary line, but for a
// preamble, and its last line is the only one that closes the multipart.
func framed(body []byte, boundary string) error {
	open, end := "--"+boundary, "--"+boundary+"--"
	preamble, begun, closed := false, false, false
	for line := range filledLines(body) {
		switch {
		case !begun && !preamble && slices.Contains(preambles, string(line)):
			preamble = true
			continue
		case !begun && string(line) != open:
			return errors.New("the body does not begin with its boundary")
		case closed:
			return errors.New("the body does not end with its closing boundary")
		}
		begun, closed = true, string(line) == end
	}
	if !closed {
		return errors.New("the body does not end with its closing boundary")
	}
	return nil
}

// filledLines returns the lines of a body that are not blank, without the blanks
// at their ends.
func filledLines(body []byte) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		for line := range bytes.Lines(body) {
			if line = bytes.TrimRight(line, " \t\r\n"); len(line) > 0 && !yield(line) {
				return
			}
		}
	}
}

// severalTexts reports whether more than one of parts has text, and if so,
// whether they are alternatives: first a plain text, then the same as HTML, and
// neither is a file.
func severalTexts(parts [][]byte) (several, alternatives bool) {
	var texts []int
	for i, p := range parts {
		var c contentReader
		c.part(p, 1)
		if strings.TrimSpace(strings.Join(c.texts, "")) != "" {
			texts = append(texts, i)
		}
	}
	if len(texts) < 2 {
		return false, false
	}
	if !slices.Equal(texts, []int{0, 1}) {
		return true, false
	}
	plain := readEntity(parts[0])
	return true, plain.mediaType == "text/plain" && plain.title == "" && firstLeaf(parts[1], 1) == "text/html"
}

// firstLeaf returns the media type of the first part of p that is not a multipart,
// or "" if it is a file.
func firstLeaf(p []byte, depth int) string {
	e := readEntity(p)
	if !strings.HasPrefix(e.mediaType, "multipart/") {
		if e.title != "" {
			return ""
		}
		return e.mediaType
	}
	parts := splitParts(e.body, e.params["boundary"])
	if len(parts) == 0 || depth >= maxDepth {
		return ""
	}
	return firstLeaf(parts[0], depth+1)
}

// holdsParts reports whether a line of body may be a boundary line. "-- ", a
// rule of dashes and "--force" are none: below a boundary line is the field of a
// part, or its closing line.
func holdsParts(body []byte) bool {
	closing := map[string]bool{}
	for line := range filledLines(body) {
		if bytes.HasPrefix(line, []byte("--")) && bytes.HasSuffix(line, []byte("--")) {
			if len(closing) > maxParts {
				return true // more than a text has
			}
			closing[string(line)] = true
		}
	}
	mayBegin := false // the line above may be a boundary line
	for line := range filledLines(body) {
		if mayBegin && contentField(string(line)) {
			return true
		}
		boundary, ok := bytes.CutPrefix(line, []byte("--"))
		mayBegin = ok && boundaryText(string(boundary))
		if mayBegin && len(bytes.Trim(boundary, "-")) > 0 && closing[string(line)+"--"] {
			return true
		}
	}
	return false
}

// contentField reports whether a line begins a field of a part.
func contentField(line string) bool {
	name, _, ok := strings.Cut(line, ":")
	name = strings.TrimRight(name, " \t")
	return ok && fieldName(name) && strings.HasPrefix(strings.ToLower(name), "content-")
}

// maxBoundary is the longest boundary, in bytes. RFC 2046 has 70.
const maxBoundary = 200

// boundaryText reports whether s may be a boundary (RFC 2046 section 5.1.1).
func boundaryText(s string) bool {
	if s == "" || len(s) > maxBoundary || strings.HasSuffix(s, " ") {
		return false
	}
	for _, r := range s {
		alnum := r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9'
		if !alnum && !strings.ContainsRune("'()+_,-./:=?%!#$&*;@[]{}|~^ ", r) {
			return false
		}
	}
	return true
}
