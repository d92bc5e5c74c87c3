package message

import (
	"html"
	"strconv"
	"strings"

	tokenizer "golang.org/x/net/html"
	"golang.org/x/net/html/atom"
)

// htmlTokens reads the tags and texts of an HTML mail. x/net/html decides where each begins and
// ends. Their content is read here, with the same result: a program that calls Text, TagAttr or
// Token builds the library's map of entities at each start
// (docs/decisions/0060-start-up-cost.md). The numbers below are sections of
// html.spec.whatwg.org.
type htmlTokens struct {
	z    *tokenizer.Tokenizer
	kind tokenizer.TokenType
	tag  atom.Atom // the name of the tag, or 0
	last atom.Atom // the name of the start tag right before, or 0
}

// newHTMLTokens returns the tokens of s. It converts each line end to \n (13.2.3.5).
func newHTMLTokens(s string) *htmlTokens {
	s = strings.ReplaceAll(strings.ReplaceAll(s, "\r\n", "\n"), "\r", "\n")
	return &htmlTokens{z: tokenizer.NewTokenizer(strings.NewReader(s))}
}

// next moves to the next token, and reports whether there is one.
func (t *htmlTokens) next() bool {
	t.last = t.tag
	if t.kind == tokenizer.EndTagToken {
		t.last = 0
	}
	t.kind = t.z.Next()
	name, _ := t.z.TagName()
	t.tag = atom.Lookup(name)
	return t.kind != tokenizer.ErrorToken
}

// text returns the text of the token, with entities replaced. A script and similar elements
// have no entities.
func (t *htmlTokens) text() string {
	s := string(t.z.Raw())
	switch t.last {
	case atom.Iframe, atom.Noembed, atom.Noframes, atom.Noscript, atom.Plaintext, atom.Script, atom.Style, atom.Xmp:
		return withoutNUL(s)
	case atom.Textarea, atom.Title:
		return unescapeHTML(withoutNUL(s), false)
	}
	return unescapeHTML(s, false)
}

const htmlSpace = " \n\t\f"

// attribute returns the value of the first attribute of the start tag with this name, or "".
func (t *htmlTokens) attribute(name string) string {
	value, _ := t.findAttribute(name)
	return value
}

// findAttribute returns the value of the first attribute with this name, which is in lower
// case. ok is false without such an attribute.
func (t *htmlTokens) findAttribute(name string) (value string, ok bool) {
	tag := strings.TrimSuffix(string(t.z.Raw()), ">")
	_, rest := cutBefore(tag, htmlSpace+"/")
	for {
		rest = strings.TrimLeft(rest, htmlSpace+"/")
		if rest == "" {
			return "", false
		}
		key, after := cutBefore(rest[1:], htmlSpace+"/=") // a name may begin with =
		key = rest[:1+len(key)]
		value := ""
		rest = strings.TrimLeft(after, htmlSpace)
		if assigned, ok := strings.CutPrefix(rest, "="); ok {
			value, rest = attributeValue(strings.TrimLeft(assigned, htmlSpace))
		}
		if Lower(key) == name {
			return unescapeHTML(withoutNUL(value), true), true
		}
	}
}

// attributeValue returns the value at the beginning of s, in quotes or up to a blank, and the
// rest of s.
func attributeValue(s string) (value, rest string) {
	if s == "" || s[0] != '"' && s[0] != '\'' {
		return cutBefore(s, htmlSpace)
	}
	value, rest, _ = strings.Cut(s[1:], s[:1])
	return value, rest
}

// cutBefore cuts s before the first of chars in it.
func cutBefore(s, chars string) (before, rest string) {
	i := strings.IndexAny(s, chars)
	if i < 0 {
		return s, ""
	}
	return s[:i], s[i:]
}

func withoutNUL(s string) string { return strings.ReplaceAll(s, "\x00", "\uFFFD") }

// unescapeHTML replaces the character references in s, which is a text or the value
// of an attribute (13.2.5.72).
func unescapeHTML(s string, attribute bool) string {
	var out strings.Builder
	for {
		text, rest := cutBefore(s, "&")
		out.WriteString(text)
		switch {
		case rest == "":
			return out.String()
		case strings.HasPrefix(rest, "&#"):
			text, s = numericReference(rest)
		default:
			text, s = namedReference(rest, attribute)
		}
		out.WriteString(text)
	}
}

// namedReference returns the characters of the named reference at the beginning of s, and the
// rest of s. An unknown name stays unchanged. In an attribute the parameters of an address stay
// unchanged as well: &copy=1, &notify.
func namedReference(s string, attribute bool) (text, rest string) {
	rest = strings.TrimLeftFunc(s[1:], func(r rune) bool {
		return 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9'
	})
	parameter := attribute && strings.HasPrefix(rest, "=")
	rest = strings.TrimPrefix(rest, ";")
	name := s[:len(s)-len(rest)]
	if parameter || name == "&" {
		return name, rest
	}
	switch name {
	case "&nLt;": // html lacks the two that are longer than their names
		return "\u226A\u20D2", rest
	case "&nGt;":
		return "\u226B\u20D2", rest
	}
	text = html.UnescapeString(name)
	if attribute && len(text) > 1 && text[len(text)-1] == name[len(name)-1] {
		return name, rest // only its beginning is a name, and text has the rest
	}
	return text, rest
}

// numericReference returns the character whose number is at the beginning of s, and the rest of
// s. Without a number it returns the ampersand.
func numericReference(s string) (text, rest string) {
	number, base, valid := s[len("&#"):], 10, "0123456789"
	if strings.HasPrefix(strings.ToLower(s[:min(3, len(s))]), "&#x") {
		number, base, valid = s[len("&#x"):], 16, "0123456789ABCDEFabcdef"
	}
	rest = strings.TrimLeft(number, valid)
	number = number[:len(number)-len(rest)]
	if number == "" {
		return s[:1], s[1:]
	}
	n, _ := strconv.ParseInt(number, base, 32) // the maximum if it is greater
	return html.UnescapeString("&#" + strconv.FormatInt(n, 10) + ";"), strings.TrimPrefix(rest, ";")
}
