package message

import (
	"strings"
	"testing"
	"unicode/utf8"
)

// TestAttachmentTitles reads one name for each encoding that programs use.
func TestAttachmentTitles(t *testing.T) {
	for _, tt := range []struct{ disposition, contentType, want string }{
		{`attachment; filename=old.csv`, ``, "old.csv"},
		{`attachment; filename="old.csv"`, `text/csv; name="other.csv"`, "old.csv"},
		{`attachment`, `text/csv; name="old.csv"`, "old.csv"},
		{`attachment; name="old.csv"`, ``, "old.csv"},
		{`inline; FileName = "old.csv" ; size=3`, ``, "old.csv"},
		{`attachment; size=3; filename=tide table.pdf; x=y`, ``, "tide table.pdf"},
		{`attachment; filename="a;b=c.pdf"`, ``, "a;b=c.pdf"},
		{`attachment; filename="Report "final".pdf"; size=3`, ``, `Report "final".pdf`},
		{`attachment; filename="Report \"final\".pdf"`, ``, `Report "final".pdf`},
		{`attachment; filename="C:\temp\new.pdf"`, ``, `C:\temp\new.pdf`},
		{`attachment; filename="old.csv; size=3`, ``, "old.csv"},
		{`attachment; filename="old.csv" (a table)`, ``, "old.csv"},
		{`attachment; filename=""`, `text/csv; name=x.csv`, "x.csv"},

		// Precedence among several names.
		{`attachment; name=other.csv; filename=old.csv`, ``, "old.csv"},
		{`attachment`, `text/csv; filename=other.csv; name=old.csv`, "old.csv"},
		{`attachment; filename=old.csv; filename=other.csv`, ``, "old.csv"},
		{`attachment; filename*=utf-8''old.csv; filename*0=other.csv`, ``, "old.csv"},
		{`attachment; filename*0=other.csv; filename*=utf-8''old.csv`, ``, "old.csv"},
		{`attachment; filename=other.csv; filename*0=old; filename*1=.csv`, ``, "old.csv"},
		{`attachment; filename*0=old; filename*0=other; filename*1=.csv`, ``, "old.csv"},
		{`attachment; filename*0*=utf-8''old; filename*1*=a''b.csv`, ``, "olda''b.csv"},

		// RFC 2231.
		{`attachment; filename*=UTF-8''Gr%C3%BC%C3%9Fe.pdf; filename="Gruesse.pdf"`, ``, "Grüße.pdf"},
		{`attachment; filename="Gruesse.pdf"; filename*=utf-8'de'Gr%c3%bc%c3%9fe.pdf`, ``, "Grüße.pdf"},
		{`attachment; filename*=iso-8859-1''Gr%FC%DFe.pdf`, ``, "Grüße.pdf"},
		{`attachment; filename*=windows-1251''%CE%F2%F7%B8%F2.pdf`, ``, "Отчёт.pdf"},
		{`attachment; filename*=GBK''%B1%A8%B8%E6.pdf`, ``, "报告.pdf"},
		{`attachment; filename*=ISO-2022-JP''%1B$B5D%3BvO%3F%1B(B.txt`, ``, "議事録.txt"},
		{`attachment; filename*=x-klingon''Gr%C3%BC%C3%9Fe.pdf`, ``, "Grüße.pdf"},
		{`attachment; filename*=''Gr%C3%BC%C3%9Fe.pdf`, ``, "Grüße.pdf"},
		{`attachment; filename*="UTF-8''Gr%C3%BC%C3%9Fe.pdf"`, ``, "Grüße.pdf"},
		{`attachment; filename="utf-8''Gr%C3%BC%C3%9Fe.pdf"`, ``, "Grüße.pdf"},
		{`attachment; filename="utf-8''Gruesse.pdf"`, ``, "utf-8''Gruesse.pdf"},
		{`attachment; filename="''Gr%C3%BC%C3%9Fe.pdf"`, ``, "''Gr%C3%BC%C3%9Fe.pdf"},
		{`attachment; filename*=utf-16''G%00r%00%FC%00%DF%00e%00`, ``, "Grüße"},
		{`attachment; filename*0*=UTF-8''Gr%C3; filename*1*=%BC%C3%9Fe; filename*2=" 1.pdf"`, ``, "Grüße 1.pdf"},
		{`attachment; filename*1=" table.pdf"; filename*0="tide"`, ``, "tide table.pdf"},
		{`attachment; filename*1=tide; filename*2=".pdf"`, ``, "tide.pdf"},
		{`attachment; filename*0*=GBK''%B1; filename*1*=%A8%B8%E6.pdf`, ``, "报告.pdf"},
		{`attachment; filename*0="=?utf-8?q?Gr=C3=BC?="; filename*1="=?utf-8?q?=C3=9Fe.pdf?="`, ``, "Grüße.pdf"},
		{`attachment; filename*=utf-8''100%.pdf`, ``, "100%.pdf"},

		// Encoded words.
		{`attachment; filename="=?utf-8?B?R3LDvMOfZS5wZGY=?="`, ``, "Grüße.pdf"},
		{`attachment; filename==?utf-8?B?R3LDvMOfZS5wZGY=?=`, ``, "Grüße.pdf"},
		{`attachment; filename="=?utf-8?Q?Gr=C3=BC=C3=9Fe 1.pdf?="`, ``, "Grüße 1.pdf"},
		{`attachment; filename="=?utf-8?B?R3LD?= =?utf-8?B?vMOfZS5wZGY=?="`, ``, "Grüße.pdf"},
		{`attachment; filename="=?utf-8?B?R3LDvA==?==?utf-8?B?w59lLnBkZg==?="`, ``, "Grüße.pdf"},
		{`attachment; filename="=?iso-8859-1?Q?Gr=FC=DFe?=.pdf"`, ``, "Grüße.pdf"},
		{`=?utf-8?q?attachment=3B_filename=3D=22Gr=C3=BC=C3=9Fe=2Epdf=22?=`, ``, "Grüße.pdf"},

		// Raw bytes.
		{"attachment; filename=\"Gr\xc3\xbc\xc3\x9fe.pdf\"", ``, "Grüße.pdf"},
		{"attachment; filename=\"Gr\xfc\xdfe.pdf\"", ``, "Grüße.pdf"},
		{"attachment; filename=\"\xb1\xa8\xb8\xe6.pdf\"", `text/plain; charset=gbk`, "报告.pdf"},
		{"attachment; filename=\"\x1b$B5D;vO?\x1b(B.txt\"", ``, "議事録.txt"},

		// Hostile names: the title shows them as one line.
		{"attachment; filename=\"../../\x00\x1b[2J\x07x\"", ``, "../../ [2J x"},
		{`attachment; filename*=utf-8''a%0D%0AX-Evil:%20yes`, ``, "a X-Evil: yes"},
		{`attachment; filename*=utf-8''%FF%FE`, ``, "ÿþ"},
		{`attachment; filename="it's John's.pdf"`, ``, "it's John's.pdf"},
	} {
		header := "Content-Disposition: " + tt.disposition + "\n"
		if tt.contentType != "" {
			header = "Content-Type: " + tt.contentType + "\n" + header
		}
		if got := readEntity([]byte(header + "\nx\n")).title; got != tt.want {
			t.Errorf("%s %s: %q, want %q", tt.disposition, tt.contentType, got, tt.want)
		}
	}
}

