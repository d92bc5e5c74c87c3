package message_test

import (
	"bytes"
	"io"
	netmail "net/mail"
	"strings"
	"testing"
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

// Whatever a draft holds, the mail is well-formed and says the same.
func TestRenderOddDrafts(t *testing.T) {
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
		// An answer with the subject that was sent is one of its thread.
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

func TestReIsAddedOnce(t *testing.T) {
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
