package message_test

import (
	"bytes"
	"io"
	"math/rand/v2"
	"mime"
	"mime/multipart"
	"mime/quotedprintable"
	netmail "net/mail"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"agentstateloop/mail/message"
)

func draft() message.Draft {
	return message.Draft{
		ID: "reply.t1", IDKey: agentIDs.IDKey, Handle: "goulard3120", From: "artificer3120@example.org", To: "operator@example.com",
		Subject: "@goulard3120 status", Date: time.Date(2026, 1, 5, 12, 0, 0, 0, time.UTC), InReplyTo: "<q@example.com>", References: []string{"<p@example.com>"},
		Text: "All is well.\n.\n..dots\nFrom here on äöü.", Auto: message.AutoReplied,
	}
}

func render(t testing.TB, d message.Draft) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := message.Render(&b, d); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestRender(t *testing.T) {
	d := draft()
	raw := render(t, d)
	if !bytes.Equal(raw, render(t, d)) {
		t.Error("the same draft is rendered differently")
	}
	m, err := netmail.ReadMessage(bytes.NewReader(raw))
	if err != nil {
		t.Fatal(err)
	}
	for field, want := range map[string]string{
		"From": "goulard3120 <artificer3120@example.org>", "To": "<operator@example.com>", "Subject": "Re: @goulard3120 status",
		"Message-Id": agentIDs.Make("reply.t1", "@goulard3120 status"), "In-Reply-To": "<q@example.com>", "References": "<p@example.com> <q@example.com>",
		"Auto-Submitted": "auto-replied", "X-Agentstateloop": "goulard3120", "Date": "Mon, 05 Jan 2026 12:00:00 +0000", "Mime-Version": "1.0",
	} {
		if got := m.Header.Get(field); got != want {
			t.Errorf("%s: %q, want %q", field, got, want)
		}
	}
	h := message.ParseHeader(raw)
	if !agentIDs.Ours(h.MessageID) || !agentIDs.OfThread(h.MessageID, "AW: @goulard3120 Status") {
		t.Errorf("our own Message-ID %q is not recognised", h.MessageID)
	}
	if c := message.ReadContent(bytes.NewReader(raw), message.Sent{}); c.Full != d.Text || len(c.Problems) != 0 {
		t.Errorf("text %q, problems %q", c.Full, c.Problems)
	}
}

