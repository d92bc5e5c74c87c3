package markdown

import (
	"html"
	"strings"
	"unicode"

	"github.com/yuin/goldmark/ast"
	extast "github.com/yuin/goldmark/extension/ast"
	"github.com/yuin/goldmark/util"

	"agentstateloop/internal/plain"
)

func (w *writer) inlines(parent ast.Node) {
	if !w.nested() {
		return
	}
	for n := parent.FirstChild(); n != nil; n = n.NextSibling() {
		w.inline(n)
	}
	w.depth--
}

func (w *writer) inline(n ast.Node) {
	switch n := n.(type) {
	case *ast.Text:
		w.text(n)
	case *ast.CodeSpan:
		w.tag("<code" + codeSpanStyle + ">")
		w.out.WriteString(html.EscapeString(w.codeSpan(n)))
		w.out.WriteString("</code>")
	case *ast.Emphasis:
		w.emphasis(n)
	case *extast.Strikethrough:
		w.wrapped(n, "del")
	case *ast.Link:
		w.link(string(n.Destination), n)
	case *ast.Image:
		w.image(n)
	case *ast.AutoLink:
		w.autoLink(n)
	}
}

func (w *writer) wrapped(n ast.Node, tag string) {
	w.tag("<" + tag + ">")
	w.inlines(n)
	w.out.WriteString("</" + tag + ">")
}

// text writes a piece of text and the line end after it. It keeps the indentation of a line.
func (w *writer) text(n *ast.Text) {
	raw := n.Segment.Value(w.src)
	skipped := min(w.skip, len(raw))
	raw, w.skip = raw[skipped:], w.skip-skipped
	if n.Parent().Kind() == ast.KindParagraph && n.Parent().Parent().Kind() == ast.KindDocument {
		w.out.WriteString(strings.Repeat("&nbsp;", w.indent(n)))
	}
	said := html.EscapeString(unescaped(raw))
	if w.inCell {
		said = lineBreaks.Replace(said) // the only way to break a line in a cell
	}
	w.out.WriteString(said)
	if n.SoftLineBreak() || n.HardLineBreak() {
		w.out.WriteString("<br>\n")
	}
}

var lineBreaks = strings.NewReplacer("&lt;br&gt;", "<br>", "&lt;br/&gt;", "<br>", "&lt;br /&gt;", "<br>", "&lt;BR&gt;", "<br>")

// maxIndent is the maximum number of blanks kept at the beginning of a line.
const maxIndent = 20

// indent returns the number of blanks before a text that begins a line, at most maxIndent. It
// returns 0 for other text.
func (w *writer) indent(n *ast.Text) int {
	start := n.Segment.Start
	for start > 0 && w.src[start-1] == ' ' {
		start--
	}
	if start > 0 && w.src[start-1] != '\n' {
		return 0
	}
	return min(n.Segment.Start-start, maxIndent)
}

func (w *writer) codeSpan(n *ast.CodeSpan) string {
	var b strings.Builder
	for c := n.FirstChild(); c != nil; c = c.NextSibling() {
		if t, ok := c.(*ast.Text); ok {
			b.Write(t.Segment.Value(w.src))
		}
	}
	said := strings.ReplaceAll(b.String(), "\n", " ")
	if w.inCell {
		said = strings.ReplaceAll(said, `\|`, "|")
	}
	return said
}

// emphasis writes *text* and **text**. It leaves the marks of a sum or a name as they are:
// 2*3*4, __init__.
func (w *writer) emphasis(n *ast.Emphasis) {
	tag := "em"
	if n.Level == 2 {
		tag = "strong"
	}
	first, isText := n.FirstChild().(*ast.Text)
	last, endsInText := n.LastChild().(*ast.Text)
	if !isText || !endsInText || first.Segment.Start < n.Level || last.Segment.Stop+n.Level > len(w.src) {
		w.wrapped(n, tag)
		return
	}
	start, stop := first.Segment.Start-n.Level, last.Segment.Stop+n.Level
	mark := string(w.src[start:first.Segment.Start])
	within := start > 0 && stop < len(w.src) && isWordASCII(w.src[start-1]) && isWordASCII(w.src[stop])
	if !within && !(mark == "__" && isName(first.Segment.Value(w.src)) && first == last) {
		w.wrapped(n, tag)
		return
	}
	w.out.WriteString(mark)
	w.inlines(n)
	w.out.WriteString(mark)
}

func isWordASCII(b byte) bool { return b < 0x80 && isWord(b) }

// isName reports whether text may be the name of a program without its underscores.
func isName(text []byte) bool {
	for _, b := range text {
		if !isWordASCII(b) && b != '_' {
			return false
		}
	}
	return len(text) > 0
}

// maxReference is the maximum length of a character reference, in bytes without its semicolon.
const maxReference = 40

// unescaped returns a text without its backslashes and with its character references resolved.
// It does both in one pass, so the output of one is not the input of the other.
func unescaped(raw []byte) string {
	var b strings.Builder
	for i := 0; i < len(raw); i++ {
		switch c := raw[i]; {
		case c == '\\' && i+1 < len(raw) && util.IsPunct(raw[i+1]):
			i++
			b.WriteByte(raw[i])
		case c == '&':
			n := 1
			for n < maxReference && i+n < len(raw) && raw[i+n] != ';' {
				n++
			}
			if i+n < len(raw) && raw[i+n] == ';' {
				ref := string(raw[i : i+n+1])
				if char := html.UnescapeString(ref); char != ref && !strings.HasSuffix(char, ";") {
					b.WriteString(char)
					i += n
					continue
				}
			}
			b.WriteByte(c)
		default:
			b.WriteByte(c)
		}
	}
	return strings.Map(shown, plain.Text(b.String()))
}

// shown drops characters that change the direction of the text after them. A character
// reference may have produced one.
func shown(r rune) rune {
	if unicode.Is(unicode.Bidi_Control, r) && r != '\u200e' && r != '\u200f' && r != '\u061c' {
		return -1
	}
	return r
}
