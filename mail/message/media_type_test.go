package message_test

import (
	"bytes"
	"mime"
	"strings"
	"testing"

	"agentstateloop/mail/message"
)

func TestMediaType(t *testing.T) {
	const png, pdf = "\x89PNG\r\n\x1a\n", "%PDF-1.7\n"
	for _, test := range []struct{ name, head, want string }{
		{"a.pdf", "anything", "application/pdf"},
		{"A.PDF", "", "application/pdf"},
		{"data.csv", "a,b\n", "text/csv"},
		{"notes.md", "# x\n", "text/markdown"},
		{"book.xlsx", "PK\x03\x04", "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"},
		{"run.log", "", "text/plain"},
		{"archive.tar.gz", "", "application/gzip"},
		{"mail.eml", "From: x\n", "message/rfc822"},
		{"picture", png, "image/png"},
		{"picture.unknown", png, "image/png"},
		{"scan.", pdf, "application/pdf"},
		{"Makefile", "all:\n\tgo build\n", "text/plain"},
		{"page", "<!DOCTYPE html><p>", "text/html"},
		{"blob", "\x00\x01\x02", "application/octet-stream"},
		{"empty", "", "text/plain"},
		{"", png, "image/png"},
		{".pdf", "", "application/pdf"},
	} {
		if got := message.MediaType(test.name, []byte(test.head)); got != test.want {
			t.Errorf("%s: %s, want %s", test.name, got, test.want)
		}
	}
}

// TestPartType checks that a part has the type of its file, and a charset only for text in UTF-8.
func TestPartType(t *testing.T) {
	for _, test := range []struct{ kind, data, want string }{
		{"text/csv", "a;ü\n", "text/csv; charset=utf-8"},
		{"text/csv", "a;\xfc\n", "text/csv"},
		{"application/pdf", "ü", "application/pdf"},
		{"message/rfc822", "From: x\n\n\xff", "application/octet-stream"},
		{"multipart/mixed; boundary=b", "", "application/octet-stream"},
		{"", "", "application/octet-stream"},
		{"text", "", "application/octet-stream"},
		{"text/html\r\nX: y", "x", "application/octet-stream"},
		{"text/" + strings.Repeat("x", 200), "", "application/octet-stream"},
		{"text/plain; charset=koi8-r; name=evil.exe", "x", "text/plain; charset=utf-8"},
	} {
		d := draft()
		d.Attachments = []message.Attachment{{Name: "a", Type: test.kind, Data: []byte(test.data)}}
		raw := string(render(t, d))
		rest := raw[strings.LastIndex(raw, "Content-Type: ")+len("Content-Type: "):]
		field, _, _ := strings.Cut(rest, "\r\nContent-Disposition")
		kind, params, err := mime.ParseMediaType(field)
		delete(params, "name")
		if got := mime.FormatMediaType(kind, params); err != nil || got != test.want {
			t.Errorf("%q: %q, %v, want %q", test.kind, got, err, test.want)
		}
		if c := message.ReadContent(strings.NewReader(raw), message.Sent{}); len(c.Attachments) != 1 || !bytes.Equal(c.Attachments[0].Data, []byte(test.data)) {
			t.Errorf("%q: the bytes have changed", test.kind)
		}
	}
}
