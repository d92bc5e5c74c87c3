package message

import (
	"slices"
	"strings"

	"agentstateloop/internal/plain"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"
)

// The limits of htmlText.
const (
	maxQuotes = 5    // marks of quoted history on a line
	maxLink   = 2000 // bytes of an address
	maxAlt    = 200  // bytes of the text of a picture
)

// htmlText returns the readable text of an HTML mail. Each block is on lines of its own, each
// link is followed by its address, and quoted history has "> " in front. Scripts and styles are
// left out. Text that is struck out is enclosed in ~~, because the rest would have another
// meaning without the marks. Text that mail programs do not show is left out, and hidden is its
// length in bytes. htmlText reads tokens and builds no tree, so deep nesting costs nothing.
func htmlText(s string) (text string, hidden int) {
	w := htmlWriter{}
	w.read(s)
	if w.unseen.tag != 0 { // its end is missing, so we cannot know which text is hidden
		w = htmlWriter{showsAll: true}
		w.read(s)
	}
	return strings.TrimSpace(plain.Text(w.out.String())), w.hiddenBytes
}

// read writes the text of a page.
func (w *htmlWriter) read(s string) {
	z := html.NewTokenizer(strings.NewReader(s))
	for z.Next() != html.ErrorToken {
		switch t := z.Token(); t.Type {
		case html.TextToken:
			w.text(t.Data)
		case html.StartTagToken, html.SelfClosingTagToken:
			w.start(t)
		case html.EndTagToken:
			w.end(t.DataAtom)
		}
	}
}

// element is an open element that changes how its text is read; tag is 0 if it is closed.
type element struct {
	tag   atom.Atom
	depth int // nested elements of this name
}

func (e *element) open(tag atom.Atom) {
	if tag == e.tag {
		e.depth++
	}
}

// close reports whether an end tag ends the element.
func (e *element) close(tag atom.Atom) bool {
	if tag != e.tag || e.tag == 0 {
		return false
	}
	if e.depth--; e.depth > 0 {
		return false
	}
	*e = element{}
	return true
}

type htmlWriter struct {
	unseen      element // not shown by mail programs
	struck      element // struck out
	mark        string  // to write before the next text
	hiddenBytes int
	showsAll    bool // no text is left out as hidden

	out     strings.Builder
	hidden  atom.Atom // the element whose content is skipped, or 0
	pre     int
	quotes  int
	link    string // the address of the open link
	linkAt  int    // where its text began
	newline int    // line ends due before the next text
	space   bool   // a blank is due before the next text
	started bool
}

func (w *htmlWriter) text(s string) {
	if w.unseen.tag != 0 {
		w.hiddenBytes += len(strings.TrimSpace(s))
	}
	if w.hidden != 0 || w.unseen.tag != 0 {
		return
	}
	if w.pre > 0 {
		for i, line := range strings.Split(s, "\n") {
			if i > 0 {
				w.breakLine(w.newline + 1)
			}
			w.write(line)
		}
		return
	}
	words := strings.Fields(s)
	if len(words) == 0 {
		w.space = w.space || s != ""
		return
	}
	w.space = w.space || strings.TrimLeft(s, " \t\r\n\u00a0") != s
	w.write(strings.Join(words, " "))
	w.space = strings.TrimRight(s, " \t\r\n\u00a0") != s
}

func (w *htmlWriter) write(s string) {
	if s == "" {
		return
	}
	if w.newline > 0 && w.started {
		for range min(w.newline, 2) {
			w.out.WriteByte('\n')
			w.out.WriteString(strings.Repeat("> ", min(w.quotes, maxQuotes)))
		}
		w.space = false
	} else if !w.started {
		w.out.WriteString(strings.Repeat("> ", min(w.quotes, maxQuotes)))
		w.space = false
	}
	if w.space {
		w.out.WriteByte(' ')
	}
	w.out.WriteString(w.mark + s)
	w.newline, w.space, w.started, w.mark = 0, false, true, ""
}

func (w *htmlWriter) breakLine(n int) { w.newline = max(w.newline, n) }

func (w *htmlWriter) start(t html.Token) {
	if w.hidden != 0 {
		return
	}
	if w.unseen.tag == atom.P && endsParagraph(t.DataAtom) {
		w.unseen = element{}
	}
	if w.unseen.tag != 0 {
		w.unseen.open(t.DataAtom)
		return
	}
	hasEnd := t.Type == html.StartTagToken && t.DataAtom != 0 && !isVoid(t.DataAtom)
	if !w.showsAll && hasEnd && hides(t) {
		w.unseen = element{t.DataAtom, 1}
		return
	}
	w.struck.open(t.DataAtom)
	if w.struck.tag == 0 && hasEnd && strikes(t) {
		w.struck = element{t.DataAtom, 1}
		w.mark = strikeMark
	}
	w.breakLine(lineBreaks(t.DataAtom))
	switch t.DataAtom {
	case atom.Script, atom.Style, atom.Title:
		if t.Type == html.StartTagToken {
			w.hidden = t.DataAtom
		}
	case atom.Br:
		w.newline = min(w.newline+1, 2)
	case atom.Li:
		w.write("- ")
	case atom.Td, atom.Th:
		w.space = true
	case atom.Hr:
		w.breakLine(1)
		w.write("---")
		w.breakLine(1)
	case atom.Pre:
		w.pre++
	case atom.Blockquote:
		w.quotes++
	case atom.A:
		w.link = oneLine(attribute(t, "href"), maxLink)
		w.linkAt = w.out.Len()
	case atom.Img:
		if alt := oneLine(attribute(t, "alt"), maxAlt); alt != "" {
			w.write("[" + alt + "]")
		}
	}
}

