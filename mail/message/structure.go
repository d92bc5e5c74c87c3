package message

import (
	"bytes"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"unicode/utf8"

	"agentstateloop/internal/plain"

	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/japanese"
	"golang.org/x/text/encoding/unicode"
)

// If a signature covers the body but not the fields that say how to read it, anybody who holds
// the mail can replace these fields. Then we accept only a body that itself allows just one way
// to read it (docs/design.md, "The gate").

// SoleReading returns nil if the body of raw, a whole mail, has only one reading as text,
// regardless of Content-Type and Content-Transfer-Encoding, and these fields name it. Otherwise
// the error describes the doubt.
//
// ReadContent returns the same for any two mails that pass with one body and different fields.
// The rules that identify a body exclude one another:
//
//   - A multipart begins with a boundary line, after at most a sentence that programs write
//     there, and ends with the closing line of that boundary. Its subtype matters if it has
//     several texts: an alternative is one plain text followed by one HTML.
//   - A file begins with the signature of its format, or is base64 of bytes that are not text.
//     It is not an instruction. Its name may have been replaced, see IsFile.
//   - A text has no boundary line. It is HTML if it begins as an HTML document.
//   - A body is base64 or quoted-printable if it is the output of an encoder of a text, to the
//     last byte.
//   - A text that is valid UTF-8 is UTF-8, and one that switches to Japanese by escape
//     sequences is ISO-2022-JP. In other charsets each byte of ASCII must represent itself. So
//     two charsets can give such a text other letters beyond ASCII, and the same words in ASCII
//     ([decision 62] has the table).
//
// [decision 62]: docs/decisions/0062-ambiguous-mail-and-challenges.md
func SoleReading(raw []byte, signed SignedFields) error {
	e := readEntity(raw)
	switch {
	case strings.HasPrefix(e.mediaType, "multipart/") && signed.Type:
		return nil // the encoding of a multipart has no effect
	case strings.HasPrefix(e.mediaType, "multipart/"):
		return soleMultipart(e)
	case !isText(e) && signed.Type:
		return nil
	case !isText(e):
		return soleFile(e)
	case e.attached && !signed.Disposition:
		return errors.New("Content-Disposition declares the text an attachment")
	case signed.Type && signed.Encoding:
		return nil
	}
	text, err := e.soleDecoding(signed)
	if err != nil || signed.Type {
		return err
	}
	return soleText(e, text)
}

// IsFile reports whether a whole mail is one file, whose name is in the header.
func IsFile(raw []byte) bool {
	e := readEntity(raw)
	return !strings.HasPrefix(e.mediaType, "multipart/") && !isText(e)
}

// SignedFields reports which of the fields that determine how to read a body cannot have been
// replaced: Content-Type, Content-Transfer-Encoding and Content-Disposition.
type SignedFields struct{ Type, Encoding, Disposition bool }

// soleText returns an error if a body that claims to be one text could be another text. text is
// the decoded body.
func soleText(e entity, text []byte) error {
	switch {
	case mayBeMultipart(e.body):
		return errors.New("the text contains boundary lines and may be a multipart")
	case beginsAsFile(text):
		return errors.New("the text begins like a file")
	case beginsAsHTML(text) != (e.mediaType == "text/html"):
		return fmt.Errorf("the text is declared as %s, but begins like another type", e.mediaType)
	case e.mediaType == "text/enriched" || e.mediaType == "text/richtext":
		return fmt.Errorf("%s would change the words of the text", e.mediaType)
	}
	return soleCharset(e, text)
}

// soleCharset returns an error if text could be in another charset than that of its label, with
// other words, or if the other parameters change its words.
func soleCharset(e entity, text []byte) error {
	label := e.params["charset"]
	known := encodingOf(label)
	if strings.TrimSpace(label) == "" {
		known = unicode.UTF8
	}
	if _, wide := wideCharsetOf(label); wide || known == nil {
		return fmt.Errorf("the charset %q is unknown or not compatible with ASCII", oneLine(label, 40))
	}
	inJapanese, inUTF8 := switchesToJapanese(text), utf8.Valid(text)
	fits := false
	switch {
	case inJapanese:
		fits = known == japanese.ISO2022JP
	case inUTF8 && !IsASCII(text):
		fits = known == unicode.UTF8
	default:
		fits = (inUTF8 || known != unicode.UTF8 && e.mediaType != "text/html") && keepsASCII(known, text)
	}
	if !fits {
		return fmt.Errorf("the charset is %q, but the text may be in another one", oneLine(label, 40))
	}
	if e.mediaType != "text/plain" || !e.has("format", "flowed") {
		return nil
	}
	if len(text) > maxText {
		return fmt.Errorf("the text is declared as format=flowed and has more than %d bytes", maxText)
	}
	if s, _ := decodeValid(known, text); !sameWords(plain.Text(s), e.readable(s)) {
		return errors.New("an unsigned parameter of Content-Type changes the words of the text")
	}
	return nil
}

// switchesToJapanese reports whether text is ISO-2022-JP: it has escape sequences, and is valid
// in that charset.
func switchesToJapanese(text []byte) bool {
	if !bytes.Contains(text, []byte("\x1b")) {
		return false
	}
	_, ok := decodeValid(japanese.ISO2022JP, text)
	return ok
}

