package message

import (
	"strings"
	"testing"
)

// TestInlinePGP reads texts that are signed or encrypted with PGP within the text.
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

// TestPlaceholders checks that a plain text which only refers to the HTML form does not
// hide it, and that any other one is read.
func TestPlaceholders(t *testing.T) {
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

// TestAutomaticMail checks what shows that a program wrote a mail.
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
