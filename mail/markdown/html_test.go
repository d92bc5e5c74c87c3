package markdown_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/net/html"

	"agentstateloop/mail/markdown"
)

// bodyOf returns a page without its head, its styles and the attributes that every tag repeats.
func bodyOf(page string) string {
	z := html.NewTokenizer(strings.NewReader(page))
	var b strings.Builder
	for body := false; ; {
		kind := z.Next()
		t := z.Token()
		switch {
		case kind == html.ErrorToken:
			return strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(b.String()), "</div>"))
		case t.Data == "div" && kind == html.StartTagToken && !body:
			body = true
			continue
		case !body || t.Data == "body" || t.Data == "html":
			continue
		}
		var kept []html.Attribute
		for _, a := range t.Attr {
			if a.Key == "href" || a.Key == "start" || a.Key == "align" {
				kept = append(kept, a)
			}
		}
		t.Attr = kept
		b.WriteString(t.String())
	}
}

func TestHTML(t *testing.T) {
	for _, test := range []struct{ text, want string }{
		{"**bold** and *thin*", "<p><strong>bold</strong> and <em>thin</em></p>"},
		{"# One\n\ntext", "<h1>One</h1>\n<p>text</p>"},
		{"`code <b> & \\|`", "<p><code>code &lt;b&gt; &amp; \\|</code></p>"},
		{"~~gone~~ ~home 5~6", "<p><del>gone</del> ~home 5~6</p>"},
		{"- a\n- b", "<ul>\n<li>a</li>\n<li>b</li>\n</ul>"},
		{"3. a\n4. b", "<ol start=\"3\">\n<li>a</li>\n<li>b</li>\n</ol>"},
		{"0. a", "<ol start=\"0\">\n<li>a</li>\n</ol>"},
		{"- [ ] a\n- [x] **b**\n- [y] c", "<ul>\n<li>☐ a</li>\n<li>☑ <strong>b</strong></li>\n<li>[y] c</li>\n</ul>"},
		{"> said", "<blockquote>\n<p>said</p>\n</blockquote>"},
		{"```\na\n  b\n```", "<pre>a\n  b</pre>"},
		{"a\n\n---\n\nb", "<p>a</p>\n<hr>\n<p>b</p>"},
		{"|a|b|\n|-|-|\n|1\\\\|2|", "<div><table>\n<tr><th align=\"left\">a</th><th align=\"left\">b</th></tr>\n<tr><td>1\\</td><td>2</td></tr>\n</table></div>"},
		{"|a|b|\n|-|-:|\n|1 \\| 2|`3\\|4`<br>5|", "<div><table>\n<tr><th align=\"left\">a</th><th align=\"right\">b</th></tr>\n<tr><td>1 | 2</td><td align=\"right\"><code>3|4</code><br>5</td></tr>\n</table></div>"},
		{"words\n|a|\n|-|\n|1|", "<p>words</p>\n<div><table>\n<tr><th align=\"left\">a</th></tr>\n<tr><td>1</td></tr>\n</table></div>"},
		{"[x](https://example.com/a?b=1&c=2)", "<p><a href=\"https://example.com/a?b=1&amp;c=2\">x</a></p>"},
		{"[x](mailto:a@example.com)", "<p><a href=\"mailto:a@example.com\">x</a></p>"},

		// Line ends stay, and no text is lost.
		{"**a**\nb\n  c", "<p><strong>a</strong><br>\nb<br>\n\u00a0\u00a0c</p>"},
		{"*a*\n\n[warn]: disk\n\n[x][warn]", "<p><em>a</em></p>\n<p>[warn]: disk</p>\n<p>[x][warn]</p>"},
		{"*a*\n\nVec<String> <!-- x --> <b>", "<p><em>a</em></p>\n<p>Vec&lt;String&gt; &lt;!-- x --&gt; &lt;b&gt;</p>"},
		{"`a` 2*3*4 and 5**2 and 3**2, __init__.py _b_", "<p><code>a</code> 2*3*4 and 5**2 and 3**2, __init__.py <em>b</em></p>"},
		{"`a` rm *.o *.a a_b_c", "<p><code>a</code> rm *.o *.a a_b_c</p>"},
		{"**10**GB 漢字**太字**漢字", "<p><strong>10</strong>GB 漢字<strong>太字</strong>漢字</p>"},
		{"a **10**GB", "<p>a <strong>10</strong>GB</p>"},
		{"one\ntwo\n---\n**x**", "<p>one<br>\ntwo</p>\n<hr>\n<p><strong>x</strong></p>"},
		{"Title\n=====\n\nx", "<h1>Title</h1>\n<p>x</p>"},
		{"*x* &lt;b&gt; &amp;amp; \\&lt; &nosuch; AT&T", "<p><em>x</em> &lt;b&gt; &amp;amp; &amp;lt; &amp;nosuch; AT&amp;T</p>"},
		{"*a*\n\nNAME  READY\nweb   1/1", "<p><em>a</em></p>\n<pre>NAME  READY\nweb   1/1</pre>"},
		{"*a*\n\n├── b\n└── c", "<p><em>a</em></p>\n<pre>├── b\n└── c</pre>"},
		{"*a*\n\nOne.  Two.\nThree.  Four.", "<p><em>a</em></p>\n<p>One.  Two.<br>\nThree.  Four.</p>"},

		// Addresses.
		{"*a* see https://example.com/a_b_c?x=*y*, (http://example.com/(b)).", "<p><em>a</em> see <a href=\"https://example.com/a_b_c?x=*y\">https://example.com/a_b_c?x=*y</a>*, (<a href=\"http://example.com/(b)\">http://example.com/(b)</a>).</p>"},
		{"**https://example.com**", "<p><strong><a href=\"https://example.com\">https://example.com</a></strong></p>"},
		{"*a* <https://example.com> <b@example.com> xhttps://c.d file:///etc", "<p><em>a</em> <a href=\"https://example.com\">https://example.com</a> <a href=\"mailto:b@example.com\">b@example.com</a> xhttps://c.d file:///etc</p>"},
		{"[x](javascript:alert(1))", ""},
		{"*a* [x](javascript:alert(1)) [y](JaVaScRiPt:z) [z](data:text/html,q)", "<p><em>a</em> x (javascript:alert(1)) y (JaVaScRiPt:z) z (data:text/html,q)</p>"},
		{"[x](java&#10;script:z) [y](&#106;avascript:z) *a*", "<p>x (java script:z) y (javascript:z) <em>a</em></p>"},
		{"*a* <javascript:alert(1)> [x](//example.com/y) [z](/etc/passwd)", "<p><em>a</em> javascript:alert(1) x (//example.com/y) z (/etc/passwd)</p>"},
		{"[x](https://bank.example@evil.example/)", ""},
		{"[https://bank.example](https://evil.example)", "<p><a href=\"https://evil.example\">https://bank.example</a> (https://evil.example)</p>"},
		{"[paypal.com](https://evil.example/)", "<p><a href=\"https://evil.example/\">paypal.com</a> (https://evil.example/)</p>"},
		{"[Paypal.com/login](https://evil.example/)", "<p><a href=\"https://evil.example/\">Paypal.com/login</a> (https://evil.example/)</p>"},
		{"[go to paypal.com now](https://evil.example/)", "<p><a href=\"https://evil.example/\">go to paypal.com now</a> (https://evil.example/)</p>"},
		{"[pay\u200bpal\u3002com](https://evil.example/)", "<p><a href=\"https://evil.example/\">pay\u200bpal\u3002com</a> (https://evil.example/)</p>"},
		{"[paypal.com](https://www.paypal.com/x)", "<p><a href=\"https://www.paypal.com/x\">paypal.com</a></p>"},
		{"[at paypal.com](https://login.paypal.com/x)", "<p><a href=\"https://login.paypal.com/x\">at paypal.com</a></p>"},
		{"[at paypal.com](https://paypal.com.evil.example/x)", "<p><a href=\"https://paypal.com.evil.example/x\">at paypal.com</a> (https://paypal.com.evil.example/x)</p>"},
		{"[main.go](https://github.com/a/b/main.go)", "<p><a href=\"https://github.com/a/b/main.go\">main.go</a></p>"},
		{"[version 1.2](https://example.com/)", "<p><a href=\"https://example.com/\">version 1.2</a></p>"},
		{"[x](https://www.\u0440aypal.com/)", "<p><a href=\"https://www.xn--aypal-uye.com/\">x</a></p>"},
		{"[www.\u0440aypal.com](https://www.\u0440aypal.com/)", "<p><a href=\"https://www.xn--aypal-uye.com/\">www.xn--aypal-uye.com</a></p>"},
		{"*a* https://www.\u0440aypal.com/", "<p><em>a</em> <a href=\"https://www.xn--aypal-uye.com/\">https://www.xn--aypal-uye.com/</a></p>"},
		{"[x](https://m\u00fcnchen.de/)", "<p><a href=\"https://xn--mnchen-3ya.de/\">x</a></p>"},
		{"[m\u00fcnchen.de](https://m\u00fcnchen.de/)", "<p><a href=\"https://xn--mnchen-3ya.de/\">m\u00fcnchen.de</a></p>"},
		{"[www.m\u00fcnchen.de/a](https://www.m\u00fcnchen.de/a)", "<p><a href=\"https://www.xn--mnchen-3ya.de/a\">www.m\u00fcnchen.de/a</a></p>"},
		{"[\u65e5\u672c\u8a9e.jp](https://\u65e5\u672c\u8a9e.jp/)", "<p><a href=\"https://xn--wgv71a119e.jp/\">\u65e5\u672c\u8a9e.jp</a></p>"},
		{"[example.com](https://example.com/)", "<p><a href=\"https://example.com/\">example.com</a></p>"},
		{"[**b** ![i](http://a/b)](http://c/d)", "<p><a href=\"http://c/d\"><strong>b</strong> [i]</a></p>"},
		{"![a \"cat\"](https://example.com/c.png)", "<p><a href=\"https://example.com/c.png\">[a &#34;cat&#34;]</a></p>"},
		{"![](cid:1) ![x](chart.png)", "<p>[picture] (cid:1) [x] (chart.png)</p>"},
		{`[x](https://a.example/"onclick="y)`, "<p><a href=\"https://a.example/%22onclick=%22y\">x</a></p>"},
		{"[x](https://a.example/ü ß)", ""},
		{"*a* \u202eevil &#x202e;evil &#0; &#27;[2J", "<p><em>a</em> evil evil \ufffd [2J</p>"},
	} {
		page, ok := markdown.HTML(test.text)
		got := ""
		if ok {
			got = bodyOf(page)
		}
		if got != test.want {
			t.Errorf("%q:\n got %q\nwant %q", test.text, got, test.want)
		}
	}
}

