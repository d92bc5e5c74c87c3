package message

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// readContent reads a mail with LF as its line ends.
func readContent(raw string) Content {
	return ReadContent(strings.NewReader(strings.ReplaceAll(raw, "\n", "\r\n")), Sent{})
}

// contents are mails of any form, with their texts.
var contents = []struct {
	name, raw, text string
	problem         string // "" for none
}{
	{"plain", "Subject: x\n\nhello\nworld\n", "hello\nworld", ""},
	{"no header end", "Subject: x\nhello", "", ""},
	{"quoted-printable", "Content-Transfer-Encoding: quoted-printable\nContent-Type: text/plain; charset=iso-8859-15\n\nPreis: 5 =A4 =\nweiter\n", "Preis: 5 € weiter", ""},
	{"base64", "Content-Transfer-Encoding: BASE64\nContent-Type: text/plain; charset=utf-8\n\naMOk\nbGxv\n", "hällo", ""},
	{"broken base64", "Content-Transfer-Encoding: base64\nContent-Type: text/plain\n\naGVs!!bG8\n", "hello", "broken base64"},
	{"odd charset", "Content-Type: text/plain; charset=klingon\n\ncaf\xe9\n", "café", "klingon"},
	{"wrong charset", "Content-Type: text/plain; charset=utf-8\n\ncaf\xe9 !\n", "caf\uFFFD !", "not valid UTF-8"},
	{"japanese", "Content-Type: text/plain; charset=iso-2022-jp\n\n\x1b$B$3$s\x1b(B\n", "こん", ""},
	{"NULs", "Content-Type: text/plain\n\na\x00b\x07c\n", "abc", ""},
	{"broken type", "Content-Type: text/plain; charset=\"utf-8; x\n\nhello\n", "hello", ""},
	{"boundary never comes", "Content-Type: multipart/mixed; boundary=b\n\nstill\n", "still", "boundary"},
	{"boundary inside another", "Content-Type: multipart/mixed; boundary=b\n\n--b\n\n--bc is text\n--b--\n", "--bc is text", ""},
	{"alternative", "Content-Type: multipart/alternative; boundary=b\n\n--b\nContent-Type: text/html\n\n<b>html</b>\n--b\n\nplain\n--b--\n", "plain", ""},
	{"alternative with empty plain", "Content-Type: multipart/alternative; boundary=b\n\n--b\n\n \n--b\nContent-Type: text/html\n\n<b>html</b>\n--b--\n", "html", ""},
	{"alternative of two plain texts", "Content-Type: multipart/alternative; boundary=b\n\n--b\n\none\n--b\n\ntwo\n--b--\n", "one", ""},
	{"alternative of two pages", "Content-Type: multipart/alternative; boundary=b\n\n--b\nContent-Type: text/html\n\none\n--b\nContent-Type: text/html\n\ntwo\n--b--\n", "one", ""},
	{"two types, of which the first counts", "Content-Type: text/plain\nContent-Type: text/html\n\n<b>hello</b>\n", "<b>hello</b>", ""},
	{"a comment and a boundary with a semicolon", "Content-Type: multipart/mixed (x); boundary=\"a;b\"\n\n--a;b\n\nhello\n--a;b--\n", "hello", ""},
	{"a broken type with two boundaries", "Content-Type: multipart/mixed; x; boundary=a; boundary=b\n\n--a\n\nhello\n--a--\n", "hello", ""},
	{"two encodings, of which the last counts", "Content-Transfer-Encoding: base64\nContent-Transfer-Encoding: 7bit\n\naGVsbG8=\n", "aGVsbG8=", ""},
	{"another charset that is UTF-8, too", "Content-Type: text/plain; charset=windows-1252\n\n\xc3\xa9\n", "Ã©", ""},
	{"utf8 that is not UTF-8", "Content-Type: text/plain; charset=utf8\n\ncaf\xe9 !\n", "caf\uFFFD !", "not valid UTF-8"},
	{"no charset", "\ncaf\xe9\n", "café", "Windows-1252"},
	{"html", "Content-Type: text/html\n\n<html><head><title>no</title><style>p{}</style></head><body><p>Hello&nbsp;you,</p><p>see <a href=\"https://x.org/a\">this</a><br>and<script>alert(1)</script> that</p><ul><li>one</li><li>two</li></ul></body>\n",
		"Hello you,\n\nsee this <https://x.org/a>\nand that\n\n- one\n- two", ""},
	{"html links", "Content-Type: text/html\n\n<a href=mailto:a@b>mailto:a@b</a> <a href=mailto:a@b>a@b</a> <a href=https://a>b<a href=https://c>d</a>", "mailto:a@b a@b bd <https://c>", ""},
	{"html never closed", "Content-Type: text/html\n\n<head><p>hello <b>there<blockquote>quoted", "hello there\n> quoted", ""},
}

