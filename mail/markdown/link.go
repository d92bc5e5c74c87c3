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

// maxAddress is the longest address, in bytes, to which there is a link.
const maxAddress = 2000

// maxShownAddress is how many characters of an address are shown as text.
const maxShownAddress = 200

// address returns where a link leads, as it stands in HTML, and false if nothing may lead
// there: only http, https and mailto addresses that a person can check. A name in front
// of the host, as in https://bank.example@evil.example, is there to deceive.
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

// link writes a link. What leads nowhere from a mail is shown as text, with the address.
// So is a link whose text is an address other than where it leads.
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

// namesAnotherHost reports whether a word of a link's text is a host to which the link does
// not lead. The name of the file to which it leads is not one.
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

// image writes what a picture shows, and links to it. No mail program is to fetch it.
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
	if inLink(n) { // which cannot hold another
		w.out.WriteString("[" + said + "]")
		return
	}
	w.tag(`<a href="` + href + `"` + linkStyle + ">[" + said + "]</a>")
}

// autoLink writes an address that stands in the text. A mail program makes a link of it in
// plain text as well, so the page shows nothing new.
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

// plainText returns the text in a node.
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

// looksLikeAddress reports whether a reader takes a text for the place to which a link
// leads.
func looksLikeAddress(said string) bool {
	said = strings.TrimSpace(said)
	if strings.ContainsAny(said, " \t\n") {
		return strings.Contains(said, "://")
	}
	return strings.Contains(said, "://") || strings.HasPrefix(strings.ToLower(said), "www.") || strings.Count(said, "@") == 1 && strings.Contains(said, ".")
}

// sameAddress reports whether a text is the address of its link, but for what people
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
