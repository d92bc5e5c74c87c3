// Package markdown renders the HTML part of an answer from its Markdown text, as a page for a
// phone (docs/decisions/0042-formatted-mail-and-file-names.md).
//
// Goldmark reads the text. We write the HTML ourselves, so it holds only the tags,
// attributes and styles in this package. Everything else is escaped text. A mail program
// fetches no address to show a page.
package markdown

import (
	"bufio"
	"bytes"
	"fmt"
	"html"
	"strings"
	"unicode"

	"github.com/yuin/goldmark/ast"
	extast "github.com/yuin/goldmark/extension/ast"
	render "github.com/yuin/goldmark/renderer/html"

	"agentstateloop/internal/plain"
)

// The limits of HTML. A text beyond them is sent without HTML.
const (
	MaxText   = 64 << 10 // bytes
	maxDepth  = 20       // nodes within one another
	maxPage   = 100_000  // bytes: Gmail shows no more than 102 KB of a mail
	maxIndent = 20       // blanks that stay at the beginning of a line
)

// HTML returns a text in Markdown as a page of HTML. The same text gives the same page. It
// returns false for a text of plain paragraphs, of which a page would show no more than the
// text itself. It also returns false for a text that is longer or nested deeper than anybody
// reads, and for one that is not UTF-8.
func HTML(text string) (page string, ok bool) {
	if len(text) > MaxText || !readable(text) {
		return "", false
	}
	src := []byte(plain.Text(text))
	w := writer{src: src}
	w.out.WriteString(pageHead)
	w.node(parse(src))
	w.out.WriteString(pageFoot)
	if !w.formatted || w.overLimit || w.out.Len() > maxPage {
		return "", false
	}
	return w.out.String(), true
}

// writer writes the nodes of a document as HTML.
type writer struct {
	src       []byte
	out       strings.Builder
	depth     int
	skip      int  // bytes of text already written in another form
	formatted bool // the page shows something that the text does not
	overLimit bool // a limit was exceeded
}

// element is the HTML of a node, around that of its children.
type element struct {
	open, close string
	whole       bool // open has the children, too
}

func (w *writer) node(n ast.Node) {
	e := w.element(n)
	w.out.WriteString(e.open)
	if n.HasChildren() && !e.whole {
		if w.depth++; w.depth > maxDepth || w.out.Len() > maxPage {
			w.overLimit = true
			return
		}
		for c := n.FirstChild(); c != nil && !w.overLimit; c = c.NextSibling() {
			w.node(c)
		}
		w.depth--
	}
	w.out.WriteString(e.close)
}

func (w *writer) element(n ast.Node) element {
	switch n := n.(type) {
	case *ast.Paragraph:
		return w.paragraph(n)
	case *ast.Heading:
		return w.heading(n)
	case *ast.ThematicBreak:
		return w.tag("<hr"+hrStyle+">\n", "")
	case *ast.Blockquote:
		return w.tag("<blockquote"+quoteStyle+">\n", "</blockquote>\n")
	case *ast.List:
		return w.list(n)
	case *ast.ListItem:
		return w.item(n)
	case *ast.FencedCodeBlock:
		return w.tag(code(string(n.Lines().Value(w.src))), "")
	case *ast.CodeBlock: // not formatted: it may be text that is merely indented
		return element{open: code(strings.TrimRight(string(n.Lines().Value(w.src)), "\n"))}
	case *extast.Table:
		return w.tag("<div"+scrollStyle+"><table"+tableStyle+">\n", "</table></div>\n")
	case *extast.TableHeader, *extast.TableRow:
		return element{open: "<tr>", close: "</tr>\n"}
	case *extast.TableCell:
		return w.cell(n)
	case *ast.Text:
		return element{open: w.text(n)}
	case *ast.CodeSpan:
		e := w.tag("<code"+codeSpanStyle+">"+html.EscapeString(w.codeSpan(n))+"</code>", "")
		e.whole = true
		return e
	case *ast.Emphasis:
		return w.emphasis(n)
	case *extast.Strikethrough:
		return w.tag("<del>", "</del>")
	case *ast.Link:
		return w.link(n)
	case *ast.Image:
		return w.image(n)
	case *ast.AutoLink:
		return w.autoLink(n)
	}
	return element{}
}

