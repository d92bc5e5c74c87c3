package message

import (
	"encoding/base64"
	"reflect"
	"regexp"
	"strings"
	"testing"
)

const (
	quotedOrder = "> delete everything\n"
	parts       = "--b1\nContent-Type: text/plain; charset=utf-8\n\nhello\n--b1\nContent-Type: text/html\n\n<p>hello</p>\n--b1--\n"
	files       = "--b1\nContent-Type: text/plain\n\nsee the file\n--b1\nContent-Type: text/plain\nContent-Disposition: attachment; filename=x.txt\n\ndelete everything\n--b1--\n"
)

func base64Of(text string) string {
	var b strings.Builder
	encoded := base64.StdEncoding.EncodeToString([]byte(text))
	for len(encoded) > 76 {
		b.WriteString(encoded[:76] + "\r\n")
		encoded = encoded[76:]
	}
	return b.String() + encoded + "\r\n"
}

// readings are bodies with the fields that may describe them. All fields that pass for one body
// must give the same text.
var readings = []struct {
	name, fields, body string
	ok                 bool
}{
	// Mails of real programs.
	{"a plain text", "Content-Type: text/plain; charset=UTF-8\n", "hello\n", true},
	{"no fields", "", "hello\n", true},
	{"flowed", "Content-Type: text/plain; charset=UTF-8; format=flowed\n", "hello \nthere\n", true},
	{"flowed, blanks left out", "Content-Type: text/plain; charset=UTF-8; format=flowed; delsp=yes\n", "hello  \nthere, \n\nyou  \n", true},
	{"flowed, in a word", "Content-Type: text/plain; charset=UTF-8; format=flowed; delsp=yes\n", "not \nhing\n", false},
	{"ASCII in any charset that keeps it", "Content-Type: text/plain; charset=iso-8859-15\n", "hello\n", true},
	{"latin1 in 8 bit", "Content-Type: text/plain; charset=iso-8859-1\nContent-Transfer-Encoding: 8bit\n", "Gr\xfc\xdfe\n", true},
	{"latin1 quoted-printable", "Content-Type: text/plain; charset=iso-8859-1\nContent-Transfer-Encoding: quoted-printable\n", "Gr=FC=DFe =3D =\nhello\n", true},
	{"latin1 in base64", "Content-Type: text/plain; charset=iso-8859-1\nContent-Transfer-Encoding: base64\n", base64Of("Gr\xfc\xdfe, " + strings.Repeat("long ", 30)), true},
	{"KOI8-R", "Content-Type: text/plain; charset=koi8-r\nContent-Transfer-Encoding: 8bit\n", "\xf0\xd2\xc9\xd7\xc5\xd4\n", true},
	{"GB2312", "Content-Type: text/plain; charset=gb2312\n", "\xc4\xe3\xba\xc3 ok\n", true},
	{"ISO-2022-JP", "Content-Type: text/plain; charset=iso-2022-jp\n", "\x1b$B%F%9%H\x1b(B ok\n", true},
	{"markdown", "Content-Type: text/markdown; charset=utf-8\n", "# hello\n", true},
	{"a file of text alone", "Content-Type: text/csv\n", "delete,everything\n", false},
	{"a short picture alone", "Content-Type: image/png\nContent-Transfer-Encoding: base64\n", base64Of("\x89PNG\x00"), false},
	{"a picture alone", "Content-Type: image/png\nContent-Transfer-Encoding: base64\n", base64Of("\x89PNG" + strings.Repeat("\x00\x01\x02", 40)), true},
	{"a picture called a text", "Content-Type: text/plain\n", base64Of("\x89PNG" + strings.Repeat("\x00\x01\x02", 40)), false},
	{"a PDF called a text", "Content-Type: text/plain\n", base64Of("%PDF-1.4\n"), false},
	{"a PDF alone", "Content-Type: application/pdf\nContent-Transfer-Encoding: base64\n", base64Of("%PDF-1.4\n%\xe2\xe3\xcf\xd3\n"), true},
	{"an invitation alone", "Content-Type: text/calendar; method=REQUEST\n", "BEGIN:VCALENDAR\nEND:VCALENDAR\n", true},
	{"8 bit", "Content-Type: text/plain; charset=\"utf-8\"\nContent-Transfer-Encoding: 8bit\n", "Grüße\n", true},
	{"a signature", "", "hello\n-- \nAnn\n", true},
	{"rules of dashes", "", "One\n----\ntext\n\nThree\n------\n\n---\n\nmore\n", true},
	{"an option first", "", "--force\n\nis what you need\n", true},
	{"a diff", "", "--- a/x.go\n+++ b/x.go\n@@ -1 +1 @@\n-x\n+y\n", true},
	{"PGP", "", "-----BEGIN PGP SIGNED MESSAGE-----\nHash: SHA256\n\nhello\n-----BEGIN PGP SIGNATURE-----\n\nabc\n-----END PGP SIGNATURE-----\n", true},
	{"quoted boundaries", "", "> --b1\n> Content-Type: text/plain\n>\n> x\n> --b1--\n", true},
	{"a URL with =", "", "http://x.example/?a=3&b=20\n", true},
	{"a table in TOML", "", "a = 1\nb = 20\n", true},
	{"a setting", "", "set timeout=20\nand id=42\n", true},
	{"URLs whose = looks like an escape", "", "http://x.example/?id=fa17&v=AB\nhttp://y.example/watch?v=C3xx\n", true},
	{"a word behind =", "", "do=fail\nmode=added\n", true},
	{"a name without a value", "", "export NAME=\nor leave it\n", true},
	{"a hash", "", "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08\n", true},
	{"an underlined title", "", "Title\n=====\n\n====\n", true},
	{"a word that base64 has too", "", "HALT\n", true},
	{"quoted-printable", "Content-Type: text/plain; charset=utf-8\nContent-Transfer-Encoding: quoted-printable\n", "Gr=C3=BC=C3=9Fe =3D =\nhello=20\n=46rom x\n", true},
	{"quoted-printable with nothing to encode", "Content-Transfer-Encoding: quoted-printable\n", "hello\n", true},
	{"base64", "Content-Type: text/plain; charset=utf-8\nContent-Transfer-Encoding: base64\n", base64Of("Grüße, " + strings.Repeat("long ", 30)), true},
	{"HTML alone", "Content-Type: text/html; charset=UTF-8\n", "<html><head></head><body><div>hello</div></body></html>\n", true},
	{"HTML with a doctype", "Content-Type: text/html\nContent-Transfer-Encoding: quoted-printable\n", "<!DOCTYPE html>\n<p class=3D\"x\">hello</p>\n", true},
	{"alternatives", "Content-Type: multipart/alternative; boundary=b1\n", parts, true},
	{"alternatives with a preamble", "Content-Type: multipart/alternative; boundary=\"b1\"\n", "This is a multi-part message in MIME format.\n\n" + parts, true},
	{"with a file", "Content-Type: multipart/mixed; boundary=b1\nContent-Transfer-Encoding: 7bit\n", files, true},
	{"nested", "Content-Type: multipart/mixed; boundary=b0\n", "--b0\nContent-Type: multipart/alternative; boundary=b1\n\n" + parts + "--b0\nContent-Type: image/png\nContent-Transfer-Encoding: base64\n\naGk=\n--b0--\n", true},
	{"signed", "Content-Type: multipart/signed; boundary=b0; protocol=\"application/pgp-signature\"\n", "--b0\n\nhello\n--b0\nContent-Type: application/pgp-signature\n\nabc\n--b0--\n", true},
	{"HTML with its pictures", "Content-Type: multipart/related; boundary=b0; start=\"<x>\"\n", "--b0\nContent-Type: text/html\n\n<p>hi\n--b0\nContent-Type: image/png\n\nabc\n--b0--\n", true},
	{"two plain texts around a file", "Content-Type: multipart/mixed; boundary=b0\n", "--b0\n\nfirst\n--b0\nContent-Type: image/png\n\nabc\n--b0\n\nsecond\n--b0--\n", true},

	// Mails with replaced fields.
	{"another charset", "Content-Type: text/plain; charset=utf-7\n", "hello\n", false},
	{"a charset of other words", "Content-Type: text/plain; charset=gbk\n", "f\xfcr Haus\n", false},
	{"Japanese called ASCII", "Content-Type: text/plain; charset=us-ascii\n", "\x1b$B%F%9%H\x1b(B ok\n", false},
	{"ASCII called HZ", "Content-Type: text/plain; charset=hz-gb-2312\n", "a ~{!! b\n", false},
	{"UTF-8 called latin1", "Content-Type: text/plain; charset=iso-8859-1\n", "Gr\u00fc\u00dfe\n", false},
	{"EBCDIC", "Content-Type: text/plain; charset=ibm037\n", "hello\n", false},
	{"an invitation called a text", "Content-Type: text/plain\n", "BEGIN:VCALENDAR\nDESCRIPTION:delete everything\nEND:VCALENDAR\n", false},
	{"a text called a file by its disposition", "Content-Disposition: attachment\n", "hello\n", false},
	{"markup of text/enriched", "Content-Type: text/enriched\n", "do <bold>not</bold> run\n", false},
	{"HTML in latin1", "Content-Type: text/html; charset=iso-8859-1\n", "<html>Gr\xfc\xdfe</html>\n", false},
	{"UTF-16", "Content-Type: text/plain; charset=utf-16le\n", "hello\n", false},
	{"latin1", "Content-Type: text/plain; charset=iso-8859-1\n", "Grüße\n", false},
	{"not UTF-8", "", "Gr\xfc\xdfe\n", false},
	{"a multipart called text", "Content-Type: text/plain\n", parts, false},
	{"a multipart without fields", "", files, false},
	{"a multipart called HTML", "Content-Type: text/html\n", "<html>\n" + parts, false},
	{"a multipart called a mail", "Content-Type: message/rfc822\n", parts, false},
	{"a text called a mail", "Content-Type: message/rfc822\n", "hello\n", false},
	{"a text called a file", "Content-Type: application/pdf\n", "hello\n", false},
	{"a text called HTML", "Content-Type: text/html\n", "hello\n" + quotedOrder, false},
	{"HTML called a text", "Content-Type: text/plain\n", "<html><!-- delete everything --></html>\n", false},
	{"a boundary within a text", "Content-Type: multipart/mixed; boundary=b2\n", "hello\n--b2\n\ndelete everything\n--b2--\n", false},
	{"a boundary that begins a text", "Content-Type: multipart/mixed; boundary=b2\n", "--b2\n\ndelete everything\n--b2--\nhello\n", false},
	{"a boundary without its end", "Content-Type: multipart/mixed; boundary=b2\n", "--b2\n\nhello\n", false},
	{"the boundary of a part", "Content-Type: multipart/mixed; boundary=b1\n", "--b0\nContent-Type: multipart/alternative; boundary=b1\n\n" + parts + "--b0--\n", false},
	{"a rule as a boundary", "Content-Type: multipart/mixed; boundary=-\n", "---\n\ndelete everything\n-----\n", false},
	{"no boundary", "Content-Type: multipart/mixed\n", parts, false},
	{"two ends", "Content-Type: multipart/mixed; boundary=b1\n", parts + parts, false},
	{"text above", "Content-Type: multipart/alternative; boundary=b1\n", "delete everything\n" + parts, false},
	{"text below", "Content-Type: multipart/alternative; boundary=b1\n", parts + "delete everything\n", false},
	{"alternatives called mixed", "Content-Type: multipart/mixed; boundary=b1\n", parts, false},
	{"alternatives called related", "Content-Type: multipart/related; boundary=b1\n", parts, false},
	{"texts called alternatives", "Content-Type: multipart/alternative; boundary=b0\n", "--b0\n\nfirst\n--b0\n\nsecond\n--b0--\n", false},
	{"a multipart in base64", "Content-Type: multipart/alternative; boundary=b1\nContent-Transfer-Encoding: base64\n", parts, false},
	{"quoted-printable called 7 bit", "Content-Transfer-Encoding: 7bit\n", "Gr=C3=BC=C3=9Fe\n", false},
	{"7 bit called quoted-printable", "Content-Transfer-Encoding: quoted-printable\n", "> quoted=0Adelete everything\n", false},
	{"a letter encoded", "Content-Transfer-Encoding: quoted-printable\n", "STO=50\n", false},
	{"a quote mark encoded", "Content-Transfer-Encoding: quoted-printable\n", "a =3E b\n", false},
	{"small hex", "Content-Transfer-Encoding: quoted-printable\n", "a =3d b\n", false},
	{"quoted-printable of long lines called 7 bit", "", "> a quotation that goes on, x=3D1, " + strings.Repeat("and on ", 10) + "=\ndelete everything\n", false},
	{"quoted-printable of a latin1 text called 7 bit", "Content-Type: text/plain; charset=utf-8\n", "> see =\n> delete everything, Gr=C3=BC=C3=9Fe\n", false},
	{"quoted-printable in small hex called 7 bit", "", "a =c3=a4\n", false},
	{"quoted-printable of a setting", "Content-Transfer-Encoding: quoted-printable\n", "set timeout=20\n", false},
	{"base64 of uneven lines called 7 bit", "", "aGVsbG8g\nd29ybGQsIGRlbGV0ZSBhbGw=\n", false},
	{"base64 called 7 bit", "Content-Transfer-Encoding: 7bit\n", base64Of("delete everything"), false},
	{"base64 called quoted-printable", "Content-Transfer-Encoding: quoted-printable\n", base64Of("delete all"), false},
	{"a text called base64", "Content-Transfer-Encoding: base64\n", "hello world\n", false},
	{"base64 with a text below", "Content-Transfer-Encoding: base64\n", base64Of("hello") + "\ndelete everything\n", false},
	{"base64 of another charset", "Content-Transfer-Encoding: base64\n", base64Of("Gr\xfc\xdfe"), false},
	{"an unknown encoding", "Content-Transfer-Encoding: x-uuencode\n", "hello\n", false},
}

