package markdown

import (
	"html"
	"net/url"
	"path"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/yuin/goldmark/ast"
	"golang.org/x/net/idna"

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
		if host := u.Hostname(); strings.ContainsFunc(host, func(r rune) bool { return r >= 0x80 }) {
			u.Host = strings.Replace(u.Host, host, punycode(dotted(host)), 1)
		}
	case u.Scheme == "mailto" && strings.Contains(u.Opaque, "@"):
	default:
		return "", false
	}
	return html.EscapeString(u.String()), true
}

// link writes a link. A target that a mail program cannot open is shown in parentheses after the
// text. So is the target of a link whose text names another address.
func (w *writer) link(n *ast.Link) element {
	destination := string(n.Destination)
	href, ok := address(destination)
	if !ok {
		return element{close: inParentheses(destination)}
	}
	e := w.tag(linkTag(href), "</a>")
	label := w.plainText(n)
	if clear := withoutMixedHosts(label); clear != label {
		e.open, e.whole = e.open+html.EscapeString(clear), true
	}
	to := html.UnescapeString(href)
	if looksLikeAddress(label) && !sameAddress(inASCII(label), to) || namesAnotherHost(label, to) {
		e.close += inParentheses(destination)
	}
	return e
}

func linkTag(href string) string { return `<a href="` + href + `" rel="noopener noreferrer">` }

// namesAnotherHost reports whether a word of a link's text is a host other than that of its
// target. The file name of the target does not count.
func namesAnotherHost(text, to string) bool {
	u, err := url.Parse(to)
	if err != nil {
		return false
	}
	host := hostOf(to)
	for word := range strings.FieldsSeq(text) {
		if named := hostOf(word); named != "" && named != host && !strings.HasSuffix(host, "."+named) && path.Base(u.Path) != word {
			return true
		}
	}
	return false
}

// inParentheses returns an address as text, in parentheses.
func inParentheses(destination string) string {
	destination = withoutMixedHosts(plain.Line(unescaped([]byte(destination))))
	if destination == "" {
		return ""
	}
	return " (" + html.EscapeString(plain.Shorten(destination, maxShownAddress)) + ")"
}

// image writes the description of a picture, and links to it. No mail program is to fetch it.
func (w *writer) image(n *ast.Image) element {
	href, ok := address(string(n.Destination))
	description := plain.Line(w.plainText(n))
	if description == "" {
		description = "picture"
	}
	description = "[" + html.EscapeString(description) + "]"
	switch {
	case !ok:
		description += inParentheses(string(n.Destination))
		w.formatted = true
	case !within(n, ast.KindLink): // a link cannot contain another
		description = linkTag(href) + description + "</a>"
		w.formatted = true
	}
	return element{open: description, whole: true}
}

