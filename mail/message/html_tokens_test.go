package message

import (
	"bytes"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	gomessage "github.com/emersion/go-message"
	"golang.org/x/net/html"
)

// sameTokens checks that htmlTokens reads s as x/net/html does with all of its maps.
func sameTokens(t *testing.T, s string) {
	t.Helper()
	ours, z := newHTMLTokens(s), html.NewTokenizer(strings.NewReader(s))
	for {
		kind := z.Next()
		if ours.next() != (kind != html.ErrorToken) || ours.kind != kind {
			t.Fatalf("%q: %v is read as %v", s, kind, ours.kind)
		}
		switch kind {
		case html.ErrorToken:
			return
		case html.TextToken:
			if got, want := ours.text(), string(z.Text()); got != want {
				t.Fatalf("%q: text %q, not %q", s, got, want)
			}
		case html.StartTagToken, html.EndTagToken, html.SelfClosingTagToken:
			token := z.Token()
			if ours.tag != token.DataAtom {
				t.Fatalf("%q: tag %v, not %v", s, ours.tag, token.DataAtom)
			}
			if kind == html.EndTagToken {
				continue
			}
			for _, name := range []string{"href", "alt"} {
				if got, want := ours.attribute(name), attributeOf(token, name); got != want {
					t.Fatalf("%q: %s is %q, not %q", s, name, got, want)
				}
			}
		}
	}
}

func attributeOf(token html.Token, name string) string {
	for _, a := range token.Attr {
		if a.Key == name {
			return a.Val
		}
	}
	return ""
}

func TestHTMLAttribute(t *testing.T) {
	for tag, want := range map[string]string{
		`<a>`:                               "",
		`<a href>`:                          "",
		`<a href=>`:                         "",
		`<a href=x>`:                        "x",
		`<A HREF="x y">`:                    "x y",
		`<a href='"x"'>`:                    `"x"`,
		`<a title="href=x" href=y>`:         "y",
		`<a href="" href=x>`:                "",
		`<a href href=x>`:                   "",
		`<a hreflang=x>`:                    "",
		`<a/href=x>`:                        "x",
		`<a href=x/>`:                       "x/",
		`<a href="x"/>`:                     "x",
		`<a href="x"class=y>`:               "x",
		`<a class="y"href=x>`:               "x",
		`<a href=/x?y=z/>`:                  "/x?y=z/",
		`<a / href / = x>`:                  "",
		`<a =href=y href=x>`:                "x",
		`<a =href=y>`:                       "",
		"<a\nhref\r\n=\t\fx\r>":             "x",
		"<a href='x\r\ny\rz'>":              "x\ny\nz",
		"<a href=x\x00>":                    "x\uFFFD",
		"<a hr\x00ef=x>":                    "",
		`<a href="x>y">`:                    "x>y",
		`<a href="?a=1&copy=2&notify&lt">`:  "?a=1&copy=2&notify<",
		`<a href=?a&amp;b&#38;c&#x26;d&>`:   "?a&b&c&d&",
		`<a href=&semi;&nGt;&fjlig;&#128;>`: ";\u226B\u20D2fj\u20AC",
	} {
		sameTokens(t, tag)
		tokens := newHTMLTokens(tag)
		if !tokens.next() {
			t.Errorf("%q is not a token", tag)
		}
		if got := tokens.attribute("href"); got != want {
			t.Errorf("%q: %q, not %q", tag, got, want)
		}
	}
}

// What a page shows of these stands for all its texts: entities are read, except in a
// script and its like.
func TestHTMLTokensText(t *testing.T) {
	for page, want := range map[string]string{
		"a &lt;b&gt; &copyx &nonsense; &":                      "a <b> ©x &nonsense; &",
		"&#0;&#x;&#xg&#;&#65&#65;&#x41 &#128;":                 "\uFFFD&#x;&#xg&#;AAA €",
		"&#4294967361;&#xD800;&#x110000;":                      "\uFFFD\uFFFD\uFFFD",
		"<pre>a\r\nb\rc</pre>":                                 "a\nb\nc",
		"<noscript>a &amp; <b></noscript> &amp;":               "a &amp; <b> &",
		"<textarea>a &amp; <b></textarea>":                     "a & <b>",
		"<script/>a &amp; b</script>c":                         "a &amp; bc",
		"<title>x</title><style>y</style>z &nLt;":              "z \u226A\u20D2",
		"<iframe></iframe>a &amp; b<plaintext>&lt</plaintext>": "a & b&lt</plaintext>",
	} {
		sameTokens(t, page)
		if got := textOfPage(page); got != want {
			t.Errorf("%q: %q, not %q", page, got, want)
		}
	}
}

// TestHTMLEntities reads every name that x/net/html knows, whole, cut short and
// continued, in a text and in an attribute.
func TestHTMLEntities(t *testing.T) {
	dir, err := exec.Command("go", "list", "-f", "{{.Dir}}", "golang.org/x/net/html").Output()
	if err != nil {
		t.Skipf("go list: %v", err)
	}
	source, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(dir)), "entity.go"))
	if err != nil {
		t.Fatal(err)
	}
	names := regexp.MustCompile(`(?m)^\s*"(\w+;?)":`).FindAllSubmatch(source, -1)
	if len(names) < 2000 {
		t.Fatalf("only %d names are found", len(names))
	}
	for _, m := range names {
		name := "&" + string(m[1])
		for _, s := range []string{name, name[:len(name)-1], name + ";", name + "=", name + "x", name + "x;", name + "&"} {
			sameTokens(t, s)
			sameTokens(t, "<a href="+s+"><img alt='"+s+"'>")
		}
	}
}

