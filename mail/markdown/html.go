package markdown

import (
	"bytes"
	"fmt"
	"html"
	"strings"

	"github.com/yuin/goldmark/ast"
	extast "github.com/yuin/goldmark/extension/ast"

	"agentstateloop/internal/plain"
)

// The limits of HTML. Text that exceeds them is sent without an HTML part.
const (
	MaxText  = 64 << 10 // bytes
	maxDepth = 20       // nested blocks or formats
	maxPage  = 100_000  // bytes: Gmail shows no more than 102 KB of a mail
)

// HTML renders Markdown text as a page of HTML. The same text always gives the same page. ok is
// false if the page would show only paragraphs, like the text alone. It is also false for text
// that is not UTF-8, or that is longer or nested deeper than anybody reads.
func HTML(text string) (page string, ok bool) {
	if len(text) > MaxText || !readable(text) {
		return "", false
	}
	src := []byte(plain.Text(text))
	w := writer{src: src}
	w.out.WriteString(pageHead)
	w.blocks(parse(src))
	w.out.WriteString(pageFoot)
	if !w.formatted || w.tooMuch || w.out.Len() > maxPage {
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
	inCell    bool // in a cell of a table
	formatted bool // the page shows something that the text does not
	tooMuch   bool
}

// nested reports whether the content of a node still fits. If so, the caller ends with
// w.depth--.
func (w *writer) nested() bool {
	if w.depth >= maxDepth || w.out.Len() > maxPage {
		w.tooMuch = true
		return false
	}
	w.depth++
	return true
}

func (w *writer) blocks(parent ast.Node) {
	if !w.nested() {
		return
	}
	for n := parent.FirstChild(); n != nil; n = n.NextSibling() {
		w.block(n)
	}
	w.depth--
}

func (w *writer) block(n ast.Node) {
	switch n := n.(type) {
	case *ast.Paragraph:
		w.paragraph(n)
	case *ast.TextBlock:
		w.inlines(n)
	case *ast.Heading:
		w.heading(n)
	case *ast.ThematicBreak:
		w.tag("<hr" + hrStyle + ">\n")
	case *ast.Blockquote:
		w.tag("<blockquote" + quoteStyle + ">\n")
		w.blocks(n)
		w.out.WriteString("</blockquote>\n")
	case *ast.List:
		w.list(n)
	case *ast.FencedCodeBlock:
		w.formatted = true
		w.code(w.lines(n))
	case *ast.CodeBlock: // not formatted: it may be text that is merely indented
		w.code(strings.TrimRight(w.lines(n), "\n") + "\n")
	case *extast.Table:
		w.table(n)
	}
}

// tag writes a tag that is visible on the page.
func (w *writer) tag(s string) {
	w.formatted = true
	w.out.WriteString(s)
}

// paragraph keeps the line ends of the agent. If blanks align columns, it keeps the blanks too.
func (w *writer) paragraph(n *ast.Paragraph) {
	if n.Parent().Kind() == ast.KindDocument {
		if lines := w.wholeLines(n); aligned(lines) {
			w.code(lines)
			return
		}
	}
	w.out.WriteString(`<p dir="auto"` + paragraphStyle + ">")
	w.inlines(n)
	w.out.WriteString("</p>\n")
}

func (w *writer) heading(n *ast.Heading) {
	if n.Lines().Len() > 1 {
		// A paragraph above a line of dashes is not a heading.
		w.out.WriteString(`<p dir="auto"` + paragraphStyle + ">")
		w.inlines(n)
		w.out.WriteString("</p>\n")
		w.tag("<hr" + hrStyle + ">\n")
		return
	}
	w.tag(fmt.Sprintf(`<h%d dir="auto"%s>`, n.Level, headingStyle[n.Level-1]))
	w.inlines(n)
	fmt.Fprintf(&w.out, "</h%d>\n", n.Level)
}

func (w *writer) list(n *ast.List) {
	if !w.nested() {
		return
	}
	kind := "ul"
	if n.IsOrdered() {
		kind = "ol"
	}
	w.tag("<" + kind)
	if n.IsOrdered() && n.Start != 1 {
		fmt.Fprintf(&w.out, ` start="%d"`, n.Start)
	}
	if n.Parent().Kind() == ast.KindListItem {
		w.out.WriteString(nestedStyle + ">\n")
	} else {
		w.out.WriteString(listStyle + ">\n")
	}
	for item := n.FirstChild(); item != nil; item = item.NextSibling() {
		box := w.taskBox(item)
		w.out.WriteString(`<li dir="auto"`)
		if box != "" {
			w.out.WriteString(taskStyle)
		} else {
			w.out.WriteString(itemStyle)
		}
		w.out.WriteString(">")
		if p := item.FirstChild(); box != "" && p != nil {
			w.out.WriteString(box)
			w.skip = len("[ ]")
		}
		w.blocks(item)
		w.out.WriteString("</li>\n")
	}
	w.out.WriteString("</" + kind + ">\n")
	w.depth--
}

// taskBox returns the box of a task list item, or "" for any other item.
func (w *writer) taskBox(item ast.Node) string {
	first := item.FirstChild()
	if first == nil || first.Type() != ast.TypeBlock || first.Lines() == nil || first.Lines().Len() == 0 {
		return ""
	}
	if k := first.Kind(); k != ast.KindTextBlock && k != ast.KindParagraph {
		return ""
	}
	at := first.Lines().At(0)
	line := at.Value(w.src)
	switch {
	case bytes.HasPrefix(line, []byte("[ ] ")):
		return "☐"
	case bytes.HasPrefix(line, []byte("[x] ")), bytes.HasPrefix(line, []byte("[X] ")):
		return "☑"
	}
	return ""
}

func (w *writer) table(n *extast.Table) {
	w.tag("<div" + scrollStyle + "><table" + tableStyle + ">\n")
	for r := n.FirstChild(); r != nil; r = r.NextSibling() {
		cell := "td"
		if r.Kind() == extast.KindTableHeader {
			cell = "th"
		}
		w.out.WriteString("<tr>")
		for c := r.FirstChild(); c != nil; c = c.NextSibling() {
			if c, ok := c.(*extast.TableCell); ok {
				w.cell(cell, c)
			}
		}
		w.out.WriteString("</tr>\n")
	}
	w.out.WriteString("</table></div>\n")
}

func (w *writer) cell(tag string, c *extast.TableCell) {
	align := cellStyle(c.Alignment)
	if align == "" && tag == "th" {
		align = cellStyle(extast.AlignLeft) // headings are centered by default
	}
	dir := ""
	if strings.ContainsFunc(w.plainText(c), func(r rune) bool { return r >= 0x80 }) {
		dir = ` dir="auto"`
	}
	w.out.WriteString("<" + tag + align + dir + ">")
	w.inCell = true
	w.inlines(c)
	w.inCell = false
	w.out.WriteString("</" + tag + ">")
}

// code writes lines unchanged. Columns scroll instead of wrapping.
func (w *writer) code(lines string) {
	style := codeStyle
	if aligned(lines) {
		style = columnsStyle
	}
	w.out.WriteString("<pre" + style + ">")
	if strings.HasPrefix(lines, "\n") {
		w.out.WriteByte('\n') // HTML parsers drop the first line end
	}
	w.out.WriteString(html.EscapeString(strings.TrimSuffix(lines, "\n")))
	w.out.WriteString("</pre>\n")
}

// lines returns the lines of a block of code.
func (w *writer) lines(n ast.Node) string {
	var b strings.Builder
	for i := range n.Lines().Len() {
		at := n.Lines().At(i)
		b.Write(at.Value(w.src))
	}
	return b.String()
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
	return strings.TrimRight(b.String(), "\n") + "\n"
}