func TestSoleReading(t *testing.T) {
	for _, r := range readings {
		err := SoleReading([]byte(r.fields+"\n"+r.body), SignedFields{})
		if (err == nil) != r.ok {
			t.Errorf("%s: %v, want ok %v", r.name, err, r.ok)
		}
	}
}

// TestReplacedFieldsKeepWords reads each body under the fields of every other row. All combinations
// that pass have the same words in ASCII, or are one file.
func TestReplacedFieldsKeepWords(t *testing.T) {
	passed := 0
	for _, r := range readings {
		var first *Content
		for _, other := range readings {
			raw := []byte(other.fields + "\n" + r.body)
			if SoleReading(raw, SignedFields{}) != nil {
				continue
			}
			passed++
			c := readAs(raw)
			if first == nil {
				first = &c
			} else if !sameReading(c, *first) {
				t.Errorf("%s, under the fields of %q: %+v, and otherwise %+v", r.name, other.name, c, *first)
			}
		}
	}
	t.Logf("%d bodies under %d headers each, %d pass", len(readings), len(readings), passed)
}

// sameReading reports whether two readings of a body have the same words in ASCII and the same
// files. The type of a mail that is one file may differ.
func sameReading(a, b Content) bool {
	if a.Full == "" && b.Full == "" && len(a.Attachments) == 1 && len(b.Attachments) == 1 {
		return a.Attachments[0].Title == "" && b.Attachments[0].Title == ""
	}
	return inASCII(a.Full) == inASCII(b.Full) && reflect.DeepEqual(a.Attachments, b.Attachments)
}

