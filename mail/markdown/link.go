package markdown

import (
	"html"
	"net/url"
	"path"
	"strings"
	"unicode"

	"github.com/yuin/goldmark/ast"

	"agentstateloop/internal/plain"
)

// maxAddress is the maximum length of the target of a link, in bytes.
const maxAddress = 2000

// maxShownAddress is the maximum number of characters of an address shown as text.
const maxShownAddress = 200

// address returns the target of a link, escaped for HTML. ok is false unless the target is an
// http, https or mailto address that a person can check. A name in front of the host, as in
// https://bank.example@evil.example, is meant to deceive.
func address(destination string) (href string, ok bool) {
	destination = unescaped([]byte(destination))
	if len(destination) > maxAddress || strings.ContainsFunc(destination, func(r rune) bool { return unicode.IsControl(r) || unicode.IsSpace(r) }) {
		return "", false
	}
	u, err := url.Parse(destination)
	if err != nil {
		return "", false
	}
	switch {
	case (u.Scheme == "http" || u.Scheme == "https") && u.Host != "" && u.Opaque == "" && u.User == nil:
		toASCII(u)
	case u.Scheme == "mailto" && strings.Contains(u.Opaque, "@"):
	default:
		return "", false
	}
	return html.EscapeString(u.String()), true
}

// link writes a link. If a mail must not link to the target, it writes only the text of the
// link and the target as text. It also shows the target if the text of the link is another
// address.
func (w *writer) link(destination string, n ast.Node) {
	href, ok := address(destination)
	if !ok {
		w.inlines(n)
		w.aside(destination)
		return
	}
	w.tag(`<a href="` + href + `"` + linkStyle + ">")
	said := w.plainText(n)
	if clear := withoutMixedHosts(said); clear != said {
		w.out.WriteString(html.EscapeString(clear))
	} else {
		w.inlines(n)
	}
	w.out.WriteString("</a>")
	to := html.UnescapeString(href)
	if looksLikeAddress(said) && !sameAddress(inASCII(said), to) || namesAnotherHost(said, to) {
		w.aside(destination)
	}
}

// namesAnotherHost reports whether a word of a link's text is a host other than that of its
// target. The file name of the target does not count.
func namesAnotherHost(said, to string) bool {
	u, err := url.Parse(to)
	if err != nil {
		return false
	}
	host := hostOf(to)
	for word := range strings.FieldsSeq(said) {
		if named := hostOf(word); named != "" && named != host && !strings.HasSuffix(host, "."+named) && path.Base(u.Path) != word {
			return true
		}
	}
	return false
}

// aside writes an address as text.
func (w *writer) aside(destination string) {
	if destination = withoutMixedHosts(plain.Line(unescaped([]byte(destination)))); destination != "" {
		w.out.WriteString(" (" + html.EscapeString(plain.Shorten(destination, maxShownAddress)) + ")")
	}
}

// image writes the description of a picture and links to it. No mail program is to fetch the
// picture.
func (w *writer) image(n *ast.Image) {
	href, ok := address(string(n.Destination))
	said := html.EscapeString(plain.Line(w.plainText(n)))
	if said == "" {
		said = "picture"
	}
	if !ok {
		w.formatted = true
		w.out.WriteString("[" + said + "]")
		w.aside(string(n.Destination))
		return
	}
	if inLink(n) { // a link cannot contain another
		w.out.WriteString("[" + said + "]")
		return
	}
	w.tag(`<a href="` + href + `"` + linkStyle + ">[" + said + "]</a>")
}

// autoLink writes an address in running text. Mail programs turn it into a link in plain text
// as well, so it does not count as formatting.
func (w *writer) autoLink(n *ast.AutoLink) {
	said := string(n.Label(w.src))
	destination := said
	if n.AutoLinkType == ast.AutoLinkEmail && !strings.HasPrefix(strings.ToLower(said), "mailto:") {
		destination = "mailto:" + said
	}
	href, ok := address(destination)
	if !ok || inLink(n) {
		w.out.WriteString(html.EscapeString(said))
		return
	}
	w.out.WriteString(`<a href="` + href + `"` + linkStyle + ">" + html.EscapeString(withoutMixedHosts(said)) + "</a>")
}

func inLink(n ast.Node) bool {
	for p := n.Parent(); p != nil; p = p.Parent() {
		if p.Kind() == ast.KindLink {
			return true
		}
	}
	return false
}

// plainText returns the text of a node and its children.
func (w *writer) plainText(n ast.Node) string {
	var b strings.Builder
	for c := n.FirstChild(); c != nil && b.Len() < maxAddress; c = c.NextSibling() {
		switch c := c.(type) {
		case *ast.Text:
			b.WriteString(unescaped(c.Segment.Value(w.src)))
			if c.SoftLineBreak() || c.HardLineBreak() {
				b.WriteByte(' ')
			}
		case *ast.AutoLink:
			b.Write(c.Label(w.src))
		default:
			b.WriteString(w.plainText(c))
		}
	}
	return b.String()
}

// looksLikeAddress reports whether a reader takes the text of a link for its target.
func looksLikeAddress(said string) bool {
	said = strings.TrimSpace(said)
	if strings.ContainsAny(said, " \t\n") {
		return strings.Contains(said, "://")
	}
	return strings.Contains(said, "://") || strings.HasPrefix(strings.ToLower(said), "www.") || strings.Count(said, "@") == 1 && strings.Contains(said, ".")
}

// sameAddress reports whether the text of a link is its target, ignoring the parts that people
// leave out.
func sameAddress(said, href string) bool {
	bare := func(s string) string {
		s = strings.ToLower(strings.TrimSpace(s))
		for _, scheme := range []string{"https://", "http://", "mailto:", "www."} {
			s = strings.TrimPrefix(s, scheme)
		}
		return strings.TrimSuffix(s, "/")
	}
	if u, err := url.Parse(strings.TrimSpace(said)); err == nil && u.Scheme != "" {
		said = u.String()
	}
	return bare(said) == bare(href)
}
