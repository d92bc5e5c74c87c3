package message

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"strings"

	"agentstateloop/internal/plain"
)

// The limits of ReadContent. Content beyond them is only in the raw mail.
const (
	maxContent = 64 << 20 // bytes of the raw mail
	maxText    = 4 << 20  // bytes of text
	maxDepth   = 50       // nested multiparts
	maxParts   = 1000

	maxProblems = 20
	maxProblem  = 200 // bytes
)

// Content is the readable part of a mail.
type Content struct {
	Text        string  // the sender's own text, see ownText
	Full        string  // the whole text
	Other       string  // the text of the HTML, if Full is its plain alternative
	Left        LeftOut // the lines of Full that are missing in Text
	Attachments []Attachment
	Problems    []string // reading problems, one line each
	Automatic   string   // why the mail was not written by hand, or ""
}

// Attachment is a file in a received mail, or in one to be sent.
type Attachment struct {
	// Name is a file name. ReadContent sets names of our own, such as "attachment-1.pdf".
	// Render sends any name in the form that FileName returns.
	Name string
	Type string // media type, "application/pdf"; see MediaType
	Data []byte

	// Apart, if not 0, is the number, from 1, of an attachment of ours that is kept apart: its
	// content is not in Data, see Whole. Foreign marks that content as a text that is not
	// UTF-8.
	Apart   int
	Foreign bool

	// Title is the sender's name for the file, as one line. It may contain any text, so it is
	// only for display. Render ignores it.
	Title string
}

// ReadContent reads a raw mail. It never fails: if a part cannot be read as declared,
// ReadContent reads it in another way, notes that in Problems, and reads the rest. Of
// alternatives it takes the plain text, otherwise the HTML converted to text. sent is our mail
// that the mail may repeat.
//
// It reads at most 64 MiB of mail, 4 MiB of text and 1000 parts.
func ReadContent(r io.Reader, sent Sent) Content {
	raw, err := io.ReadAll(io.LimitReader(r, maxContent+1))
	c := ContentOf(raw, sent)
	if err != nil {
		c.Problems = append(c.Problems, problem("read: %v", err))
	}
	return c
}

// ContentOf is ReadContent for a mail in memory. The result may share raw, which must not
// change.
func ContentOf(raw []byte, sent Sent) Content {
	c := contentReader{charsets: charsetsOf(raw)}
	if len(raw) > maxContent {
		raw = raw[:maxContent]
		c.problem("the mail is truncated at %d bytes", maxContent)
	}
	c.part(raw, 0)
	c.readNamed()
	c.out.Full = strings.TrimSpace(strings.Join(c.texts, "\n\n"))
	if len(c.out.Full) > maxText {
		c.out.Full = plain.Cut(c.out.Full, maxText)
		c.problem("the text is truncated at %d bytes", maxText)
	}
	text, armour := withoutArmor(c.out.Full)
	if armour != "" {
		c.problem("%s", armour)
	}
	c.out.Text, c.out.Left = ownText(text, kindOf(raw), sent)
	return c.out
}

type contentReader struct {
	out      Content
	texts    []string
	named    []entity // texts within the mail that count as files, because they have a name
	length   int      // bytes of all texts read so far
	parts    int
	charsets []string // candidates for raw bytes in a header
}

func (c *contentReader) problem(format string, args ...any) {
	p := problem(format, args...)
	if len(c.out.Problems) < maxProblems && !slices.Contains(c.out.Problems, p) {
		c.out.Problems = append(c.out.Problems, p)
	}
}

func problem(format string, args ...any) string {
	return plain.Cut(plain.Line(fmt.Sprintf(format, args...)), maxProblem)
}

// entity is one MIME entity, its body still encoded.
type entity struct {
	mediaType string
	params    map[string]string
	encoding  string
	attached  bool
	title     string
	body      []byte
}

// readEntity parses the fields of an entity. charsets are the candidates for raw bytes in the
// name of a file.
func readEntity(raw []byte, charsets ...string) entity {
	header, body := splitEntity(raw)
	e := entity{mediaType: "text/plain", body: body}
	var disposition, contentType []byte
	for _, f := range rawFields(header) {
		value := headerText([]byte(f.Value))
		switch f.Name {
		case "content-type":
			if t, params := mediaType(value); contentType == nil && strings.Contains(t, "/") {
				e.mediaType, e.params, contentType = t, params, []byte(f.Value)
			}
		case "content-transfer-encoding":
			e.encoding = Keyword(value)
		case "content-disposition":
			d, _ := mediaType(wholeWords(value))
			e.attached = d == "attachment"
			disposition = []byte(f.Value)
		}
	}
	if own := e.params["charset"]; own != "" {
		charsets = append([]string{own}, charsets...)
	}
	e.title = titleOf(disposition, contentType, charsets)
	return e
}

// splitEntity splits an entity after its header. A line of blanks ends the header like an empty
// one: a signature over the body does not distinguish them, so a reader must not either.
func splitEntity(raw []byte) (header, body []byte) {
	at := 0
	for line := range bytes.Lines(raw) {
		at += len(line)
		if len(bytes.TrimRight(line, " \t\r\n")) == 0 {
			return raw[:at-len(line)], raw[at:]
		}
	}
	return raw, nil
}

func (c *contentReader) part(raw []byte, depth int) {
	if c.parts++; c.parts > maxParts {
		if c.parts == maxParts+1 {
			c.problem("the mail has more than %d parts; the rest is left out", maxParts)
		}
		return
	}
	e := readEntity(raw, c.charsets...)
	switch {
	case e.mediaType == "text/vnd.google.email-reaction+json":
		c.out.Automatic = "a reaction to a mail"
	case strings.HasPrefix(e.mediaType, "multipart/"):
		c.multipart(e, depth)
	case !e.attached && depth > 0 && e.title != "" && isText(e):
		c.named = append(c.named, e)
		c.attach(e)
	case !e.attached && isText(e):
		c.texts = append(c.texts, c.text(e))
	default:
		if e.mediaType == "text/calendar" && e.has("method", "reply") {
			c.out.Automatic = "a calendar's reply to an invitation"
		}
		c.attach(e)
	}
}

