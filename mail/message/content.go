package message

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"strings"

	"agentstateloop/internal/plain"
)

// The limits of ReadContent. What is beyond them is only in the raw mail.
const (
	maxContent = 64 << 20 // bytes of the raw mail
	maxText    = 4 << 20  // bytes of text
	maxDepth   = 50       // multiparts inside one another
	maxParts   = 1000

	maxProblems = 20
	maxProblem  = 200 // bytes
)

// Content is the readable part of a mail.
type Content struct {
	Text        string  // what the sender wrote, see ownText
	Full        string  // the whole text
	Left        LeftOut // what of Full is not in Text
	Attachments []Attachment
	Problems    []string // what could not be read as intended, one line each
	Automatic   string   // what shows that nobody wrote the mail by hand, or ""
}

// Attachment is a file in a mail that came or that is to be sent.
type Attachment struct {
	// Name is a file name. ReadContent sets names of our own, such as
	// "attachment-1.pdf". Render sends any name as FileName cleans it.
	Name string
	Type string // media type, "application/pdf"; see MediaType
	Data []byte

	// Apart, if not 0, is the number, from 1, of an attachment of ours whose content is not
	// in Data: it lies apart, see Whole. Foreign: it is a text that is not UTF-8.
	Apart   int
	Foreign bool

	// Title is the name that the sender gave the file, as one line. It may say
	// anything, so it is only for display. Render ignores it.
	Title string
}

// ReadContent reads a raw mail. It never fails: if a part cannot be read as
// what it claims to be, ReadContent returns it as what it is, notes that in
// Problems, and reads the rest. Of alternatives it takes the plain text, or
// else the HTML converted to text. sent is what the mail may repeat of ours.
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

// ContentOf is ReadContent of a mail that is in memory. What it returns may share
// raw, which must not change.
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
	text, armour := unarmoured(c.out.Full)
	if armour != "" {
		c.problem("%s", armour)
	}
	c.out.Text, c.out.Left = ownText(text, kindOf(raw), sent)
	return c.out
}

type contentReader struct {
	out      Content
	texts    []string
	named    []entity // texts within the mail that are files, because they have a name
	length   int      // bytes of all texts that were read
	parts    int
	charsets []string // in which raw bytes of a header may be
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

// readEntity reads the fields of an entity. Raw bytes in the name of a file may be in one
// of charsets.
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

// splitEntity splits an entity behind its header. A line of blanks ends the
// header as an empty one does: a signature over the body makes no difference
// between them, so a reader must not either.
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
			c.problem("more than %d parts, the rest is left out", maxParts)
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
			c.out.Automatic = "the answer of a calendar to an invitation"
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

// readNamed reads the texts that are files if the mail has no other text: the plain ones,
// or else those in HTML. So nothing that was written is lost with a program that gives
// its text a name.
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
		c.problem("multiparts nested more than %d deep; the rest is attached as it is", maxDepth)
		e.mediaType = "text/plain"
		c.attach(e)
		return
	}
	if e.mediaType == "multipart/encrypted" {
		c.problem("the mail is encrypted, and cannot be read here")
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

// alternative takes the first plain text that is not blank, or else the first
// other form that is not, and the attachments of all.
func (c *contentReader) alternative(parts [][]byte, depth int) {
	var plain, other []string
	for _, p := range parts {
		had := len(c.texts)
		c.part(p, depth+1)
		said := strings.Join(c.texts[had:], "\n\n")
		c.texts = c.texts[:had]
		switch {
		case strings.TrimSpace(said) == "":
		case readEntity(p).mediaType == "text/plain":
			plain = append(plain, said)
		default:
			other = append(other, said)
		}
	}
	if len(plain) > 0 && len(other) > 0 && refersToHTML(plain[0], other[0]) {
		plain = nil
	}
	if chosen := append(plain, other...); len(chosen) > 0 {
		c.texts = append(c.texts, chosen[0])
	}
}

// maxReference is how many words a text has at most that only says that the mail is HTML.
const maxReference = 60

// refersToHTML reports whether the plain text of an alternative only says that the mail is
// HTML: it is short, names HTML, and shares few of its words with the other form.
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

// splitParts splits a multipart body at its boundary lines (RFC 2046 section
// 5.1.1). If the closing line is missing, the last part ends with the body. Of
// more than maxParts parts it returns one more than that.
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
		c.problem("more than %d bytes of text, the rest is left out", most)
		return ""
	}
	if label := e.params["charset"]; !utf8Label(label) && len(c.charsets) < maxHints {
		c.charsets = append(c.charsets, label)
	}
	encoded := c.decode(e)
	if len(encoded) > most {
		encoded = plain.TrimPartial(encoded[:most])
		c.problem("a text is truncated at %d bytes", most)
	}
	s := plain.Cut(c.charset(encoded, e.params["charset"]), most)
	s = strings.ReplaceAll(s, "\uFFFC", "") // an iPhone writes it where a picture stands
	c.length += len(s)
	if e.mediaType == "text/html" {
		text, hidden := htmlText(s)
		if hidden > 0 {
			c.problem("%d bytes of text that mail programs do not show are left out", hidden)
		}
		return text
	}
	return e.readable(s)
}