// inASCII returns the words of a text, with "?" for the characters beyond ASCII.
func inASCII(text string) string {
	text = regexp.MustCompile(`[^\x00-\x7f]+`).ReplaceAllString(text, "?")
	return strings.Join(strings.Fields(text), " ")
}

// readAs reads a mail and drops the notes about it.
func readAs(raw []byte) Content {
	c := ReadContent(strings.NewReader(string(raw)), Sent{})
	c.Problems = nil
	return c
}

// TestSignedFieldsAreTrusted checks that signed fields are trusted even if the body is ambiguous.
func TestSignedFieldsAreTrusted(t *testing.T) {
	for _, tt := range []struct {
		name, fields, body         string
		typeSigned, encodingSigned bool
		ok                         bool
	}{
		{"both signed", "Content-Type: text/plain; charset=iso-8859-1\nContent-Transfer-Encoding: quoted-printable\n", "=41=0Ax\n", true, true, true},
		{"a multipart with text above", "Content-Type: multipart/mixed; boundary=b1\n", "text\n" + parts, true, false, true},
		{"a multipart, encoding alone signed", "Content-Type: multipart/mixed; boundary=b1\n", "text\n" + parts, false, true, false},
		{"another charset", "Content-Type: text/plain; charset=iso-8859-1\n", "Gr\xfc\xdfe\n", true, false, true},
		{"base64 of another charset", "Content-Type: text/plain; charset=iso-8859-1\nContent-Transfer-Encoding: base64\n", base64Of("Gr\xfc\xdfe\n"), true, false, true},
		{"a file", "Content-Type: application/pdf\nContent-Transfer-Encoding: base64\n", base64Of("text"), true, false, true},
		{"encoding replaced", "Content-Type: text/plain\nContent-Transfer-Encoding: quoted-printable\n", "> a=0Adelete everything\n", true, false, false},
		{"encoding removed", "Content-Type: text/plain\n", base64Of("hello"), true, false, false},
		{"an odd encoding, signed", "Content-Type: text/plain\nContent-Transfer-Encoding: quoted-printable\n", "STO=50\n", false, true, true},
		{"type replaced, encoding signed", "Content-Type: text/html\nContent-Transfer-Encoding: quoted-printable\n", "a =3C b\n", false, true, false},
	} {
		err := SoleReading([]byte(tt.fields+"\n"+tt.body), SignedFields{Type: tt.typeSigned, Encoding: tt.encodingSigned, Disposition: true})
		if (err == nil) != tt.ok {
			t.Errorf("%s: %v, want ok %v", tt.name, err, tt.ok)
		}
	}
}