// tag returns an element that shows something.
func (w *writer) tag(open, close string) element {
	w.formatted = true
	return element{open: open, close: close}
}

// paragraph keeps the line ends of the agent. If blanks align columns, it keeps the blanks too.
func (w *writer) paragraph(n *ast.Paragraph) element {
	if n.Parent().Kind() == ast.KindDocument {
		if lines := w.wholeLines(n); aligned(lines) {
			return element{open: code(lines), whole: true}
		}
	}
	return element{open: paragraphTag, close: "</p>\n"}
}

// wholeLines returns the lines of a paragraph with their indentation.
func (w *writer) wholeLines(n ast.Node) string {
	var b strings.Builder
	for i := range n.Lines().Len() {
		at := n.Lines().At(i)
		for at.Start > 0 && (w.src[at.Start-1] == ' ' || w.src[at.Start-1] == '\t') {
			at.Start--
		}
		b.Write(w.src[at.Start:at.Stop])
	}
	return strings.TrimRight(b.String(), "\n")
}

func (w *writer) heading(n *ast.Heading) element {
	if n.Lines().Len() > 1 { // a paragraph above a line of dashes
		return w.tag(paragraphTag, "</p>\n<hr"+hrStyle+">\n")
	}
	return w.tag(fmt.Sprintf(`<h%d dir="auto"%s>`, n.Level, headingStyle[n.Level-1]), fmt.Sprintf("</h%d>\n", n.Level))
}

func (w *writer) list(n *ast.List) element {
	kind, start, style := "ul", "", listStyle
	if n.IsOrdered() {
		kind = "ol"
		if n.Start != 1 {
			start = fmt.Sprintf(` start="%d"`, n.Start)
		}
	}
	if n.Parent().Kind() == ast.KindListItem {
		style = nestedStyle
	}
	return w.tag("<"+kind+start+style+">\n", "</"+kind+">\n")
}

// item writes the box of an item of a task list as a character.
func (w *writer) item(n *ast.ListItem) element {
	line := ""
	if first := n.FirstChild(); first != nil && (first.Kind() == ast.KindTextBlock || first.Kind() == ast.KindParagraph) {
		line = string(first.Lines().Value(w.src))
	}
	style, box := taskStyle, ""
	switch {
	case strings.HasPrefix(line, "[ ] "):
		box = "☐"
	case strings.HasPrefix(line, "[x] "), strings.HasPrefix(line, "[X] "):
		box = "☑"
	default:
		style = itemStyle
	}
	if box != "" {
		w.skip = len("[ ]")
	}
	return element{open: `<li dir="auto"` + style + ">" + box, close: "</li>\n"}
}

func (w *writer) cell(n *extast.TableCell) element {
	tag, align := "td", n.Alignment
	if n.Parent().Kind() == extast.KindTableHeader {
		tag = "th"
		if align == extast.AlignNone {
			align = extast.AlignLeft // headings are centered by default
		}
	}
	open := "<" + tag // A cell has no more than it needs: there may be hundreds.
	if align != extast.AlignNone {
		open += ` align="` + align.String() + `"`
	}
	if strings.ContainsFunc(w.plainText(n), func(r rune) bool { return r >= 0x80 }) {
		open += ` dir="auto"`
	}
	return element{open: open + ">", close: "</" + tag + ">"}
}

// code returns lines as they are. Lines that are columns do not wrap, but scroll.
func code(lines string) string {
	style := codeStyle
	if aligned(lines) {
		style = columnsStyle
	}
	if strings.HasPrefix(lines, "\n") {
		lines = "\n" + lines // HTML parsers drop the first line end
	}
	return "<pre" + style + ">" + html.EscapeString(strings.TrimSuffix(lines, "\n")) + "</pre>\n"
}

