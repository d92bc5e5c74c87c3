package message

import (
	"strings"
	"testing"
	"unicode/utf8"

	"agentstateloop/internal/testkit/mailtest"
)

func TestStrictHeader(t *testing.T) {
	for raw, want := range map[string]string{
		"A: b\r\n\r\n":                         "a= b",
		"A: b\n\n":                             "a= b",
		"A: b\r\n\tc\r\n d\r\n\r\nrest":        "a= b\tc d",
		"A:\r\n b\r\nB-c: \xff\r\n\r\n":        "a= b|b-c= \xff",
		"\r\n":                                 "",
		"A: b\r\n":                             "does not end",
		"":                                     "does not end",
		"A: b\r\nB: c\n\r\n":                   "bare LF",
		"A: b\nB: c\r\n\n":                     "bare LF",
		"A: b\rB: c\r\n\r\n":                   "a bare CR",
		"A: b\r\n\r\r\nB: c\r\n\r\n":           "a bare CR",
		"A: b\x00\r\n\r\n":                     "contains a NUL",
		"A: b\r\n \r\nB: c\r\n\r\n":            "blank line with spaces",
		" A: b\r\n\r\n":                        "begins with a continuation",
		"A b\r\n\r\n":                          "is not a field",
		"A : b\r\n\r\n":                        "is not a field",
		": b\r\n\r\n":                          "is not a field",
		"\ufeffA: b\r\n\r\n":                   "is not a field",
		"From x Mon Jan 5\r\nA: b\r\n\r\n":     "is not a field",
		"A: " + strings.Repeat("x", MaxHeader): "longer than",
	} {
		fields, err := StrictFields([]byte(raw))
		var got []string
		for _, f := range fields {
			got = append(got, f.Name+"="+f.Value)
		}
		if all := strings.Join(got, "|"); err == nil && all != want || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%.60q: %q, %v, want %q", raw, all, err, want)
		}
	}
}

func TestSoleAddress(t *testing.T) {
	for value, want := range map[string]string{
		"operator@example.com":                     "operator@example.com",
		" <operator@example.com> ":                 "operator@example.com",
		"The Operator <Operator@EXAMPLE.com>":      "operator@example.com",
		`"Operator, The" <operator@example.com>`:   "operator@example.com",
		`"a\"b" <operator@example.com> (c \) (d))`: "operator@example.com",
		"(c) operator@example.com":                 "operator@example.com",
		"=?utf-8?q?a=40b?= <operator@example.com>": "operator@example.com",
		"Änne <änne@exämple.com>":                  "änne@xn--exmple-cua.com",
		"op+tag=x/y@mail.example.com":              "op+tag=x/y@mail.example.com",
		"Dr. O. (x) P <o.p@example.com>":           "o.p@example.com",
		"m\u212Ae@example.com":                     "m\u212Ae@example.com", // Kelvin sign, not k
		"op@\u212Aelvin.example.com":               "",
		"":                                         "",
		"operator":                                 "",
		"@example.com":                             "",
		"operator@":                                "",
		"operator@localhost":                       "",
		"operator@example.com.":                    "",
		"operator@@example.com":                    "",
		"operator@example@com":                     "",
		".operator@example.com":                    "",
		"op..erator@example.com":                   "",
		"operator@example..com":                    "",
		"operator@[192.0.2.1]":                     "",
		"operator@-example.com":                    "",
		"operator@xn--a.com":                       "",
		`"operator"@example.com`:                   "",
		"operator @example.com":                    "",
		"operator@ example.com":                    "",
		"operator@example.com x":                   "",
		"operator(c)@example.com":                  "",
		"<operator@example.com":                    "",
		"operator@example.com>":                    "",
		"<operator@example.com> x":                 "",
		"< operator@example.com >":                 "",
		"<<operator@example.com>>":                 "",
		"<@a.com,@b.com:operator@example.com>":     "",
		"a@example.com, operator@example.com":      "",
		"operator@example.com,":                    "",
		",operator@example.com":                    "",
		"Us: operator@example.com;":                "",
		"Us:;":                                     "",
		"a@b.com <operator@example.com>":           "",
		"a <b@c.com> <operator@example.com>":       "",
		`a\b <operator@example.com>`:               "",
		`"a <operator@example.com>`:                "",
		"a) <operator@example.com>":                "",
		"(a <operator@example.com>":                "",
		"\xff <operator@example.com>":              "",
		"operator@example.com\x00":                 "",
		"operator@ex\u00adample.com":               "", // soft hyphen
		"operator@ｅxample.com":                     "",
		"operator@example\u3002com":                "", // ideographic full stop
	} {
		got, err := soleAddress(value)
		if got != want || (err == nil) != (want != "") {
			t.Errorf("%q: %q, %v, want %q", value, got, err, want)
		}
	}
}

// TestSoleSender checks that two From fields have no sole sender, even if they are equal.
func TestSoleSender(t *testing.T) {
	from := Field{Name: "from", Value: "op@example.com"}
	if got, err := SoleSender([]Field{from}); got != "op@example.com" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	for _, fields := range [][]Field{nil, {from, from}} {
		if got, err := SoleSender(fields); err == nil {
			t.Errorf("%q has the sender %s", fields, got)
		}
	}
}

// FuzzSoleAddress checks that an accepted value has one @ outside quotes and comments, and that its
// address is plain and normalised.
func FuzzSoleAddress(f *testing.F) {
	for _, s := range []string{
		"The Operator <operator@example.com>", `"a@b.com" <operator@example.com> (c)`, "Us: operator@example.com;",
		"<@a:b@c.com>", "=?utf-8?q?=40?= a@b.com", "\"\\\"\" <a@b.com>", "a@exämple.com", "(a (b) \\) c) d@e.fg",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, value string) {
		got, err := soleAddress(value)
		if err != nil {
			if got != "" {
				t.Errorf("%q and %v", got, err)
			}
			return
		}
		if n := strings.Count(mailtest.OutsideQuotes(value), "@"); n != 1 {
			t.Errorf("%q from %q, which has %d @ outside quotes and comments", got, value, n)
		}
		if NormalAddress(got) != got || strings.ContainsAny(got, " \t\r\n<>()\",;:\\") || !utf8.ValidString(got) {
			t.Errorf("%q from %q is not a plain address", got, value)
		}
	})
}
