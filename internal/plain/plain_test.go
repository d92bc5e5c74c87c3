package plain_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"agentstateloop/internal/plain"
)

func TestLineJoinsLines(t *testing.T) {
	for in, want := range map[string]string{
		"":                              "",
		"plain":                         "plain",
		"  two\r\nlines\tand\vmore  ":   "two lines and more",
		"\x1b[31mred\x1b[0m":            "[31mred [0m",
		"a\u2028b\u2029c\u0085d":        "a b c d",
		"\u202eevil":                    "\ufffdevil",
		"half \xff":                     "half \ufffd",
		"👩\u200d👩":                      "👩\u200d👩",
		"Größe, 大きさ":                    "Größe, 大きさ",
		"no\u00a0break \u3000 anywhere": "no break anywhere",
	} {
		if got := plain.Line(in); got != want {
			t.Errorf("Line(%q) = %q, want %q", in, got, want)
		}
	}
}

func TestTextDropsControls(t *testing.T) {
	for in, want := range map[string]string{
		"":                        "",
		"one\r\ntwo\rthree\nfour": "one\ntwo\nthree\nfour",
		"\ufeffa\tb\x00c\x1b[2Jd": "a\tbc[2Jd",
		"half \xe2\x82":           "half \ufffd",
		"  blanks stay  \n\n":     "  blanks stay  \n\n",
	} {
		if got := plain.Text(in); got != want {
			t.Errorf("Text(%q) = %q, want %q", in, got, want)
		}
	}
}

func TestCutAndShorten(t *testing.T) {
	const s = "añ大👩x"
	for n := -1; n <= len(s)+1; n++ {
		got := plain.Cut(s, n)
		if !utf8.ValidString(got) || len(got) > max(n, 0) || !strings.HasPrefix(s, got) || max(n, 0)-len(got) > 3 && got != s {
			t.Errorf("Cut(%q, %d) = %q", s, n, got)
		}
	}
	for n, want := range map[int]string{0: "…", 1: "a…", 2: "añ…", 4: "añ大👩…", 5: s, 6: s} {
		if got := plain.Shorten(s, n); got != want {
			t.Errorf("Shorten(%q, %d) = %q, want %q", s, n, got, want)
		}
	}
}

func TestTrimPartial(t *testing.T) {
	for in, want := range map[string]string{
		"": "", "a": "a", "ä": "ä", "aä": "aä", "a\xc3": "a", "\xc3": "", "€": "€",
		"a\xe2\x82": "a", "a\xf0\x9f\x98": "a", "a\x80\x80\x80\x80": "a\x80\x80\x80\x80", "\xff": "\xff",
	} {
		if got := string(plain.TrimPartial([]byte(in))); got != want {
			t.Errorf("TrimPartial(%q) = %q, want %q", in, got, want)
		}
	}
}
