package markdown_test

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"agentstateloop/mail/markdown"
)

// TestParseTimeOfWorstTexts renders texts that are slow to parse, and logs their times. The limit
// is far above the measured times, because the machine may be busy.
func TestParseTimeOfWorstTexts(t *testing.T) {
	const n = markdown.MaxText
	fill := func(s string) string { return strings.Repeat(s, n/len(s)) }
	nested := func(s string) string {
		var b strings.Builder
		for i := 0; b.Len()+i*len(s)+2 < n; i++ {
			b.WriteString(strings.Repeat(s, i) + "a\n")
		}
		return b.String()
	}
	texts := map[string]string{}
	for name, text := range map[string]string{
		"plain": fill("word "), "lines": fill("word\n"), "paragraphs": fill("word\n\n"),
		"stars": fill("*a "), "stars2": fill("**a"), "closers": fill("a** "), "mixed": fill("*a_ "), "mixed2": fill("_a*"), "triples": fill("***a_**"),
		"brackets": fill("["), "links": fill("[a]("), "images": fill("![["), "pairs": fill("[]"), "closed": strings.Repeat("[", n/2) + strings.Repeat("]", n/2), "dest": fill("[a](<b"), "titles": fill(`[a](b "`), "titles2": fill(`[a](b 'c`),
		"ticks": fill("`a``b```c"), "ticks2": ticks(n), "tildes": fill("~~a "), "fences": fill("```\n~~~\n"),
		"quotes": fill(">"), "quotes2": fill("> "), "quote lines": fill("> a\n"), "nested quotes": nested(">"), "lists": fill("- "), "nested lists": nested("  - "), "list lines": fill("- a\n"), "numbers": fill("1. a\n"), "list indent": listIndent(n),
		"headings": fill("# "), "setext": fill("a\n---\n"), "rules": fill("* * *\n"), "rule": fill("* "),
		"table": "|a|b|\n|-|-|\n" + fill("|a|b|\n")[:n-20], "cells": "|a|b|\n|-|-|\n" + fill("|")[:n-20], "bars": fill("|\n"), "columns": columns(n), "delimiters": fill("|-|\n"), "delimiters2": fill("a|b\n-|-|-\n"),
		"autolinks": fill("<http://a"), "autolinks2": fill("<a@"), "addresses": fill("http://"), "addresses2": fill("http://a:"), "address": "http://" + fill("a)")[:n-20], "colons": fill("https:"),
		"entities": fill("&"), "entities2": fill("&amp"), "escapes": fill(`\*`), "backslashes": fill(`\`), "html": fill("<a href="), "html2": fill("<!--"), "html3": fill("<![CDATA["), "html4": fill("<?"),
		"blanks": fill(" "), "tabs": fill("\t"), "tabs2": fill("-\ta\n"), "returns": fill("\r"), "nbsp": fill("\u00a0"), "zero": fill("\x00"), "foreign": fill("漢"), "definitions": fill("[a]: b\n"),
	} {
		texts[name] = text
		// The same text in as many paragraphs as possible.
		var b strings.Builder
		for piece := text; piece != ""; {
			end := min(len(piece), 3000)
			b.WriteString(strings.ReplaceAll(piece[:end], "\n\n", "\n") + "\n\n")
			piece = piece[end:]
		}
		texts[name+" in pieces"] = b.String()[:min(b.Len(), n)]
	}
	for name, text := range texts {
		start := time.Now()
		page, ok := markdown.HTML(text)
		took := time.Since(start)
		if took > 50*time.Millisecond {
			t.Logf("%-14s %8v, %d KiB, %v", name, took.Round(time.Millisecond), len(page)>>10, ok)
		}
		if took > 5*time.Second {
			t.Errorf("%s takes %v", name, took)
		}
	}
}

func ticks(n int) string {
	var b strings.Builder
	for i := 1; b.Len()+i+2 < n; i++ {
		b.WriteString(strings.Repeat("`", i) + "a")
	}
	return b.String()
}

func listIndent(n int) string {
	var b strings.Builder
	for i := 0; b.Len()+i+4 < n; i++ {
		b.WriteString(strings.Repeat(" ", i) + "- a\n")
	}
	return b.String()
}

func columns(n int) string {
	head := "|" + strings.Repeat("a|", n/8) + "\n|" + strings.Repeat("-|", n/8) + "\n"
	return head + strings.Repeat(fmt.Sprintln("|a|"), (n-len(head))/5)
}

func BenchmarkHTML(b *testing.B) {
	text, err := os.ReadFile("testdata/answer.md")
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		markdown.HTML(string(text))
	}
}
