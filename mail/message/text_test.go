package message

import (
	"strings"
	"testing"
)

// TestInlinePGP reads texts with inline PGP signatures or encryption.
func TestInlinePGP(t *testing.T) {
	const signed = "-----BEGIN PGP SIGNED MESSAGE-----\nHash: SHA256\n\nHALT\n-----BEGIN PGP SIGNATURE-----\n\niQEz\n=abcd\n-----END PGP SIGNATURE-----\n"
	for name, c := range map[string]struct{ in, text, problem string }{
		"signed":               {signed, "HALT", "signed with PGP"},
		"signed, text around":  {"above\n" + signed + "below", "above\nHALT\nbelow", "signed with PGP"},
		"dashes":               {strings.Replace(signed, "HALT", "- -- rule\n- From x", 1), "-- rule\nFrom x", "signed with PGP"},
		"cut off":              {strings.SplitAfter(signed, "iQEz")[0], strings.SplitAfter(signed, "iQEz")[0], "signed with PGP"},
		"encrypted":            {"-----BEGIN PGP MESSAGE-----\n\nhQEM\n-----END PGP MESSAGE-----", "-----BEGIN PGP MESSAGE-----\n\nhQEM\n-----END PGP MESSAGE-----", "encrypted (PGP)"},
		"a quotation of a sig": {"> -----BEGIN PGP SIGNED MESSAGE-----\n> x", "> -----BEGIN PGP SIGNED MESSAGE-----\n> x", ""},
		"no PGP":               {"hello", "hello", ""},
	} {
		got := ContentOf([]byte("Subject: x\n\n"+c.in), Sent{})
		if got.Text != c.text || (len(got.Problems) == 0) != (c.problem == "") || !strings.Contains(strings.Join(got.Problems, " "), c.problem) {
			t.Errorf("%s: %q, %q; want %q, %q", name, got.Text, got.Problems, c.text, c.problem)
		}
	}
}

// TestPlainTextRefersToHTML checks that a plain text that only refers to the HTML form does not
// hide it, and that any other plain text is read.
func TestPlainTextRefersToHTML(t *testing.T) {
	for _, c := range []struct{ plain, html, want string }{
		{"This mail needs HTML.", "<p>Restart alpha</p>", "Restart alpha"},
		{"Ihr Programm zeigt kein HTML an.", "<p>Restart alpha</p>", "Restart alpha"},
		{"Restart alpha", "<p>Restart alpha</p>", "Restart alpha"},
		{"Restart alpha", "<img alt=logo>", "Restart alpha"},
		{"Send the report as HTML", "<p>Send the report as HTML</p><p>logo</p>", "Send the report as HTML"},
		{"Send it as HTML. " + strings.Repeat("And more of it. ", 20), "<p>x</p>", strings.TrimSpace("Send it as HTML. " + strings.Repeat("And more of it. ", 20))},
	} {
		raw := "Content-Type: multipart/alternative; boundary=b\n\n--b\n\n" + c.plain + "\n--b\nContent-Type: text/html\n\n" + c.html + "\n--b--\n"
		if got := ContentOf([]byte(raw), Sent{}).Text; got != c.want {
			t.Errorf("%q with %q: %q, want %q", c.plain, c.html, got, c.want)
		}
	}
}

// TestAutomaticMail checks the signs that a program wrote a mail.
func TestAutomaticMail(t *testing.T) {
	reaction := "Content-Type: multipart/alternative; boundary=b\n\n--b\n\nAnn reacted to your message: +1\n--b\nContent-Type: text/vnd.google.email-reaction+json\n\n{\"emoji\":\"x\",\"version\":1}\n--b\nContent-Type: text/html\n\n<p>x\n--b--\n"
	for raw, automatic := range map[string]bool{
		reaction: true,
		"Content-Type: text/calendar; method=REPLY\n\nBEGIN:VCALENDAR\n":   true,
		"Content-Type: text/calendar; method=REQUEST\n\nBEGIN:VCALENDAR\n": false,
		"Subject: x\n\nhello\n": false,
	} {
		if c := ContentOf([]byte(raw), Sent{}); (c.Automatic != "") != automatic {
			t.Errorf("%q: automatic %q", raw, c.Automatic)
		}
	}
}

// TestUnflow reads texts in format=flowed (RFC 3676).
func TestUnflow(t *testing.T) {
	for _, c := range []struct {
		name, in string
		delsp    bool
		want     string
	}{
		{"a paragraph", "One line \ngoes on \nand ends.\nAnother.\n", false, "One line goes on and ends.\nAnother.\n"},
		{"delsp", "A very long wo \nrd and  \nmore\n", true, "A very long word and more\n"},
		{"delsp of Japanese", "こんにちは \n世界\n", true, "こんにちは世界\n"},
		{"an address", "see https://example.com/a/ \nb/c\n", true, "see https://example.com/a/b/c\n"},
		{"CR LF", "One \r\ntwo\r\n", false, "One two\n"},
		{"stuffed", " From here\n  indented\n >not quoted\n", false, "From here\n indented\n >not quoted\n"},
		{"quoted", "> one \n> two\n>> deep \n>> er\n> three\n", false, "> one two\n>> deep er\n> three\n"},
		{"a quotation ends its paragraph", "> one \nanswer \n> two\n", false, "> one \nanswer \n> two\n"},
		{"a signature", "text \n-- \nAnn \nExample\n", false, "text \n-- \nAnn Example\n"},
		{"a quoted signature", "> text \n> -- \n> Ann\n", false, "> text \n> -- \n> Ann\n"},
		{"an empty line", "one \n\ntwo\n", false, "one \n\ntwo\n"},
		{"no end", "one \ntwo ", false, "one two "},
		{"nothing", "", false, ""},
	} {
		if got := unflow(c.in, c.delsp); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
	for kind, want := range map[string]string{
		"text/plain; format=flowed":            "a b",
		"text/plain; Format=\"Flowed\"":        "a b",
		"text/plain; format=flowed; delsp=yes": "ab",
		"text/plain; format=flowed; delsp=no":  "a b",
		"text/plain; delsp=yes":                "a \nb",
		"text/plain; format=fixed":             "a \nb",
		"text/markdown; format=flowed":         "a \nb",
	} {
		if got := ContentOf([]byte("Content-Type: "+kind+"\n\na \nb\n"), Sent{}).Full; got != want {
			t.Errorf("%s: %q, want %q", kind, got, want)
		}
	}
}

// TestEnriched reads text/enriched (RFC 1896).
func TestEnriched(t *testing.T) {
	for in, want := range map[string]string{
		"do <bold>not</bold> run":                   "do not run",
		"<color><param>red</param>stop</color> now": "stop now",
		"a <<b> c":                    "a <b> c",
		"one\ntwo\n\nthree\n\n\nfour": "one two\nthree\n\nfour",
		"<Color><PARAM>red</PARAM>x":  "x",
		"<param>no end":               "",
		"a < b":                       "a < b",
		"one\r\ntwo":                  "one two",
		strings.Repeat("<param>", 3) + "x" + "</param>" + "after": "after",
	} {
		raw := "Content-Type: text/enriched\n\n" + in
		if got := ContentOf([]byte(raw), Sent{}).Full; got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}
