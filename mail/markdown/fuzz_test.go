package markdown_test

import (
	"net/url"
	"os"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"golang.org/x/net/html"

	"agentstateloop/mail/markdown"
)

// allowedTags lists the tags of a page and the attributes of each, besides style and dir.
var allowedTags = map[string][]string{
	"html": nil, "head": nil, "title": nil, "style": nil, "meta": {"charset", "name", "content"}, "body": nil, "div": nil,
	"p": nil, "br": nil, "hr": nil, "blockquote": nil, "pre": nil, "code": nil, "em": nil, "strong": nil, "del": nil,
	"h1": nil, "h2": nil, "h3": nil, "h4": nil, "h5": nil, "h6": nil, "ul": nil, "ol": {"start"}, "li": nil,
	"table": {"border", "cellpadding"}, "tr": nil, "th": {"align"}, "td": {"align"}, "a": {"href", "rel"},
}

// checkPage parses a page like a mail program and checks it.
func checkPage(t *testing.T, text, page string) {
	t.Helper()
	if !utf8.ValidString(page) || strings.ContainsAny(page, "\x00\r\x1b") {
		t.Errorf("%q: the page is not clean: %q", text, page)
	}
	_, body, _ := strings.Cut(page, "<body")
	var open []string
	z := html.NewTokenizer(strings.NewReader(page))
	for {
		kind := z.Next()
		if kind == html.ErrorToken {
			break
		}
		tag := z.Token()
		switch kind {
		case html.CommentToken, html.SelfClosingTagToken:
			t.Errorf("%q: %s", text, tag)
		case html.EndTagToken:
			if len(open) == 0 || open[len(open)-1] != tag.Data {
				t.Errorf("%q: </%s> closes %q", text, tag.Data, open)
				return
			}
			open = open[:len(open)-1]
		case html.StartTagToken:
			attributes, known := allowedTags[tag.Data]
			if !known {
				t.Errorf("%q: <%s>", text, tag.Data)
			}
			if !slices.Contains([]string{"br", "hr", "meta"}, tag.Data) {
				open = append(open, tag.Data)
			}
			for _, a := range tag.Attr {
				if a.Key != "style" && a.Key != "dir" && !slices.Contains(attributes, a.Key) {
					t.Errorf("%q: <%s %s=%q>", text, tag.Data, a.Key, a.Val)
				}
				if a.Key == "style" && (strings.Contains(a.Val, "url(") || strings.Contains(a.Val, "import") || strings.Contains(a.Val, "position")) {
					t.Errorf("%q: style %q", text, a.Val)
				}
				if a.Key != "href" {
					continue
				}
				u, err := url.Parse(a.Val)
				if err != nil || u.Scheme != "http" && u.Scheme != "https" && u.Scheme != "mailto" || strings.TrimSpace(a.Val) != a.Val {
					t.Errorf("%q: a link to %q", text, a.Val)
				}
			}
			if n := strings.Count(strings.Join(open, " ")+" ", "a "); tag.Data == "a" && slices.Index(open, "a") != len(open)-1 {
				t.Errorf("%q: a link within a link, %d", text, n)
			}
		}
	}
	if len(open) > 0 {
		t.Errorf("%q: %q are left open", text, open)
	}
	if strings.Contains(body, "<style") || strings.Contains(body, "<meta") {
		t.Errorf("%q: a style or meta in the body", text)
	}
}

func FuzzHTML(f *testing.F) {
	answer, err := os.ReadFile("testdata/answer.md")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(string(answer))
	for _, text := range []string{
		"[a](javascript:x) ![b](data:y) <vbscript:z>", "[![a](http://b)](http://c) [<http://d>](http://e) [http://f](http://g)",
		"<script>x</script> <img src=x onerror=y> <a href=\"javascript:z\">", "|a|b|\n|-|:-:|\n|`c\\|d`|[e](f)<br>|\n", "- [ ] a\n  1. b\n     ```\n     c\n",
		"*a **b ~~c `d` e~~ f** g*", "&#106;avascript:x [y](&#x6a;avascript&colon;z)", "> # a\n> - b\n>\n>     c\n", "a\\\nb  \nc\n===\n", "\"><p style=\"", "[a](<b \"c'd> \"e\\\"f\")", "![a](https://b \"c\" onload=d)",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		for _, text := range []string{text, "**x**\n\n" + text} {
			if page, ok := markdown.HTML(text); ok {
				checkPage(t, text, page)
				if again, _ := markdown.HTML(text); again != page {
					t.Errorf("%q: another page the second time", text)
				}
			}
		}
	})
}