// text returns a piece of text, and the line end behind it. The blanks at the beginning of
// a line stay.
func (w *writer) text(n *ast.Text) string {
	raw := n.Value(w.src)
	skipped := min(w.skip, len(raw))
	raw, w.skip = raw[skipped:], w.skip-skipped
	escaped := html.EscapeString(unescaped(raw))
	if within(n, extast.KindTableCell) {
		escaped = lineBreaks.Replace(escaped) // the only way to break a line in a cell
	}
	if n.Parent().Kind() == ast.KindParagraph && n.Parent().Parent().Kind() == ast.KindDocument {
		escaped = strings.Repeat("&nbsp;", w.indent(n)) + escaped
	}
	if n.SoftLineBreak() || n.HardLineBreak() {
		escaped += "<br>\n"
	}
	return escaped
}

var lineBreaks = strings.NewReplacer("&lt;br&gt;", "<br>", "&lt;br/&gt;", "<br>", "&lt;br /&gt;", "<br>", "&lt;BR&gt;", "<br>")

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
			b.Write(t.Value(w.src))
		}
	}
	content := strings.ReplaceAll(b.String(), "\n", " ")
	if within(n, extast.KindTableCell) {
		content = strings.ReplaceAll(content, `\|`, "|")
	}
	return content
}

// within reports whether a node of this kind holds n.
func within(n ast.Node, kind ast.NodeKind) bool {
	for p := n.Parent(); p != nil; p = p.Parent() {
		if p.Kind() == kind {
			return true
		}
	}
	return false
}

// emphasis writes *text* and **text**. It leaves the marks of a sum or a name as they are:
// 2*3*4, __init__.
func (w *writer) emphasis(n *ast.Emphasis) element {
	tag := "em"
	if n.Level == 2 {
		tag = "strong"
	}
	first, isText := n.FirstChild().(*ast.Text)
	last, endsInText := n.LastChild().(*ast.Text)
	if !isText || !endsInText || first.Segment.Start < n.Level || last.Segment.Stop+n.Level > len(w.src) {
		return w.tag("<"+tag+">", "</"+tag+">")
	}
	start, stop := first.Segment.Start-n.Level, last.Segment.Stop+n.Level
	mark := string(w.src[start:first.Segment.Start])
	sum := start > 0 && stop < len(w.src) && isWordASCII(w.src[start-1]) && isWordASCII(w.src[stop])
	name := mark == "__" && first == last && isName(first.Value(w.src))
	if sum || name {
		return element{open: mark, close: mark}
	}
	return w.tag("<"+tag+">", "</"+tag+">")
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

// unescaped returns a text without its backslashes and with its character references
// resolved. Goldmark does both in one pass, so neither reads what the other makes.
func unescaped(raw []byte) string {
	var b bytes.Buffer
	w := bufio.NewWriterSize(&b, len(raw))
	render.DefaultWriter.Write(w, raw)
	w.Flush() // a bytes.Buffer never fails
	return strings.Map(dropDirection, plain.Text(html.UnescapeString(b.String())))
}

// dropDirection drops characters that change the direction of the text after them. A character
// reference may have produced one.
func dropDirection(r rune) rune {
	if unicode.Is(unicode.Bidi_Control, r) && r != '\u200e' && r != '\u200f' && r != '\u061c' {
		return -1
	}
	return r
}

// aligned reports whether lines are columns or a drawing: at least two lines have several
// blanks between words, a tab, or box-drawing characters. Two blanks after a sentence do not
// count, because many writers type them.
func aligned(lines string) bool {
	n := 0
	for line := range strings.Lines(lines) {
		if hasColumns(strings.TrimSpace(line)) {
			n++
		}
	}
	return n >= 2
}

func hasColumns(line string) bool {
	if strings.HasPrefix(line, "+-") || strings.Contains(line, "\t") {
		return true
	}
	for at := 0; ; {
		i := strings.Index(line[at:], "  ")
		if i < 0 {
			break
		}
		at += i
		if at > 0 && !strings.ContainsRune(".!?:", rune(line[at-1])) {
			return true
		}
		for at < len(line) && line[at] == ' ' {
			at++
		}
	}
	return strings.ContainsFunc(line, func(r rune) bool { return r >= 0x2500 && r <= 0x259f })
}