// TestRenderAnyDraft checks that the mail of any draft is well-formed and has its content.
func TestRenderAnyDraft(t *testing.T) {
	for name, edit := range map[string]func(*message.Draft){
		"injection":       func(d *message.Draft) { d.Subject = "x\r\nBcc: evil@example.net\r\n\r\nbody" },
		"bad ids":         func(d *message.Draft) { d.InReplyTo = "<a b@c>\r\nX: y"; d.References = []string{"x\r\ny", "<ok@b>"} },
		"foreign subject": func(d *message.Draft) { d.Subject = strings.Repeat("Grüße ☕ ", 60) },
		"encoded subject": func(d *message.Draft) { d.Subject = "=?utf-8?q?not_decoded?=" },
		"long subject":    func(d *message.Draft) { d.Subject = strings.Repeat("word ", 300) + strings.Repeat("x", 2000) },
		"no subject":      func(d *message.Draft) { d.Subject = "" },
		"long chain":      func(d *message.Draft) { d.References = strings.Fields(strings.Repeat("<x@y> <z@y> ", 500)) },
		"long lines":      func(d *message.Draft) { d.Text = strings.Repeat("x", 5000) + "\n" + strings.Repeat("☕", 5000) },
		"mostly foreign":  func(d *message.Draft) { d.Text = strings.Repeat("こんにちは\n", 50) },
		"no text":         func(d *message.Draft) { d.Text = "" },
		"control chars":   func(d *message.Draft) { d.Text = "a\x00b\r\nc\rd\x1b[31m\xff" },
		"attachment": func(d *message.Draft) {
			d.Attachments = []message.Attachment{{Name: "a.bin", Data: bytes.Repeat([]byte{0, 255}, 1000)}}
		},
		"boundary in text": func(d *message.Draft) {
			d.Attachments = []message.Attachment{{Name: "a"}}
			_, rest, _ := strings.Cut(string(render(t, *d)), "boundary=\"")
			boundary, _, _ := strings.Cut(rest, "\"")
			d.Text = "above\n--" + boundary + "\nbelow"
		},
		"odd attachment": func(d *message.Draft) {
			d.Attachments = []message.Attachment{{Name: "../..\\x\"\r\nX: y.sh", Type: "text/html\r\nX: y", Data: []byte("x")}, {Name: "...", Type: "multipart/mixed; boundary=b"}}
		},
	} {
		d := draft()
		edit(&d)
		raw := render(t, d)
		for i, line := range strings.Split(strings.TrimSuffix(string(raw), "\r\n"), "\r\n") {
			if len(line) > 998 || strings.ContainsAny(line, "\r\n\x00") {
				t.Errorf("%s: line %d of %d bytes: %.80q", name, i, len(line), line)
			}
			for _, r := range line {
				if r >= 0x80 {
					t.Errorf("%s: line %d is not ASCII", name, i)
					break
				}
			}
		}
		m, err := netmail.ReadMessage(bytes.NewReader(raw))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if m.Header.Get("Bcc") != "" || m.Header.Get("X") != "" || len(m.Header["Subject"]) != 1 {
			t.Errorf("%s: header %v", name, m.Header)
		}
		c := message.ReadContent(bytes.NewReader(raw), message.Sent{})
		if len(c.Attachments) != len(d.Attachments) || len(c.Problems) != 0 {
			t.Errorf("%s: %d attachments, problems %q", name, len(c.Attachments), c.Problems)
		}
		for i := range min(len(c.Attachments), len(d.Attachments)) {
			if !bytes.Equal(c.Attachments[i].Data, d.Attachments[i].Data) {
				t.Errorf("%s: attachment %d has %d bytes, want %d", name, i, len(c.Attachments[i].Data), len(d.Attachments[i].Data))
			}
		}
		if name != "control chars" && c.Full != strings.TrimSpace(d.Text) {
			t.Errorf("%s: text of %d bytes, want %d", name, len(c.Full), len(d.Text))
		}
		want := strings.Join(strings.Fields(d.Subject), " ")
		if h := message.ParseHeader(raw); len(want) < 900 && h.Subject != strings.TrimSpace("Re: "+want) {
			t.Errorf("%s: subject %q, want %q", name, h.Subject, want)
		}
		if h := message.ParseHeader(raw); len(h.References) > 20 {
			t.Errorf("%s: %d references", name, len(h.References))
		}
		// An answer with the same subject belongs to the thread.
		h := message.ParseHeader(raw)
		if empty := d.Subject == ""; agentIDs.OfThread(h.MessageID, message.ReplySubject(h.Subject)) == empty {
			t.Errorf("%s: the answer to %q is of its thread: %v", name, h.Subject, !empty)
		}
	}
	for name, edit := range map[string]func(*message.Draft){
		"id":      func(d *message.Draft) { d.ID = "a b" },
		"handle":  func(d *message.Draft) { d.Handle = "x\r\ny" },
		"address": func(d *message.Draft) { d.To = "a@b>\r\nRCPT TO:<c@d" },
		"none":    func(d *message.Draft) { d.From = "" },
		"auto":    func(d *message.Draft) { d.Auto = "" },
		"key":     func(d *message.Draft) { d.IDKey = message.IDKey{} },
	} {
		d := draft()
		edit(&d)
		if err := message.Render(io.Discard, d); err == nil {
			t.Errorf("bad %s: no error", name)
		}
	}
}

func TestRePrefixIsAddedOnce(t *testing.T) {
	for in, want := range map[string]string{"x": "Re: x", "Re: x": "Re: x", "RE: x": "RE: x", "AW: x": "AW: x", "Regards: x": "Re: Regards: x"} {
		d := draft()
		d.Subject = in
		if h := message.ParseHeader(render(t, d)); h.Subject != want {
			t.Errorf("%q becomes %q, want %q", in, h.Subject, want)
		}
	}
	d := draft()
	d.InReplyTo, d.References, d.Auto = "", nil, message.AutoGenerated
	if h := message.ParseHeader(render(t, d)); h.Subject != d.Subject || len(h.References) != 0 {
		t.Errorf("a new thread: %+v", h)
	}
}

// TestDisplayName renders From with names that need quotes or encoding.
func TestDisplayName(t *testing.T) {
	for name, want := range map[string]string{
		"":               "goulard3120 <artificer3120@example.org>",
		"Goulard":        `"Goulard" <artificer3120@example.org>`,
		`G. "x", y\z`:    `"G. \"x\", y\\z" <artificer3120@example.org>`,
		"a\r\nBcc: evil": `"a Bcc: evil" <artificer3120@example.org>`,
	} {
		d := draft()
		d.Name = name
		raw := string(render(t, d))
		if line, _, _ := strings.Cut(raw, "\r\n"); line != "From: "+want {
			t.Errorf("%q: %q", name, line)
		}
	}
	long := draft()
	long.Name = strings.Repeat("Ünïcödé ", 7)
	raw := render(t, long)
	if got := message.SenderName(raw); got != strings.TrimSpace(long.Name) {
		t.Errorf("%q is read as %q", long.Name, got)
	}
	for line := range strings.SplitSeq(string(raw), "\r\n") {
		if len(line) > 100 {
			t.Errorf("a line of %d bytes: %s", len(line), line)
		}
	}
}