// isText reports whether a part may be read as the text of the mail.
func isText(e entity) bool {
	switch e.mediaType {
	case "text/plain", "text/html", "text/markdown", "text/x-markdown", "text/enriched", "text/richtext":
		return true
	}
	return false
}

// readNamed reads the texts that count as files if the mail has no other text: the plain ones,
// otherwise those in HTML. So a program that names its text loses none of it.
func (c *contentReader) readNamed() {
	for _, html := range []bool{false, true} {
		if strings.TrimSpace(strings.Join(c.texts, "")) != "" {
			return
		}
		for _, e := range c.named {
			if html == (e.mediaType == "text/html") {
				c.texts = append(c.texts, c.text(e))
			}
		}
	}
}

func (c *contentReader) multipart(e entity, depth int) {
	if depth >= maxDepth {
		c.problem("multiparts are nested more than %d deep; the rest is attached as is", maxDepth)
		e.mediaType = "text/plain"
		c.attach(e)
		return
	}
	if e.mediaType == "multipart/encrypted" {
		c.problem("the mail is encrypted and cannot be decrypted here")
	}
	parts := splitParts(e.body, e.params["boundary"])
	if len(parts) == 0 {
		c.problem("%s without a boundary is read as text", e.mediaType)
		e.mediaType = "text/plain"
		c.texts = append(c.texts, c.text(e))
		return
	}
	if e.mediaType == "multipart/alternative" {
		c.alternative(parts, depth)
		return
	}
	for _, p := range parts {
		c.part(p, depth+1)
	}
}

// alternative takes the first plain text that is not blank, otherwise the first other form that
// is not blank, and the attachments of all forms.
func (c *contentReader) alternative(parts [][]byte, depth int) {
	var plain, other []string
	for _, p := range parts {
		before := len(c.texts)
		c.part(p, depth+1)
		text := strings.Join(c.texts[before:], "\n\n")
		c.texts = c.texts[:before]
		switch {
		case strings.TrimSpace(text) == "":
		case readEntity(p).mediaType == "text/plain":
			plain = append(plain, text)
		default:
			other = append(other, text)
		}
	}
	if len(plain) > 0 && len(other) > 0 && refersToHTML(plain[0], other[0]) {
		plain = nil
	}
	if len(plain) > 0 && len(other) > 0 {
		c.out.Other = other[0]
	}
	if chosen := append(plain, other...); len(chosen) > 0 {
		c.texts = append(c.texts, chosen[0])
	}
}

// maxReference is the maximum number of words of a text that only says that the mail is HTML.
const maxReference = 60

// refersToHTML reports whether the plain text of an alternative only says that the mail is
// HTML: it is short, names HTML, and shares few words with the other form.
func refersToHTML(plain, other string) bool {
	here, there := words(plain, maxReference+1), words(other, maxSentWords)
	shared := 0
	for _, w := range here {
		if slices.Contains(there, w) {
			shared++
		}
	}
	return len(here) <= maxReference && slices.Contains(here, "html") && 2*shared < len(here)
}

// splitParts splits a multipart body at its boundary lines (RFC 2046 section 5.1.1). If the
// closing line is missing, the last part ends with the body. It returns at most maxParts+1
// parts.
func splitParts(body []byte, boundary string) [][]byte {
	if boundary == "" {
		return nil
	}
	delimiter := []byte("--" + boundary)
	var parts [][]byte
	start := -1
	for at := 0; at < len(body); {
		next := len(body)
		if i := bytes.IndexByte(body[at:], '\n'); i >= 0 {
			next = at + i + 1
		}
		if tail, ok := bytes.CutPrefix(body[at:next], delimiter); ok {
			tail = bytes.TrimRight(tail, " \t\r\n")
			if len(tail) == 0 || string(tail) == "--" {
				if start >= 0 {
					parts = append(parts, trimLineEnd(body[start:at]))
				}
				start = next
				if len(tail) > 0 || len(parts) > maxParts {
					return parts
				}
			}
		}
		at = next
	}
	if start >= 0 && start < len(body) {
		parts = append(parts, body[start:])
	}
	return parts
}

// trimLineEnd drops the line end that belongs to the boundary line after it.
func trimLineEnd(b []byte) []byte {
	b = bytes.TrimSuffix(b, []byte("\n"))
	return bytes.TrimSuffix(b, []byte("\r"))
}

func (c *contentReader) text(e entity) string {
	const most = 2 * maxText // half of it may be markup; Full is truncated and noted later
	if c.length > most {
		c.problem("the mail has more than %d bytes of text; the rest is left out", most)
		return ""
	}
	if label := e.params["charset"]; !utf8Label(label) && len(c.charsets) < maxHints {
		c.charsets = append(c.charsets, label)
	}
	encoded := c.decode(e)
	if len(encoded) > most {
		encoded = plain.TrimPartial(encoded[:most])
		c.problem("a text part is truncated at %d bytes", most)
	}
	s := plain.Cut(c.charset(encoded, e.params["charset"]), most)
	s = strings.ReplaceAll(s, "\uFFFC", "") // an iPhone writes it in place of a picture
	c.length += len(s)
	if e.mediaType == "text/html" {
		text, hidden := htmlText(s)
		if hidden > 0 {
			c.problem("%d bytes of hidden text are left out", hidden)
		}
		return text
	}
	return e.readable(s)
}
