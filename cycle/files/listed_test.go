package files

import (
	"slices"
	"strings"
	"testing"
)

func TestSentNames(t *testing.T) {
	for _, test := range []struct{ names, want []string }{
		{[]string{"a.txt", "sub/b.txt"}, []string{"a.txt", "b.txt"}},
		{[]string{"a/report.pdf", "b/report.pdf"}, []string{"a-report.pdf", "b-report.pdf"}},
		{[]string{"a/report.pdf", "report.pdf"}, []string{"a-report.pdf", "report.pdf"}},
		{[]string{"a-report.pdf", "a/report.pdf", "report.pdf"}, []string{"a-report.pdf", "a-report-2.pdf", "report.pdf"}},
		{[]string{"Report.PDF", "report.pdf"}, []string{"Report.PDF", "report-2.pdf"}},
		{[]string{"Gr\u00fc\u00dfe.txt", "Gru\u0308\u00dfe.txt"}, []string{"Gr\u00fc\u00dfe.txt", "Gru\u0308\u00dfe-2.txt"}},
		{[]string{"a b.txt", "a\u00a0b.txt"}, []string{"a b.txt", "a b-2.txt"}},
		{[]string{"x/y/log", "x/z/log", "x-y-log"}, []string{"x-y-log-2", "x-z-log", "x-y-log"}},
		{nil, []string{}},
	} {
		if got := SentNames(test.names); !slices.Equal(got, test.want) {
			t.Errorf("%q: %q, want %q", test.names, got, test.want)
		}
	}
	// Names of 255 bytes, alike but for their end.
	long := strings.Repeat("ä", 120)
	var many []string
	for range 30 {
		many = append(many, strings.Repeat("d/", len(many))+long+".pdf")
	}
	seen := map[string]bool{}
	for _, name := range SentNames(many) {
		if seen[foldName(name)] || len(name) > 255 || !strings.HasSuffix(name, ".pdf") {
			t.Errorf("%q", name)
		}
		seen[foldName(name)] = true
	}
}
