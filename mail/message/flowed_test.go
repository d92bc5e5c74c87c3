package message

import (
	"strings"
	"testing"
)

// TestUnflow reads texts in format=flowed as RFC 3676 has it.
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