// TestPlainTextHasNoPage checks texts without formatting and texts beyond the limits: neither has
// an HTML page.
func TestPlainTextHasNoPage(t *testing.T) {
	for name, text := range map[string]string{
		"empty":           "",
		"one line":        "The build is green.",
		"lines":           "Dear operator,\nall is well.\n\nYours",
		"indented":        "Look:\n\n    make all\n    make test\n",
		"columns":         "NAME  READY\nweb   1/1\ndb    0/1",
		"drawn table":     "+----+----+\n| id | b  |\n+----+----+\n| 1  | x  |\n+----+----+",
		"address":         "See https://example.com/x and <https://example.com/y>, or mail a@example.com.",
		"sums":            "2*3*4 = 24, 2 * 3, 2**8",
		"names":           "snake_case_name, __init__, *.go, ~/x, C:\\new",
		"markup":          "<b>bold</b> & <script>x</script>",
		"log":             "[warn]: x\n12:00:01 *** failed ***x\n[1/2] done_",
		"fields":          "status: ok\ncount: 3\n\nAll done.",
		"too long":        "**x**\n\n" + strings.Repeat("word\n\n", 20_000),
		"too deep":        "**x**\n\n" + strings.Repeat("> ", 60) + "y",
		"too many marks":  strings.Repeat("**a** ", 1000),
		"Gmail clips it":  strings.Repeat("- a\n", 10_000),
		"half character":  "**x** \xff",
		"nested emphasis": strings.Repeat("*a **b ", 30) + strings.Repeat("c** d* ", 30),
	} {
		if page, ok := markdown.HTML(text); ok {
			t.Errorf("%s: %q", name, bodyOf(page))
		}
	}
}

// TestSameTextSamePage checks that the same answer always has the same HTML.
func TestSameTextSamePage(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("testdata", "answer.md"))
	if err != nil {
		t.Fatal(err)
	}
	first, ok := markdown.HTML(string(text))
	if !ok {
		t.Fatal("no HTML")
	}
	for range 20 {
		if page, _ := markdown.HTML(string(text)); page != first {
			t.Fatal("the page has changed")
		}
	}
}
