package message

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"
)

func read(raw string) Content {
	return ReadContent(strings.NewReader(strings.ReplaceAll(raw, "\n", "\r\n")))
}

func TestContent(t *testing.T) {
	for _, tt := range []struct {
		name, raw, text string
		problem         string // "" for none
	}{
		{"plain", "Subject: x\n\nhello\nworld\n", "hello\nworld", ""},
		{"no header end", "Subject: x\nhello", "", ""},
		{"quoted-printable", "Content-Transfer-Encoding: quoted-printable\nContent-Type: text/plain; charset=iso-8859-15\n\nPreis: 5 =A4 =\nweiter\n", "Preis: 5 € weiter", ""},
		{"base64", "Content-Transfer-Encoding: BASE64\nContent-Type: text/plain; charset=utf-8\n\naMOk\nbGxv\n", "hällo", ""},
		{"broken base64", "Content-Transfer-Encoding: base64\nContent-Type: text/plain\n\naGVs!!bG8\n", "hello", "broken base64"},
		{"odd charset", "Content-Type: text/plain; charset=klingon\n\ncaf\xe9\n", "café", "klingon"},
		{"wrong charset", "Content-Type: text/plain; charset=utf-8\n\ncaf\xe9 !\n", "caf\uFFFD !", "not all UTF-8"},
		{"japanese", "Content-Type: text/plain; charset=iso-2022-jp\n\n\x1b$B$3$s\x1b(B\n", "こん", ""},
		{"NULs", "Content-Type: text/plain\n\na\x00b\x07c\n", "abc", ""},
		{"broken type", "Content-Type: text/plain; charset=\"utf-8; x\n\nhello\n", "hello", ""},
		{"unknown encoding", "Content-Transfer-Encoding: x-zip\n\nhello\n", "hello", "x-zip"},
		{"no boundary", "Content-Type: multipart/mixed\n\nstill\nreadable\n", "still\nreadable", "boundary"},
		{"boundary never comes", "Content-Type: multipart/mixed; boundary=b\n\nstill\n", "still", "boundary"},
		{"no end", "Content-Type: multipart/mixed; boundary=b\n\n--b\n\none\n--b\n\ntwo\n", "one\n\ntwo", ""},
		{"boundary inside another", "Content-Type: multipart/mixed; boundary=b\n\n--b\n\n--bc is text\n--b--\n", "--bc is text", ""},
		{"alternative", "Content-Type: multipart/alternative; boundary=b\n\n--b\nContent-Type: text/html\n\n<b>html</b>\n--b\n\nplain\n--b--\n", "plain", ""},
		{"alternative with empty plain", "Content-Type: multipart/alternative; boundary=b\n\n--b\n\n \n--b\nContent-Type: text/html\n\n<b>html</b>\n--b--\n", "html", ""},
		{"html", "Content-Type: text/html\n\n<html><head><title>no</title><style>p{}</style></head><body><p>Hello&nbsp;you,</p><p>see <a href=\"https://x.org/a\">this</a><br>and<script>alert(1)</script> that</p><ul><li>one</li><li>two</li></ul></body>\n",
			"Hello you,\n\nsee this <https://x.org/a>\nand that\n\n- one\n- two", ""},
		{"html never closed", "Content-Type: text/html\n\n<head><p>hello <b>there<blockquote>quoted", "hello there", ""},
	} {
		c := read(tt.raw)
		if c.Text != tt.text {
			t.Errorf("%s: text %q, want %q", tt.name, c.Text, tt.text)
		}
		problems := strings.Join(c.Problems, "; ")
		if (tt.problem == "") != (problems == "") || !strings.Contains(problems, tt.problem) {
			t.Errorf("%s: problems %q, want %q", tt.name, problems, tt.problem)
		}
	}
}