func TestContentText(t *testing.T) {
	for _, tt := range contents {
		c := readContent(tt.raw)
		if c.Text != tt.text {
			t.Errorf("%s: text %q, want %q", tt.name, c.Text, tt.text)
		}
		checkProblems(t, tt.name, c, tt.problem)
	}
}

// checkProblems fails unless the problems contain want, or, if it is "", unless there are none.
func checkProblems(t *testing.T, name string, c Content, want string) {
	t.Helper()
	problems := strings.Join(c.Problems, "; ")
	if (want == "") != (problems == "") || !strings.Contains(problems, want) {
		t.Errorf("%s: problems %q, want %q", name, problems, want)
	}
}

func TestAttachmentFields(t *testing.T) {
	c := readContent("Content-Type: multipart/mixed; boundary=b\n\n" +
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

// TestExtension checks that a plain extension in the sender's name is kept, and otherwise the media
// type gives the extension.
func TestExtension(t *testing.T) {
	for title, want := range map[string]string{"tides.TXT": ".txt", "tides": ".pdf", "tides.t-t": ".pdf", "tides.": ".pdf"} {
		if got := extension(entity{title: title, mediaType: "application/pdf"}); got != want {
			t.Errorf("%s: %s, want %s", title, got, want)
		}
	}
}

// TestCharsetsOf checks that the charsets of the encoded words in Subject and From count.
func TestCharsetsOf(t *testing.T) {
	got := charsetsOf([]byte("From: =?koi8-r?q?x?= <a@b>\nTo: =?gbk?q?x?= <c@d>\nSubject: =?big5?q?x?= =?gbk?q?x?=\nSubject: =?utf-8?q?x?=\n"))
	if !slices.Equal(got, []string{"koi8-r", "big5"}) {
		t.Errorf("%q", got)
	}
}

// TestBrokenMIME reads one mail for each mistake that mail programs make in MIME. The text is always
// read, and no attachment is lost.
func TestBrokenMIME(t *testing.T) {
	const mixed = "MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=\"=b\"\n\n"
	const pdf = "--=b\nContent-Type: application/pdf\nContent-Disposition: attachment; filename=\"t.pdf\"\nContent-Transfer-Encoding: base64\n\nJVBERg==\n"
	for _, tt := range []struct {
		name, raw   string
		text        string
		attachments string // "title:data", separated by "|"
		problem     string // a part of the problems; "" if there are none
	}{
		// Boundaries.
		{name: "last boundary with one dash", raw: mixed + "--=b\n\nhello\n--=b-\n", text: "hello\n--=b-"},
		{name: "last boundary with text behind it", raw: mixed + "--=b\n\nhello\n--=b--end\n", text: "hello\n--=b--end"},
		{name: "boundary with blanks behind it", raw: mixed + "--=b  \n\nhello\n" + pdf + "--=b-- \n", text: "hello", attachments: "t.pdf:%PDF"},
		{name: "missing last boundary", raw: mixed + "--=b\n\nhello\n" + pdf, text: "hello", attachments: "t.pdf:%PDF"},
		{name: "only the last boundary", raw: mixed + "hello\n--=b--\n", text: "hello\n--=b--", problem: "without a boundary"},
		{name: "last boundary twice", raw: mixed + "--=b\n\nhello\n--=b--\n--=b--\n", text: "hello"},
		{name: "two boundaries in a row", raw: mixed + "--=b\n--=b\n\nhello\n--=b--\n", text: "hello"},
		{name: "preamble and epilogue", raw: mixed + "Your program cannot read MIME.\n--=b\n\nhello\n--=b--\nscanned, nothing found\n", text: "hello"},
		{name: "inner boundary begins like the outer", raw: mixed + "--=b\nContent-Type: multipart/alternative; boundary=\"=b2\"\n\n--=b2\n\nhello\n--=b2--\n" + pdf + "--=b--\n", text: "hello", attachments: "t.pdf:%PDF"},
		{name: "inner multipart is not closed", raw: mixed + "--=b\nContent-Type: multipart/alternative; boundary=\"=c\"\n\n--=c\n\nhello\n" + pdf + "--=b--\n", text: "hello", attachments: "t.pdf:%PDF"},
		{name: "no boundary parameter", raw: "Content-Type: multipart/mixed\n\n--=b\n\nhello\n--=b--\n", text: "--=b\n\nhello\n--=b--", problem: "without a boundary"},
		{name: "HTML that holds a boundary", raw: mixed + "--=b\nContent-Type: text/html\n\n<p>hello --=b there</p>\n--=b--\n", text: "hello --=b there"},
		{name: "a blank line before the header of a part", raw: mixed + "--=b\n\nContent-Type: text/html\n\n<p>hello</p>\n--=b--\n", text: "Content-Type: text/html\n\n<p>hello</p>"},

		// Content types.
		{name: "no type anywhere", raw: "Subject: x\n\nhello\n", text: "hello"},
		{name: "empty type", raw: "Content-Type:\n\nhello\n", text: "hello"},
		{name: "type without a subtype", raw: "Content-Type: text\n\nhello\n", text: "hello"},
		{name: "type of one letter too many", raw: "Content-Type: text/plain/x; charset=utf-8\n\nhello\n", attachments: ":hello\r\n"},
		{name: "type with a comment", raw: "Content-Type: text/html (a page)\n\n<p>hello</p>\n", text: "hello"},
		{name: "type in capitals", raw: "CONTENT-TYPE: TEXT/HTML; CHARSET=UTF-8\n\n<p>hello</p>\n", text: "hello"},
		{name: "type twice", raw: "Content-Type: text/html\nContent-Type: text/plain\n\n<p>hello</p>\n", text: "hello"},
		{name: "parameter without a value", raw: "Content-Type: text/html; charset; x=\n\n<p>hello</p>\n", text: "hello"},
		{name: "parameter twice", raw: "Content-Type: text/html; charset=utf-8; charset=utf-8\n\n<p>hällo</p>\n", text: "hällo"},
		{name: "parameters twice that differ", raw: "Content-Type: multipart/mixed; boundary=\"=b\"; boundary=\"=c\"\n\n--=b\n\nhello\n--=b--\n", text: "hello"},
		{name: "boundary with special characters, not quoted", raw: "Content-Type: multipart/mixed; boundary=a:b@c/d\n\n--a:b@c/d\n\nhello\n--a:b@c/d--\n", text: "hello"},
		{name: "boundary with one quote", raw: "Content-Type: multipart/mixed; boundary=\"=b\n\n--=b\n\nhello\n--=b--\n", text: "hello"},
		{name: "parameters without a semicolon", raw: "Content-Type: text/html charset=utf-8\n\n<p>hello</p>\n", text: "hello"},
		{name: "semicolon at the end", raw: "Content-Type: text/html;\n\n<p>hello</p>\n", text: "hello"},
		{name: "unknown multipart", raw: "Content-Type: multipart/x-mixed-strangely; boundary=\"=b\"\n\n--=b\n\nhello\n--=b--\n", text: "hello"},
		{name: "unknown text", raw: mixed + "--=b\n\nhello\n--=b\nContent-Type: text/x-odd\n\nodd\n--=b--\n", text: "hello", attachments: ":odd"},

		// Transfer encodings.
		{name: "unknown encoding", raw: "Content-Type: text/plain\nContent-Transfer-Encoding: 6bit\n\nhello\n", text: "hello", problem: "6bit"},
		{name: "encoding with a comment", raw: "Content-Transfer-Encoding: base64 (as ever)\n\naGVsbG8=\n", text: "hello"},
		{name: "base64 on a multipart", raw: "Content-Type: multipart/mixed; boundary=\"=b\"\nContent-Transfer-Encoding: base64\n\n--=b\n\nhello\n--=b--\n", text: "hello"},
		{name: "base64 without its padding", raw: "Content-Transfer-Encoding: base64\n\naGVsbG8\n", text: "hello"},
		{name: "base64 with one letter too many", raw: "Content-Transfer-Encoding: base64\n\naGVsbG8hQ\n", text: "hello!", problem: "base64"},
		{name: "base64 with a footer", raw: "Content-Transfer-Encoding: base64\n\naGVs\nbG8=\n\n!\n", text: "hello", problem: "base64"},
		{name: "base64 with blanks", raw: "Content-Transfer-Encoding: base64\n\naG Vs\n\n bG8=\n", text: "hello"},
		{name: "attachment that is not base64", raw: mixed + "--=b\n\nhello\n--=b\nContent-Type: application/pdf; name=t.pdf\nContent-Transfer-Encoding: base64\n\n%%%\n--=b--\n", text: "hello", attachments: "t.pdf:", problem: "base64"},
		{name: "quoted-printable with a bare =", raw: "Content-Transfer-Encoding: quoted-printable\n\na = b, 5 =3D 5\n", text: "a = b, 5 = 5"},
		{name: "quoted-printable with control characters", raw: "Content-Transfer-Encoding: quoted-printable\n\na\x01 =3D b\n", text: "a =3D b", problem: "quoted-printable"},
		{name: "quoted-printable with letters that are not hex", raw: "Content-Transfer-Encoding: quoted-printable\n\na =XY 5 =3D 5\n", text: "a =XY 5 = 5"},
		{name: "quoted-printable in lower case", raw: "Content-Type: text/plain; charset=utf-8\nContent-Transfer-Encoding: quoted-printable\n\nh=c3=a4llo\n", text: "hällo"},
		{name: "quoted-printable that ends in =", raw: "Content-Transfer-Encoding: quoted-printable\n\nhello=\n", text: "hello"},

		// Charsets.
		{name: "HTML in an unknown charset", raw: "Content-Type: text/html; charset=x-klingon\n\n<p>h\xe4llo</p>\n", text: "hällo", problem: "x-klingon"},
		{name: "Latin-1 that claims ASCII", raw: "Content-Type: text/plain; charset=us-ascii\n\nh\xe4llo\n", text: "hällo", problem: "us-ascii"},
		{name: "UTF-8 that claims ASCII", raw: "Content-Type: text/plain; charset=us-ascii\n\nhällo\n", text: "hällo"},
		{name: "UTF-8 without a charset", raw: "Content-Type: text/plain\n\nhällo\n", text: "hällo"},
		{name: "charset in quotes and blanks", raw: "Content-Type: text/plain; charset=\" utf-8 \"\n\nhällo\n", text: "hällo"},

		// Headers.
		{name: "a header that begins with a continuation", raw: " x\nContent-Type: text/html\n\n<p>hello</p>\n", text: "hello"},
		{name: "a header line that was wrapped without a blank", raw: "Subject: a long\nsubject\nContent-Type: text/html\n\n<p>hello</p>\n", text: "hello"},
		{name: "a From line of an mbox", raw: "From ole Tue Feb  3 09:12:00 2026\nContent-Type: text/html\n\n<p>hello</p>\n", text: "hello"},
		{name: "no header", raw: "\nhello\n", text: "hello"},
		{name: "only a header", raw: "Subject: x\nContent-Type: text/plain\n", text: ""},
		// A line of blanks ends the header of a part, as an empty line does. Both have the same
		// signature, so a forger could replace one by the other.
		{name: "a line of blanks after the header of a part", raw: mixed + "--=b\nContent-Type: text/plain\n \nContent-Disposition: attachment\n\nhello\n--=b--\n", text: "Content-Disposition: attachment\n\nhello"},
		{name: "a part with an empty header", raw: mixed + "--=b\n\nhello\n--=b\n\nthere\n--=b--\n", text: "hello\n\nthere"},
		{name: "a part of only a header", raw: mixed + "--=b\nContent-Type: text/plain\n--=b\n\nhello\n--=b--\n", text: "hello"},

		// Attachments.
		{name: "attachment without a type", raw: mixed + "--=b\n\nhello\n--=b\nContent-Disposition: attachment; filename=n.txt\n\nnote\n--=b--\n", text: "hello", attachments: "n.txt:note"},
		{name: "attachment without a disposition", raw: mixed + "--=b\n\nhello\n--=b\nContent-Type: application/pdf; name=\"t.pdf\"\nContent-Transfer-Encoding: base64\n\nJVBERg==\n--=b--\n", text: "hello", attachments: "t.pdf:%PDF"},
		{name: "nothing but an attachment", raw: "Content-Type: application/pdf\nContent-Disposition: attachment; filename=t.pdf\nContent-Transfer-Encoding: base64\n\nJVBERg==\n", attachments: "t.pdf:%PDF"},
		{name: "name in raw Latin-1", raw: mixed + "--=b\nContent-Type: application/pdf\nContent-Disposition: attachment; filename=\"Gr\xfc\xdfe.pdf\"\n\nx\n--=b--\n", attachments: "Grüße.pdf:x"},
		{name: "name in pieces", raw: mixed + "--=b\nContent-Type: application/pdf\nContent-Disposition: attachment;\n filename*0*=UTF-8''Gr%C3%BC;\n filename*1*=%C3%9Fe.pdf\n\nx\n--=b--\n", attachments: "Grüße.pdf:x"},
		{name: "name in encoded words", raw: mixed + "--=b\nContent-Type: application/pdf; name=\"=?utf-8?q?Gr=C3=BC=C3=9Fe.pdf?=\"\n\nx\n--=b--\n", attachments: "Grüße.pdf:x"},
		{name: "name with a blank, not quoted", raw: mixed + "--=b\nContent-Type: application/pdf\nContent-Disposition: attachment; filename=tide table.pdf\n\nx\n--=b--\n", attachments: "tide table.pdf:x"},
		{name: "two dispositions, of which the last counts", raw: mixed + "--=b\nContent-Disposition: inline; filename=one.txt\nContent-Disposition: attachment; filename=two.txt\n\nx\n--=b--\n", attachments: "two.txt:x"},
		{name: "a forwarded mail with a name", raw: mixed + "--=b\nContent-Type: message/rfc822; name=tides.eml\n\nSubject: moon\n--=b--\n", attachments: "tides.eml:Subject: moon"},
		{name: "a forwarded mail with two subjects, of which the last counts", raw: mixed + "--=b\nContent-Type: message/rfc822\n\nSubject: one\nSubject: two\n--=b--\n", attachments: "two:Subject: one\r\nSubject: two"},
		{name: "a picture within HTML", raw: "Content-Type: multipart/related; boundary=\"=b\"\n\n--=b\nContent-Type: text/html\n\n<p>hello <img src=\"cid:1\"></p>\n--=b\nContent-Type: image/png\nContent-ID: <1>\nContent-Disposition: inline; filename=p.png\n\nx\n--=b--\n", text: "hello", attachments: "p.png:x"},
	} {
		c := readContent(tt.raw)
		var attachments []string
		for _, a := range c.Attachments {
			attachments = append(attachments, a.Title+":"+string(a.Data))
		}
		if c.Full != tt.text || strings.Join(attachments, "|") != tt.attachments {
			t.Errorf("%s: text %q, attachments %q; want %q and %q", tt.name, c.Full, attachments, tt.text, tt.attachments)
		}
		checkProblems(t, tt.name, c, tt.problem)
	}
}

// TestOversizedMail checks that a mail beyond the limits is truncated, and the rest is read.
func TestOversizedMail(t *testing.T) {
	deep := "first\n"
	for i := range 200 {
		deep = fmt.Sprintf("Content-Type: multipart/mixed; boundary=b%d\n\n--b%d\n\nlevel %d\n--b%d\n%s", i, i, i, i, deep)
	}
	c := readContent(deep)
	if !strings.Contains(c.Full, "level 199") || len(c.Attachments) != 1 || len(c.Problems) == 0 {
		t.Errorf("200 deep: %d attachments, problems %q", len(c.Attachments), c.Problems)
	}
	many := "Content-Type: multipart/mixed; boundary=b\n\n" + strings.Repeat("--b\n\nx\n", 5000)
	if c = readContent(many); strings.Count(c.Full, "x") != maxParts-1 || len(c.Problems) != 1 {
		t.Errorf("5000 parts: %d bytes, problems %q", len(c.Full), c.Problems)
	}
	big := "Content-Type: multipart/mixed; boundary=b\n\n--b\n\nread me\n--b\nContent-Type: application/zip\nContent-Transfer-Encoding: base64\n\n" +
		base64.StdEncoding.EncodeToString(make([]byte, 6<<20)) + "\n--b--\n"
	if c = readContent(big); c.Text != "read me" || len(c.Attachments) != 1 || len(c.Attachments[0].Data) != 6<<20 {
		t.Errorf("8 MB: text %q, %d attachments", c.Text, len(c.Attachments))
	}
	if c = readContent("\n" + strings.Repeat("wörd ", 1<<20)); len(c.Full) > maxText || !utf8.ValidString(c.Full) || len(c.Problems) == 0 {
		t.Errorf("6 MB of text: kept %d, problems %q", len(c.Full), c.Problems)
	}
	if c = readContent("Content-Type: text/html\n\nstart " + strings.Repeat("<div><blockquote><a href=http://x>", 100_000) + "end"); !strings.HasSuffix(c.Full, "end") {
		t.Errorf("100,000 deep HTML: %d bytes", len(c.Full))
	}
}

func FuzzContent(f *testing.F) {
	f.Add([]byte("Content-Type: multipart/alternative; boundary=b\r\n\r\n--b\r\n\r\nhi\r\n--b\r\nContent-Type: text/html\r\n\r\n<p>hi<a href=http://x>y</a>\r\n--b--\r\n"))
	f.Add([]byte("Content-Type: text/plain; charset=utf-16\nContent-Transfer-Encoding: quoted-printable\n\n=00=0\n=xx"))
	f.Add([]byte("Content-Transfer-Encoding: base64\nContent-Disposition: attachment; filename*=utf-8''%00\n\n====\x00"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		c := ReadContent(bytes.NewReader(raw), Sent{})
		if !utf8.ValidString(c.Full) || !utf8.ValidString(c.Text) || strings.ContainsAny(c.Full, "\x00\r") {
			t.Errorf("text is not clean: %q", c.Full)
		}
		for _, a := range c.Attachments {
			if FileName(a.Name, 1) != a.Name {
				t.Errorf("name %q is not safe", a.Name)
			}
		}
	})
}

// TestPlaceholder checks the replacement for a missing text, with the name and kind of each file.
func TestPlaceholder(t *testing.T) {
	six := []Attachment{{Name: "1"}, {Name: "2"}, {Name: "3"}, {Name: "4"}, {Name: "5"}, {Name: "6"}}
	for _, tt := range []struct {
		c    Content
		want string
	}{
		{Content{Text: "hello", Full: "hello", Attachments: six}, ""},
		{Content{}, "(This mail is empty: it has neither text nor files.)"},
		{Content{Full: "> hello"}, "(This mail has no text of its own, only quoted text or a signature.)"},
		{Content{Full: "> hello", Attachments: six[:1]}, "(This mail has no text, only a file: 1. Its quoted text or signature is left out.)"},
		{Content{Attachments: []Attachment{{Name: "attachment-1.pdf", Type: "application/pdf"}}}, "(This mail has no text, only a PDF: attachment-1.pdf.)"},
		{Content{Attachments: []Attachment{{Name: "attachment-1.pdf", Type: "image/x", Title: "moon.PDF"}}}, "(This mail has no text, only a PDF: moon.PDF.)"},
		{Content{Attachments: []Attachment{{Type: "message/rfc822", Title: "moon"}}}, "(This mail has no text, only a forwarded mail: moon.eml.)"},
		{Content{Attachments: []Attachment{{Type: "message/rfc822", Title: "moon.EML"}}}, "(This mail has no text, only a forwarded mail: moon.EML.)"},
		{Content{Attachments: []Attachment{{Name: "seal", Type: "application/pgp-signature"}, {Name: "1", Type: "image/png"}}}, "(This mail has no text, only a picture: 1.)"},
		{Content{Attachments: six}, "(This mail has no text, only 6 files: 1, 2, 3, 4, 5 and 1 more.)"},
	} {
		if got := tt.c.Placeholder(); got != tt.want {
			t.Errorf("%+v: %s, want %s", tt.c, got, tt.want)
		}
	}
}