// alternatives returns the types and texts of the alternative parts of a mail.
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

// TestRenderMarkdown checks that an answer in Markdown has the same text part as without HTML,
// followed by the HTML.
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
		plainMail := render(t, d)
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
		// Except for Content-Type, the header is the same as without HTML.
		before, _ := netmail.ReadMessage(bytes.NewReader(plainMail))
		for _, field := range []string{"From", "To", "Subject", "Date", "Message-Id", "In-Reply-To", "References", "Auto-Submitted", "X-Agentstateloop"} {
			if m.Header.Get(field) != before.Header.Get(field) || m.Header.Get(field) == "" {
				t.Errorf("%s: %s is %q, and %q without HTML", name, field, m.Header.Get(field), before.Header.Get(field))
			}
		}
		with, without := message.ReadContent(bytes.NewReader(raw), message.Sent{}), message.ReadContent(bytes.NewReader(plainMail), message.Sent{})
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

// TestRenderPlain checks that a text without formatting has no HTML part, and that a text has none
// if it is not declared as Markdown.
func TestRenderPlain(t *testing.T) {
	d := draft()
	d.Markdown = true
	if raw := render(t, d); bytes.Contains(raw, []byte("text/html")) || bytes.Contains(raw, []byte("multipart")) {
		t.Errorf("HTML of a plain answer: %s", raw)
	}
	d.Text, d.Markdown = "**bold**", false
	if raw := render(t, d); bytes.Contains(raw, []byte("text/html")) {
		t.Errorf("HTML of a text that is not Markdown: %s", raw)
	}
}

// TestWholeEqualsInlineMail checks that Whole returns the same mail as Render with the attachments
// inline, for any sizes and text.
func TestWholeEqualsInlineMail(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	texts := []string{"", "=_apart 1\n", "a\n=_apart 1\r\n=_apart 2\nb", "Hello.\n", strings.Repeat("äöü =_apart 1\n", 50)}
	for n := range 60 {
		d := draft()
		d.Text = texts[n%len(texts)]
		apart := d
		var contents []io.Reader
		for i := range 1 + random.IntN(4) {
			data := make([]byte, []int{0, 1, 56, 57, 58, 57*512 - 1, 57 * 512, 57*512 + 1, 100_000}[random.IntN(9)])
			for j := range data {
				data[j] = byte(random.Uint32())
			}
			a := message.Attachment{Name: "=_apart 1", Type: "text/csv", Data: data}
			d.Attachments = append(d.Attachments, a)
			if i%3 == 2 {
				apart.Attachments = append(apart.Attachments, a) // a small one, inline
				continue
			}
			contents = append(contents, iotest.OneByteReader(bytes.NewReader(data)))
			apart.Attachments = append(apart.Attachments, message.Attachment{Name: a.Name, Type: a.Type, Apart: len(contents), Foreign: n%2 == 0})
		}
		if n%2 == 0 {
			for i := range d.Attachments {
				d.Attachments[i].Type, apart.Attachments[i].Type = "application/pdf", "application/pdf"
			}
		}
		whole, err := message.Whole(render(t, apart), contents)
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(whole)
		want := render(t, d)
		if n%2 == 1 { // random bytes are not UTF-8, unless empty
			got, want = bytes.ReplaceAll(got, []byte("; charset=utf-8"), nil), bytes.ReplaceAll(want, []byte("; charset=utf-8"), nil)
		}
		if err != nil || !bytes.Equal(got, want) {
			t.Fatalf("%d: %v\n%.1000s\nwant\n%.1000s", n, err, got, want)
		}
	}
}

// TestWholeCountsFiles checks that Whole returns an error before it reads a file if there are more or
// fewer files than placeholders.
func TestWholeCountsFiles(t *testing.T) {
	d := draft()
	d.Attachments = []message.Attachment{{Name: "a", Apart: 1}, {Name: "b", Apart: 2}}
	raw := render(t, d)
	for n := range 4 {
		contents := make([]io.Reader, n)
		for i := range contents {
			contents[i] = strings.NewReader("x")
		}
		if _, err := message.Whole(raw, contents); (err == nil) != (n == 2) {
			t.Errorf("%d files: %v", n, err)
		}
	}
	other := bytes.Replace(raw, []byte("=_apart 2"), []byte("=_apart 3"), 1)
	if _, err := message.Whole(other, []io.Reader{strings.NewReader(""), strings.NewReader("")}); err == nil {
		t.Error("a wrong placeholder was filled")
	}
	broken, err := message.Whole(raw, []io.Reader{strings.NewReader("x"), iotest.ErrReader(io.ErrClosedPipe)})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadAll(broken); err != io.ErrClosedPipe {
		t.Errorf("%v: want the error of the file", err)
	}
}