// autoLink writes an address in the text. A mail program makes a link of it in
// plain text as well, so the page shows no more.
func (w *writer) autoLink(n *ast.AutoLink) element {
	label := string(n.Label(w.src))
	destination := label
	if n.AutoLinkType == ast.AutoLinkEmail && !strings.HasPrefix(strings.ToLower(label), "mailto:") {
		destination = "mailto:" + label
	}
	href, ok := address(destination)
	if !ok || within(n, ast.KindLink) {
		return element{open: html.EscapeString(label)}
	}
	return element{open: linkTag(href) + html.EscapeString(withoutMixedHosts(label)) + "</a>"}
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
func looksLikeAddress(text string) bool {
	text = strings.TrimSpace(text)
	if strings.ContainsAny(text, " \t\n") {
		return strings.Contains(text, "://")
	}
	return strings.Contains(text, "://") || strings.HasPrefix(strings.ToLower(text), "www.") || strings.Count(text, "@") == 1 && strings.Contains(text, ".")
}

// sameAddress reports whether the text of a link is its target, ignoring the parts that people
// leave out.
func sameAddress(text, href string) bool {
	bare := func(s string) string {
		s = strings.ToLower(strings.TrimSpace(s))
		for _, scheme := range []string{"https://", "http://", "mailto:", "www."} {
			s = strings.TrimPrefix(s, scheme)
		}
		return strings.TrimSuffix(s, "/")
	}
	if u, err := url.Parse(strings.TrimSpace(text)); err == nil && u.Scheme != "" {
		text = u.String()
	}
	return bare(text) == bare(href)
}

// hostOf returns the host that a reader sees in a word, in the form of the DNS, or "". It finds
// one in "example.com", "https://example.com/a" and "ann@example.com". Every character that
// browsers treat as a dot counts as one.
func hostOf(word string) string {
	host := authority(word)
	labels := strings.Split(host, ".")
	last := labels[len(labels)-1]
	if len(labels) < 2 || utf8.RuneCountInString(last) < minTopLevel || !strings.ContainsFunc(last, unicode.IsLetter) {
		return ""
	}
	for _, l := range labels {
		if l == "" || strings.ContainsFunc(l, func(r rune) bool {
			return r != '-' && r != '_' && !unicode.IsLetter(r) && !unicode.IsDigit(r) && !unicode.IsMark(r)
		}) {
			return ""
		}
	}
	return strings.TrimPrefix(punycode(host), "www.")
}

// minTopLevel is the minimum number of characters in the last label of a host.
const minTopLevel = 2

// authority returns the part of a word that may be a host, as written.
func authority(word string) string {
	word = strings.Trim(dotted(word), `"'()<>[]{},;:!?.`)
	if _, rest, ok := strings.Cut(word, "://"); ok {
		word = rest
	}
	if i := strings.IndexAny(word, "/?#\\"); i >= 0 {
		word = word[:i]
	}
	word = word[strings.LastIndexByte(word, '@')+1:]
	if i := strings.LastIndexByte(word, ':'); i >= 0 {
		word = word[:i]
	}
	return word
}

// dotted returns s without invisible characters, and with an ASCII dot for every character that
// ends a label of a host.
func dotted(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\u3002' || r == '\uff0e' || r == '\uff61':
			return '.'
		case unicode.Is(unicode.Cf, r):
			return -1
		}
		return r
	}, s)
}

// punycode returns a host in the form of the DNS, in lower case.
func punycode(host string) string {
	if ascii, err := idna.Lookup.ToASCII(host); err == nil {
		return ascii
	}
	if ascii, err := idna.Punycode.ToASCII(strings.ToLower(host)); err == nil {
		return ascii
	}
	return strings.ToLower(host)
}

// mixesScripts reports whether a host may be mistaken for another one: a label mixes the
// letters of several scripts, or a Latin domain has a label in a script whose letters look
// Latin.
func mixesScripts(host string) bool {
	labels := strings.Split(dotted(host), ".")
	latin := scriptsOf(labels[len(labels)-1])["Latin"]
	for _, l := range labels {
		scripts := scriptsOf(l)
		for _, asian := range []string{"Han", "Hiragana", "Katakana", "Hangul", "Bopomofo"} {
			if scripts[asian] { // scripts that are mixed with one another, and with Latin
				delete(scripts, asian)
				delete(scripts, "Latin")
			}
		}
		if len(scripts) > 1 || latin && (scripts["Cyrillic"] || scripts["Greek"] || scripts["Armenian"] || scripts["Cherokee"]) {
			return true
		}
	}
	return false
}

// scriptsOf returns the scripts of the letters in s.
func scriptsOf(s string) map[string]bool {
	scripts := map[string]bool{}
	for _, r := range s {
		if !unicode.IsLetter(r) {
			continue
		}
		for name, table := range unicode.Scripts {
			if unicode.Is(table, r) {
				scripts[name] = true
			}
		}
	}
	return scripts
}

// withoutMixedHosts returns a text with each host that mixes scripts in the form of the DNS.
func withoutMixedHosts(text string) string {
	for word := range strings.FieldsSeq(text) {
		if hostOf(word) != "" && mixesScripts(authority(word)) {
			text = strings.Replace(text, word, inASCII(word), 1)
		}
	}
	return text
}

// inASCII returns an address with its host in the form of the DNS.
func inASCII(address string) string {
	host := authority(address)
	return strings.Replace(dotted(address), host, punycode(host), 1)
}