// keepsASCII reports whether text is valid in a charset and its bytes of ASCII represent
// themselves there: they are not part of other characters, and no other byte becomes a
// character of ASCII.
func keepsASCII(known encoding.Encoding, text []byte) bool {
	s, ok := decodeValid(known, text)
	return ok && onlyASCII(string(text)) == onlyASCII(s)
}

// decodeValid decodes text. ok is false if text is invalid in that charset, or has a character
// beyond ASCII that plain.Text drops, which would join the words next to it.
func decodeValid(known encoding.Encoding, text []byte) (s string, ok bool) {
	b, err := known.NewDecoder().Bytes(text)
	s = string(b)
	return s, err == nil && !strings.ContainsFunc(s, func(r rune) bool {
		return r == utf8.RuneError || r >= utf8.RuneSelf && plain.Text(string(r)) == ""
	})
}

// onlyASCII returns the characters of ASCII in s.
func onlyASCII(s string) string {
	return strings.Map(func(r rune) rune {
		if r < utf8.RuneSelf {
			return r
		}
		return -1
	}, s)
}

// soleFile returns an error if a body that claims to be a file could be a text.
func soleFile(e entity) error {
	begins := beginsAsFile(e.body)
	switch e.encoding {
	case "", "7bit", "8bit", "binary":
	case "quoted-printable":
		whole, _ := wholeQuotedPrintable(e.body)
		begins = begins && whole
	case "base64":
		begins = isFileInBase64(e.body)
	default:
		begins = false
	}
	if !begins {
		return fmt.Errorf("the body is declared as %s, but may be a text", oneLine(e.mediaType, 100))
	}
	return nil
}

// fileBegins are the beginnings of files that a mail can be and that mail programs show as
// files: the body of an invitation must not pass for a text.
var fileBegins = []string{"BEGIN:VCALENDAR", "BEGIN:VCARD", "%PDF-", "%!PS", "{\\rtf", "<?xml"}

func beginsAsFile(text []byte) bool {
	begin := strings.ToUpper(string(bytes.TrimLeft(text[:min(len(text), maxBegin)], "\ufeff \t\r\n")))
	return slices.ContainsFunc(fileBegins, func(file string) bool { return strings.HasPrefix(begin, strings.ToUpper(file)) })
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

// maxBegin is the number of bytes of a text in which the beginning of a file or of HTML is
// looked for.
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

// preambles are the sentences that programs write before the first boundary line. Mail programs
// do not show them.
var preambles = []string{
	"This is a multi-part message in MIME format.",
	"This is a multipart message in MIME format.",
	"This is a cryptographically signed message in MIME format.",
}

// soleMultipart returns an error unless the body is a multipart from its first to its last
// byte.
func soleMultipart(e entity) error {
	switch e.encoding {
	case "", "7bit", "8bit", "binary":
	default:
		return fmt.Errorf("the multipart is encoded as %s", oneLine(e.encoding, 40))
	}
	boundary := e.params["boundary"]
	if !boundaryText(boundary) || strings.Trim(boundary, "-") == "" {
		return fmt.Errorf("the boundary %q is malformed", oneLine(boundary, 80))
	}
	if err := checkFraming(e.body, boundary); err != nil {
		return err
	}
	parts := splitParts(e.body, boundary)
	if several, alternatives := severalTexts(parts); several && alternatives != (e.mediaType == "multipart/alternative") {
		return fmt.Errorf("the parts do not match the declared type %s", oneLine(e.mediaType, 100))
	}
	return nil
}

// checkFraming returns an error unless body begins with a boundary line, after an optional preamble,
// and only its last line closes the multipart.
func checkFraming(body []byte, boundary string) error {
	open, end := "--"+boundary, "--"+boundary+"--"
	preamble, begun, closed := false, false, false
	for line := range filledLines(body) {
		switch {
		case !begun && !preamble && slices.Contains(preambles, string(line)):
			preamble = true
			continue
		case !begun && string(line) != open:
			return errors.New("the body does not begin with its boundary line")
		case closed:
			return errors.New("the body does not end with its closing boundary line")
		}
		begun, closed = true, string(line) == end
	}
	if !closed {
		return errors.New("the body does not end with its closing boundary line")
	}
	return nil
}

// filledLines returns the lines of a body that are not blank, without the blanks at their ends.
func filledLines(body []byte) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		for line := range bytes.Lines(body) {
			if line = bytes.TrimRight(line, " \t\r\n"); len(line) > 0 && !yield(line) {
				return
			}
		}
	}
}

// severalTexts reports whether more than one of parts has text. alternatives is true if they
// are a plain text followed by the same as HTML, and are not files.
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

// mayBeMultipart reports whether a line of body may be a boundary line. "-- ", a rule of dashes and
// "--force" do not count. A boundary line has the field of a part below it, or its closing
// line.
func mayBeMultipart(body []byte) bool {
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

// maxBoundary is the maximum length of a boundary, in bytes. RFC 2046 allows 70.
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