// TestRawTitles checks the charset of raw bytes in a name: UTF-8 if they are valid, otherwise the
// charset of the part, otherwise the first matching charset of the mail.
func TestRawTitles(t *testing.T) {
	for raw, want := range map[string]string{
		"Content-Disposition: attachment; filename=\xd4\xc9\n\n":                                        "ти",
		"Content-Type: text/plain; charset=gbk\nContent-Disposition: attachment; filename=\xd4\xc9\n\n": "陨",
		"Content-Disposition: attachment; filename=ти\n\n":                                              "ти",
	} {
		if got := readEntity([]byte(raw), "koi8-r", "big5").title; got != want {
			t.Errorf("%q: %q, want %q", raw, got, want)
		}
	}
}

// TestLongTitlesKeepExtension checks that a truncated name keeps its extension.
func TestLongTitlesKeepExtension(t *testing.T) {
	for name, ext := range map[string]string{strings.Repeat("x", 400) + ".pdf": "….pdf", strings.Repeat("報", 100) + ".pdf": "….pdf", strings.Repeat("x", 300) + "." + strings.Repeat("y", 30): "…"} {
		title := readEntity([]byte("Content-Disposition: attachment; filename=\"" + name + "\"\n\nx\n")).title
		if len(title) > maxTitle || len(title) < maxTitle-5 || !strings.HasSuffix(title, ext) || !utf8.ValidString(title) {
			t.Errorf("%q", title)
		}
	}
}

// TestNamedTextParts checks that a text part with a name is a file, and also the text if the mail has
// no other.
func TestNamedTextParts(t *testing.T) {
	const mixed = "Content-Type: multipart/mixed; boundary=b\n\n"
	const notes = "--b\nContent-Type: text/plain; name=notes.txt\nContent-Disposition: inline\n\nlow water at six\n"
	for _, tt := range []struct{ name, raw, text, files string }{
		{"below a text", mixed + "--b\n\nhello\n" + notes + "--b--\n", "hello", "notes.txt"},
		{"above a text", mixed + notes + "--b\n\nhello\n--b--\n", "hello", "notes.txt"},
		{"alone", mixed + notes + "--b--\n", "low water at six", "notes.txt"},
		{"as both of two alternatives", "Content-Type: multipart/alternative; boundary=b\n\n" + notes + "--b\nContent-Type: text/html; name=notes.html\n\n<p>hello\n--b--\n", "low water at six", "notes.txt notes.html"},
		{"as the whole mail", "Content-Type: text/plain; name=notes.txt\n\nhello\n", "hello", ""},
		{"in HTML, alone", mixed + "--b\nContent-Type: text/html; name=a.html\n\n<p>hello\n--b--\n", "hello", "a.html"},
	} {
		c := ContentOf([]byte(tt.raw), Sent{})
		var files []string
		for _, a := range c.Attachments {
			files = append(files, a.Title)
		}
		if c.Text != tt.text || strings.Join(files, " ") != tt.files {
			t.Errorf("%s: %q with %q, want %q with %q", tt.name, c.Text, files, tt.text, tt.files)
		}
	}
}

// FuzzTitle checks that a title is one line of valid UTF-8 for any fields.
func FuzzTitle(f *testing.F) {
	f.Add([]byte("attachment; filename*0*=GBK''%B1; filename*1*=%A8%B8%E6.pdf"), []byte(`x/y; name="=?utf-8?B?R3LD?= =?utf-8?B?vMOfZS5wZGY=?="`))
	f.Add([]byte("attachment; filename=\"a\\\"b"), []byte("x/y; name*=utf-16''%00a%0"))
	f.Fuzz(func(t *testing.T, disposition, contentType []byte) {
		title := titleOf(disposition, contentType, []string{"gbk", "utf-16", "iso-2022-jp"})
		if !utf8.ValidString(title) || len(title) > maxTitle || strings.ContainsAny(title, "\n\r\x00\x1b\u0085") {
			t.Errorf("%q", title)
		}
	})
}