func TestAttachments(t *testing.T) {
	c := read("Content-Type: multipart/mixed; boundary=b\n\n" +
		"--b\n\nsee below\n" +
		"--b\nContent-Type: application/pdf; name=x\nContent-Disposition: attachment; filename=\"../../etc/Report.PDF\"\nContent-Transfer-Encoding: base64\n\nJVBERg==\n" +
		"--b\nContent-Type: image/png\n\nraw\n" +
		"--b\nContent-Disposition: attachment; filename=\"=?utf-8?q?=C3=BC?=.sh\x01/\"\nContent-Type: text/plain\n\n#!/bin/sh\n" +
		"--b\nContent-Type: message/rfc822\n\nSubject: inner\n\nforwarded\n" +
		"--b--\n")
	if c.Text != "see below" || len(c.Attachments) != 4 {
		t.Fatalf("%+v", c)
	}
	for i, want := range []Attachment{
		{Name: "attachment-1.pdf", Type: "application/pdf", Data: []byte("%PDF"), Title: "../../etc/Report.PDF"},
		{Name: "attachment-2.png", Type: "image/png", Data: []byte("raw")},
		{Name: "attachment-3.txt", Type: "text/plain", Data: []byte("#!/bin/sh"), Title: "ü.sh /"},
		{Name: "attachment-4.eml", Type: "message/rfc822", Data: []byte("Subject: inner\r\n\r\nforwarded"), Title: "inner"},
	} {
		if got := c.Attachments[i]; got.Name != want.Name || got.Type != want.Type || got.Title != want.Title || !bytes.Equal(got.Data, want.Data) {
			t.Errorf("attachment %d: %+v, want %+v", i+1, got, want)
		}
	}
}

// Too much is limited, and the readable part is read.
func TestTooMuch(t *testing.T) {
	deep := "first\n"
	for i := range 200 {
		deep = fmt.Sprintf("Content-Type: multipart/mixed; boundary=b%d\n\n--b%d\n\nlevel %d\n--b%d\n%s", i, i, i, i, deep)
	}
	c := read(deep)
	if !strings.Contains(c.Full, "level 199") || len(c.Attachments) != 1 || len(c.Problems) == 0 {
		t.Errorf("200 deep: %d attachments, problems %q", len(c.Attachments), c.Problems)
	}
	many := "Content-Type: multipart/mixed; boundary=b\n\n" + strings.Repeat("--b\n\nx\n", 5000)
	if c = read(many); strings.Count(c.Full, "x") != maxParts-1 || len(c.Problems) != 1 {
		t.Errorf("5000 parts: %d bytes, problems %q", len(c.Full), c.Problems)
	}
	big := "Content-Type: multipart/mixed; boundary=b\n\n--b\n\nread me\n--b\nContent-Type: application/zip\nContent-Transfer-Encoding: base64\n\n" +
		base64.StdEncoding.EncodeToString(make([]byte, 6<<20)) + "\n--b--\n"
	if c = read(big); c.Text != "read me" || len(c.Attachments) != 1 || len(c.Attachments[0].Data) != 6<<20 {
		t.Errorf("8 MB: text %q, %d attachments", c.Text, len(c.Attachments))
	}
	if c = read("\n" + strings.Repeat("wörd ", 1<<20)); len(c.Full) > maxText || !utf8.ValidString(c.Full) || len(c.Problems) == 0 {
		t.Errorf("6 MB of text: kept %d, problems %q", len(c.Full), c.Problems)
	}
	if c = read("Content-Type: text/html\n\nstart " + strings.Repeat("<div><blockquote><a href=http://x>", 100_000) + "end"); !strings.HasSuffix(c.Full, "end") {
		t.Errorf("100,000 deep HTML: %d bytes", len(c.Full))
	}
}

func FuzzContent(f *testing.F) {
	f.Add([]byte("Content-Type: multipart/alternative; boundary=b\r\n\r\n--b\r\n\r\nhi\r\n--b\r\nContent-Type: text/html\r\n\r\n<p>hi<a href=http://x>y</a>\r\n--b--\r\n"))
	f.Add([]byte("Content-Type: text/plain; charset=utf-16\nContent-Transfer-Encoding: quoted-printable\n\n=00=0\n=xx"))
	f.Add([]byte("Content-Transfer-Encoding: base64\nContent-Disposition: attachment; filename*=utf-8''%00\n\n====\x00"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		c := ReadContent(bytes.NewReader(raw))
		if !utf8.ValidString(c.Full) || !utf8.ValidString(c.Text) || strings.ContainsAny(c.Full, "\x00\r") {
			t.Errorf("text is not clean: %q", c.Full)
		}
		for _, a := range c.Attachments {
			if safeName(a.Name, 1) != a.Name {
				t.Errorf("name %q is not safe", a.Name)
			}
		}
	})
}
