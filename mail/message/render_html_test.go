package message_test

import (
	"bytes"
	"io"
	"mime"
	"mime/multipart"
	"mime/quotedprintable"
	netmail "net/mail"
	"strings"
	"testing"

	"agentstateloop/mail/message"
)

// alternatives returns the types and texts of the parts of a mail that say the same.
func alternatives(t *testing.T, kind string, body io.Reader) (kinds, texts []string) {
	t.Helper()
	base, params, err := mime.ParseMediaType(kind)
	if err != nil {
		t.Fatal(err)
	}
	if base != "multipart/alternative" && base != "multipart/mixed" {
		return []string{kind}, nil
	}
	r := multipart.NewReader(body, params["boundary"])
	if base == "multipart/mixed" {
		p, err := r.NextRawPart()
		if err != nil {
			t.Fatal(err)
		}
		return alternatives(t, p.Header.Get("Content-Type"), p)
	}
	for {
		p, err := r.NextRawPart()
		if err == io.EOF {
			return kinds, texts
		}
		if err != nil {
			t.Fatal(err)
		}
		var content io.Reader = p
		if p.Header.Get("Content-Transfer-Encoding") == "quoted-printable" {
			content = quotedprintable.NewReader(p)
		}
		data, err := io.ReadAll(content)
		if err != nil {
			t.Fatal(err)
		}
		kinds, texts = append(kinds, p.Header.Get("Content-Type")), append(texts, string(data))
	}
}

// An answer in Markdown has its text as it would have without HTML, and HTML behind it.
func TestRenderMarkdown(t *testing.T) {
	for name, edit := range map[string]func(*message.Draft){
		"short":    func(*message.Draft) {},
		"a file":   func(d *message.Draft) { d.Attachments = []message.Attachment{{Name: "a.txt", Data: []byte("x")}} },
		"foreign":  func(d *message.Draft) { d.Text += strings.Repeat("\n\n漢字", 300) },
		"boundary": func(d *message.Draft) { d.Text += "\n\n--=_0123456789abcdef01234567\n" },
	} {
		d := draft()
		d.Text = "All is **well**.\n\n- a line that is longer than the seventy-eight characters that may stand on one line of a mail\n"
		edit(&d)
		plainly := render(t, d)
		d.Markdown = true
		raw := render(t, d)
		if !bytes.Equal(raw, render(t, d)) {
			t.Errorf("%s: another mail the second time", name)
		}
		m, err := netmail.ReadMessage(bytes.NewReader(raw))
		if err != nil {
			t.Fatal(err)
		}
		kinds, texts := alternatives(t, m.Header.Get("Content-Type"), m.Body)
		if len(kinds) != 2 || kinds[0] != "text/plain; charset=utf-8" || kinds[1] != "text/html; charset=utf-8" {
			t.Errorf("%s: parts %q", name, kinds)
			continue
		}
		if name != "foreign" && !strings.Contains(texts[1], "All is <strong>well</strong>.") {
			t.Errorf("%s: HTML %q", name, texts[1])
		}
		// The header, but for the type of the body, is what it is without HTML.
		before, _ := netmail.ReadMessage(bytes.NewReader(plainly))
		for _, field := range []string{"From", "To", "Subject", "Date", "Message-Id", "In-Reply-To", "References", "Auto-Submitted", "X-Agentstateloop"} {
			if m.Header.Get(field) != before.Header.Get(field) || m.Header.Get(field) == "" {
				t.Errorf("%s: %s is %q, and %q without HTML", name, field, m.Header.Get(field), before.Header.Get(field))
			}
		}
		with, without := message.ReadContent(bytes.NewReader(raw), message.Sent{}), message.ReadContent(bytes.NewReader(plainly), message.Sent{})
		if with.Full != without.Full || with.Full != strings.TrimSpace(d.Text) || len(with.Problems) != 0 || len(with.Attachments) != len(d.Attachments) {
			t.Errorf("%s: text %q, problems %q, %d attachments", name, with.Full, with.Problems, len(with.Attachments))
		}
		for line := range bytes.Lines(raw) {
			if len(line) > 80 && !bytes.HasPrefix(line, []byte("Message-ID")) || bytes.ContainsFunc(line, func(r rune) bool { return r >= 0x80 }) {
				t.Errorf("%s: a line of %d bytes: %q", name, len(line), line)
			}
		}
	}
}

// A text without formatting has no HTML, and neither has one that is not said to be
// Markdown.
func TestRenderPlain(t *testing.T) {
	d := draft()
	d.Markdown = true
	if raw := render(t, d); bytes.Contains(raw, []byte("text/html")) || bytes.Contains(raw, []byte("multipart")) {
		t.Errorf("HTML of a plain answer: %s", raw)
	}
	d.Text, d.Markdown = "**bold**", false
	if raw := render(t, d); bytes.Contains(raw, []byte("text/html")) {
		t.Errorf("HTML that was not asked for: %s", raw)
	}
}