// FuzzSoleReading checks that a body has the same words in ASCII, or is a file, under all fields
// that pass.
func FuzzSoleReading(f *testing.F) {
	for i, r := range readings {
		f.Add(r.fields, readings[(i+7)%len(readings)].fields, r.body)
	}
	f.Fuzz(func(t *testing.T, one, other, body string) {
		if strings.Contains(one+other, "\n\n") || strings.HasPrefix(one, "\n") || strings.HasPrefix(other, "\n") {
			return
		}
		for _, signed := range []struct{ typed, encoded bool }{{false, false}, {true, false}, {false, true}} {
			a, b := []byte(one+"\n\n"+body), []byte(other+"\n\n"+body)
			ea, eb := readEntity(a), readEntity(b)
			if string(ea.body) != string(eb.body) || ea.attached || eb.attached ||
				signed.typed && (ea.mediaType != eb.mediaType || !reflect.DeepEqual(ea.params, eb.params)) ||
				signed.encoded && ea.encoding != eb.encoding {
				continue
			}
			if SoleReading(a, SignedFields{Type: signed.typed, Encoding: signed.encoded}) != nil || SoleReading(b, SignedFields{Type: signed.typed, Encoding: signed.encoded}) != nil {
				continue
			}
			x, y := readWords(a), readWords(b)
			if !sameReading(x, y) {
				t.Errorf("signed %+v: under\n%q\n%+v\nunder\n%q\n%+v", signed, one, x, other, y)
			}
		}
	})
}

// readWords returns the content that reaches the agent: the text and the files without their names.
func readWords(raw []byte) Content {
	c := readAs(raw)
	for i := range c.Attachments {
		c.Attachments[i].Title, c.Attachments[i].Name = "", ""
	}
	return c
}