func (w *htmlWriter) end(a atom.Atom) {
	if w.hidden != 0 {
		if a == w.hidden {
			w.hidden = 0
		}
		return
	}
	if w.unseen.tag != 0 {
		w.unseen.close(a)
		return
	}
	if w.struck.close(a) {
		if w.mark == "" {
			w.out.WriteString(strikeMark)
		}
		w.mark = ""
	}
	w.breakLine(lineBreaks(a))
	switch a {
	case atom.Pre:
		w.pre = max(0, w.pre-1)
	case atom.Blockquote:
		w.quotes = max(0, w.quotes-1)
	case atom.A:
		w.endLink()
	}
}

// endLink writes the address of a link, unless the text of the link already is
// the address.
func (w *htmlWriter) endLink() {
	link := w.link
	w.link = ""
	lower := strings.ToLower(link)
	if !strings.HasPrefix(lower, "http://") && !strings.HasPrefix(lower, "https://") && !strings.HasPrefix(lower, "mailto:") {
		return
	}
	text := strings.TrimSpace(w.out.String()[w.linkAt:])
	bare := strings.TrimPrefix(link, "mailto:")
	if text == bare || text == link || text != "" && strings.TrimSuffix(bare, "/") == text {
		return
	}
	w.space = true
	w.write("<" + bare + ">")
}

// attribute returns the value of the first attribute of t with this name, or "".
func attribute(t html.Token, name string) string {
	for _, a := range t.Attr {
		if a.Key == name {
			return a.Val
		}
	}
	return ""
}

// strikeMark encloses text that is struck out, as in Markdown.
const strikeMark = "~~"

// hides reports whether mail programs hide the content of an element.
func hides(t html.Token) bool {
	if slices.ContainsFunc(t.Attr, func(a html.Attribute) bool { return a.Key == "hidden" }) {
		return true
	}
	for _, property := range declarations(t) {
		switch property {
		case "display:none", "visibility:hidden", "visibility:collapse", "mso-hide:all", "opacity:0", "font-size:0", "font-size:0px", "font-size:0pt", "font-size:0em", "font-size:0%":
			return true
		}
	}
	return false
}

// strikes reports whether an element strikes out its text.
func strikes(t html.Token) bool {
	if t.DataAtom == atom.S || t.DataAtom == atom.Strike || t.DataAtom == atom.Del {
		return true
	}
	for _, property := range declarations(t) {
		if name, value, _ := strings.Cut(property, ":"); (name == "text-decoration" || name == "text-decoration-line") && strings.Contains(value, "line-through") {
			return true
		}
	}
	return false
}

// declarations returns the declarations in the style of an element, in lower case and
// without blanks.
func declarations(t html.Token) []string {
	all := strings.Split(Lower(attribute(t, "style")), ";")
	for i, d := range all {
		all[i] = strings.TrimSuffix(strings.Join(strings.Fields(d), ""), "!important")
	}
	return all
}

// lineBreaks returns how many line ends the tags of an element make.
func lineBreaks(a atom.Atom) int {
	switch a {
	case atom.P, atom.H1, atom.H2, atom.H3, atom.H4, atom.H5, atom.H6, atom.Table, atom.Ul, atom.Ol:
		return 2
	case atom.Div, atom.Tr, atom.Li, atom.Section, atom.Article, atom.Header, atom.Footer, atom.Dt, atom.Dd, atom.Pre, atom.Blockquote:
		return 1
	}
	return 0
}

// endsParagraph reports whether the start of an element ends an open paragraph.
func endsParagraph(a atom.Atom) bool {
	switch a {
	case atom.P, atom.H1, atom.H2, atom.H3, atom.H4, atom.H5, atom.H6, atom.Table, atom.Ul, atom.Ol, atom.Div, atom.Hr, atom.Pre, atom.Blockquote,
		atom.Section, atom.Article, atom.Header, atom.Footer, atom.Dl, atom.Form, atom.Address, atom.Fieldset, atom.Main, atom.Nav, atom.Aside:
		return true
	}
	return false
}

// isVoid reports whether an element has no end tag.
func isVoid(a atom.Atom) bool {
	switch a {
	case atom.Area, atom.Base, atom.Br, atom.Col, atom.Embed, atom.Hr, atom.Img, atom.Input, atom.Link, atom.Meta, atom.Source, atom.Track, atom.Wbr:
		return true
	}
	return false
}
