package message

import (
	"bytes"
	"fmt"
	"io"
	"strings"

	"agentstateloop/internal/plain"
)

// The limits of ReadContent. What is beyond them is only in the raw mail.
const (
	maxContent = 64 << 20 // bytes of the raw mail
	maxText    = 4 << 20  // bytes of text
	maxDepth   = 50       // multiparts inside one another
	maxParts   = 1000
)

// Content is the readable part of a mail.
type Content struct {
	Text        string // the text without quoted history and signatures, see ReplyText
	Full        string // the whole text
	Attachments []Attachment
	Problems    []string // what could not be read as intended, one line each
}

// Attachment is a file in a mail that came or that is to be sent.
type Attachment struct {
	// Name is a safe file name of plain letters, digits, dots and dashes.
	// ReadContent sets names of our own, such as "attachment-1.pdf".
	Name string
	Type string // media type, "application/pdf"
	Data []byte

	// Title is the name that the sender gave the file, as one line. It may say
	// anything, so it is only for display. Render ignores it.
	Title string
}

// ReadContent reads a raw mail. It never fails: if a part cannot be read as
// what it claims to be, ReadContent returns it as what it is, notes that in
// Problems, and reads the rest. Of alternatives it takes the plain text, or
// else the HTML converted to text.
//
// It reads at most 64 MiB of mail, 4 MiB of text and 1000 parts.
func ReadContent(r io.Reader) Content {
	raw, err := io.ReadAll(io.LimitReader(r, maxContent+1))
	c := ContentOf(raw)
	if err != nil {
		c.Problems = append(c.Problems, problem("read: %v", err))
	}
	return c
}

// ContentOf is ReadContent of a mail that is in memory. What it returns may share
// raw, which must not change.
func ContentOf(raw []byte) Content {
	var c contentReader
	if len(raw) > maxContent {
		raw = raw[:maxContent]
		c.problem("the mail is truncated at %d bytes", maxContent)
	}
	c.part(raw, 0)
	c.out.Full = strings.TrimSpace(strings.Join(c.texts, "\n\n"))
	if len(c.out.Full) > maxText {
		c.out.Full = plain.Cut(c.out.Full, maxText)
		c.problem("the text is truncated at %d bytes", maxText)
	}
	c.out.Text = ReplyText(c.out.Full)
	return c.out
}

type contentReader struct {
	out    Content
	texts  []string
	length int // bytes of all texts that were read
	parts  int
}

func (c *contentReader) problem(format string, args ...any) {
	if len(c.out.Problems) < 20 {
		c.out.Problems = append(c.out.Problems, problem(format, args...))
	}
}

func problem(format string, args ...any) string {
	return plain.Cut(plain.Line(fmt.Sprintf(format, args...)), 200)
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

func readEntity(raw []byte) entity {
	header, body := splitEntity(raw)
	e := entity{mediaType: "text/plain", body: body}
	typed := false
	for _, f := range Fields(header) {
		switch f.Name {
		case "content-type":
			if t, params := mediaType(f.Value); !typed && strings.Contains(t, "/") {
				e.mediaType, e.params, typed = t, params, true
			}
		case "content-transfer-encoding":
			e.encoding = Keyword(f.Value)
		case "content-disposition":
			d, params := mediaType(f.Value)
			e.attached = d == "attachment"
			e.title = params["filename"]
		}
	}
	if e.title == "" {
		e.title = e.params["name"]
	}
	e.title = oneLine(decodeWords(e.title), 200)
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
	e := readEntity(raw)
	switch {
	case strings.HasPrefix(e.mediaType, "multipart/"):
		c.multipart(e, depth)
	case !e.attached && (e.mediaType == "text/plain" || e.mediaType == "text/html"):
		c.texts = append(c.texts, c.text(e))
	default:
		c.attach(e)
	}
}

func (c *contentReader) multipart(e entity, depth int) {
	if depth >= maxDepth {
		c.problem("multiparts nested more than %d deep; the rest is attached as it is", maxDepth)
		e.mediaType = "text/plain"
		c.attach(e)
		return
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
	if chosen := append(plain, other...); len(chosen) > 0 {
		c.texts = append(c.texts, chosen[0])
	}
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
	encoded := c.decode(e)
	if len(encoded) > most {
		encoded = plain.TrimPartial(encoded[:most])
		c.problem("a text is truncated at %d bytes", most)
	}
	s := plain.Cut(c.charset(encoded, e.params["charset"]), most)
	c.length += len(s)
	if e.mediaType == "text/html" {
		return htmlText(s)
	}
	return plain.Text(s)
}

func (c *contentReader) attach(e entity) {
	if e.mediaType == "message/rfc822" && e.title == "" {
		for _, f := range Fields(e.body) {
			if f.Name == "subject" {
				e.title = oneLine(decodeWords(f.Value), 200)
			}
		}
	}
	c.out.Attachments = append(c.out.Attachments, Attachment{
		Name:  fmt.Sprintf("attachment-%d%s", len(c.out.Attachments)+1, extension(e)),
		Type:  e.mediaType,
		Data:  c.decode(e),
		Title: e.title,
	})
}

// extension returns the extension that the sender used if it is short and
// plain, and else one for the type.
func extension(e entity) string {
	if i := strings.LastIndexByte(e.title, '.'); i >= 0 {
		ext := strings.ToLower(e.title[i+1:])
		plain := len(ext) > 0 && len(ext) <= 8
		for _, r := range ext {
			plain = plain && (r >= 'a' && r <= 'z' || r >= '0' && r <= '9')
		}
		if plain {
			return "." + ext
		}
	}
	if ext, ok := commonExtensions[e.mediaType]; ok {
		return ext
	}
	return ".bin"
}

// commonExtensions is our own table, because that of the system differs from
// machine to machine.
var commonExtensions = map[string]string{
	"application/json": ".json", "application/pdf": ".pdf", "application/zip": ".zip",
	"image/gif": ".gif", "image/jpeg": ".jpg", "image/png": ".png", "image/svg+xml": ".svg",
	"message/rfc822": ".eml", "text/calendar": ".ics", "text/csv": ".csv",
	"text/html": ".html", "text/plain": ".txt",
}