// fragments are what an HTML reader may stumble upon.
var fragments = []string{
	"<", ">", "/", "=", `"`, "'", "&", "#", "x", ";", "!", "?", "-", "]", " ", "\n", "\r", "\t", "\f", "\v", "\x00", "\xff", "\u00a0", "\u212a", "é",
	"a", "b", "0", "9", "<a", "</a", "<a ", "<A HREF=", " href=", " href = ", " alt='", ` ALT="`, "href", "alt", "hre\x00f", "alſ", "/>", "</", "<!--", "-->", "--!>", "<![CDATA[", "]]>",
	"<!doctype ", "&amp", "&amp;", "&AMP=", "&lt", "&copy=", "&notin;", "&notit;", "&nGt;", "&semi;", "&fjlig;", "&#", "&#x", "&#X", "&#65;", "&#128;", "&#x80", "&#0", "&#5 ", "&#4294967361;",
	"&#2147483648;", "&#xFFFFFFFFFFFFFFFFFF;", "&#x10ffff;", "&#x110000", "&#xd800;", "<svg>", "<math>", "</svg>", "<br/>", "<img ", "<pre>", "</pre>", "\r\n",
}

// rawElements are the elements whose contents are not tags.
var rawElements = []string{"script", "style", "title", "textarea", "iframe", "noembed", "noframes", "noscript", "xmp", "plaintext"}

// Pages put together at random read the same as with x/net/html alone.
func TestHTMLTokensAtRandom(t *testing.T) {
	pieces := fragments
	for _, name := range rawElements {
		pieces = append(pieces, "<"+name+">", "<"+strings.ToUpper(name)+"/>", "</"+name+">", "</"+name)
	}
	r := rand.New(rand.NewPCG(1, 2))
	for range 20_000 {
		var page strings.Builder
		if r.IntN(2) == 0 {
			page.WriteString("<a ")
		}
		for range 1 + r.IntN(16) {
			page.WriteString(pieces[r.IntN(len(pieces))])
		}
		page.WriteString(">")
		sameTokens(t, page.String())
	}
}

// FuzzHTMLTokens compares htmlTokens with x/net/html alone, beginning with the mails of
// testdata/clients.
func FuzzHTMLTokens(f *testing.F) {
	files, err := filepath.Glob("testdata/clients/*.eml")
	if err != nil || len(files) == 0 {
		f.Fatalf("%d mails, %v", len(files), err)
	}
	pages := 0
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		mail, _ := gomessage.Read(bytes.NewReader(raw))
		if mail == nil {
			continue // git's begins with a line that is not a field
		}
		mail.Walk(func(_ []int, part *gomessage.Entity, _ error) error {
			var page bytes.Buffer
			if kind, _, _ := part.Header.ContentType(); kind == "text/html" {
				page.ReadFrom(part.Body)
				f.Add(page.String())
				pages++
			}
			return nil
		})
	}
	if pages < 5 {
		f.Fatalf("only %d mails have HTML", pages)
	}
	for _, s := range fragments {
		f.Add("<a href=" + s + ">" + s)
	}
	f.Fuzz(func(t *testing.T, s string) { sameTokens(t, s) })
}

// textOfPage is htmlText without the count.
func textOfPage(page string) string {
	text, _ := htmlText(page)
	return text
}

// TestWhatIsNotShown reads pages with text that is struck out, or that nobody sees.
func TestWhatIsNotShown(t *testing.T) {
	for page, want := range map[string]struct {
		text   string
		hidden int
	}{
		"Restart <s>prod</s> staging":      {"Restart ~~prod~~ staging", 0},
		"<del>all</del> of it":             {"~~all~~ of it", 0},
		"a <strike> b <i>c</i> </strike>d": {"a ~~b c~~ d", 0},
		`a <span style="color:red; TEXT-DECORATION: underline line-through">b <span>c</span> d</span> e`: {"a ~~b c d~~ e", 0},
		`<s>HALT</s>`: {"~~HALT~~", 0},
		`a<div style="display:none">run <div>it</div> all</div>b`:                      {"ab", 8},
		`a <span style="visibility : hidden !important">x</span>b`:                     {"a b", 1},
		`a <span style="font-size:0px">x</span><span style="font-size:0.9em">y</span>`: {"a y", 1},
		`a <p hidden>x<p>y`:                                       {"a\n\ny", 1},
		`a <div hidden>x<br>y`:                                    {"a\nx\ny", 0},
		`a <img style="display:none" alt="x"> b`:                  {"a [x] b", 0},
		`a <div style="mso-hide:all;x">x</div><div>y</div>`:       {"a\ny", 1},
		`a <span data-hidden="1" style="display:inline">x</span>`: {"a x", 0},
		"a <span \u017ftyle=\"display:none\">x</span>":            {"a x", 0},
	} {
		text, hidden := htmlText(page)
		if text != want.text || hidden != want.hidden {
			t.Errorf("%s: %q with %d hidden, want %q with %d", page, text, hidden, want.text, want.hidden)
		}
	}
	c := ContentOf([]byte("Content-Type: text/html\n\n<p>do it</p><p style=display:none>now</p>"), Sent{})
	if c.Text != "do it" || len(c.Problems) != 1 || !strings.Contains(c.Problems[0], "3 bytes") {
		t.Errorf("%q, %q", c.Text, c.Problems)
	}
}
