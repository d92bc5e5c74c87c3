package markdown

import (
	"strings"
	"testing"

	"agentstateloop/internal/testkit/limittest"
)

// TestLimits checks each limit of a page at its boundary.
func TestLimits(t *testing.T) {
	formatted := func(text string) bool {
		_, ok := HTML(text)
		return ok
	}
	repeated := func(s string, n int64) string { return strings.Repeat(s, int(n)) }
	limittest.Run(t, []limittest.Limit{
		{Const: "minTopLevel", Max: 1, Within: func(_ *testing.T, n int64) bool { return hostOf("example."+strings.Repeat("x", int(n))) == "" }},
		{Const: "MaxText", Max: 65_536, Within: func(_ *testing.T, n int64) bool { return formatted("# " + repeated("a", n-2)) }},
		{Const: "maxDepth", Max: 18, Within: func(_ *testing.T, n int64) bool { return formatted(repeated("> ", n) + "a") }}, // 20 with the page and its text
		{Const: "maxDepth", Max: 20, Within: func(_ *testing.T, n int64) bool { return readable("```\n" + repeated(">", n) + "\n```") }},
		{Const: "maxPage", Max: 100_000, Within: func(_ *testing.T, n int64) bool {
			const marks = 10_000 // of five bytes each
			empty, _ := HTML("# a")
			rest := int(n) - len(empty) + len("a") - marks*len("&amp;")
			page, ok := HTML("# " + strings.Repeat("&", marks) + strings.Repeat("a", rest))
			return ok && len(page) == int(n)
		}},
		{Const: "maxMarks", Max: 3000, Within: func(_ *testing.T, n int64) bool { return readable(repeated("*", n)) }},
		{Const: "maxColumns", Max: 50, Within: func(_ *testing.T, n int64) bool {
			return formatted("|" + repeated("a|", n) + "\n|" + repeated("-|", n))
		}},
		{Const: "maxAddress", Max: 2000, Within: func(_ *testing.T, n int64) bool {
			_, ok := address("https://" + repeated("a", n-8))
			return ok
		}},
		{Const: "maxAddress", Max: 1999, Within: func(_ *testing.T, n int64) bool { // the text of a link after it is still read
			src := []byte(repeated("a", n-1) + "\nb")
			w := writer{src: src}
			return strings.HasSuffix(w.plainText(parse(src).FirstChild()), "b")
		}},
		{Const: "maxShownAddress", Max: 200, Within: func(_ *testing.T, n int64) bool {
			page, _ := HTML("# [a](" + repeated("é", n) + ")")
			return strings.Contains(page, "a ("+repeated("é", n)+")")
		}},
		{Const: "maxIndent", Max: 20, Within: func(_ *testing.T, n int64) bool {
			page, _ := HTML("**a**\n" + repeated(" ", n) + "b")
			return strings.Contains(page, "\n"+repeated("&nbsp;", n)+"b")
		}},
	})
}
