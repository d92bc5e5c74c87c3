package message

import (
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

// htmlText returns the readable text of an HTML mail. Blocks stand on lines of
// their own, links are followed by their address, quoted history has "> " in
// front, and scripts and styles are left out. It reads tokens and builds no
// tree, so deep nesting costs nothing.
func htmlText(s string) string {
	w := htmlWriter{}
	t := newHTMLTokens(s)
	for t.next() {
		switch t.kind {
		case html.TextToken:
			w.text(t.text())
		case html.StartTagToken, html.SelfClosingTagToken:
			w.start(t)
		case html.EndTagToken:
			w.end(t.tag)
		}
	}
	return strings.TrimSpace(plain.Text(w.out.String()))
}

type htmlWriter struct {
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
	if w.hidden != 0 {
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
	w.newline, w.space, w.started = 0, false, true
	w.out.WriteString(s)
}

func (w *htmlWriter) breakLine(n int) { w.newline = max(w.newline, n) }

func (w *htmlWriter) start(t *htmlTokens) {
	if w.hidden != 0 {
		return
	}
	switch t.tag {
	case atom.Script, atom.Style, atom.Title:
		if t.kind == html.StartTagToken {
			w.hidden = t.tag
		}
	case atom.Br:
		w.newline = min(w.newline+1, 2)
	case atom.P, atom.H1, atom.H2, atom.H3, atom.H4, atom.H5, atom.H6, atom.Table, atom.Ul, atom.Ol:
		w.breakLine(2)
	case atom.Div, atom.Tr, atom.Section, atom.Article, atom.Header, atom.Footer, atom.Dt, atom.Dd:
		w.breakLine(1)
	case atom.Li:
		w.breakLine(1)
		w.write("- ")
	case atom.Td, atom.Th:
		w.space = true
	case atom.Hr:
		w.breakLine(1)
		w.write("---")
		w.breakLine(1)
	case atom.Pre:
		w.breakLine(1)
		w.pre++
	case atom.Blockquote:
		w.breakLine(1)
		w.quotes++
	case atom.A:
		w.link = oneLine(t.attribute("href"), maxLink)
		w.linkAt = w.out.Len()
	case atom.Img:
		if alt := oneLine(t.attribute("alt"), maxAlt); alt != "" {
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
	switch a {
	case atom.P, atom.H1, atom.H2, atom.H3, atom.H4, atom.H5, atom.H6, atom.Table, atom.Ul, atom.Ol:
		w.breakLine(2)
	case atom.Div, atom.Tr, atom.Li, atom.Section, atom.Article, atom.Header, atom.Footer, atom.Dt, atom.Dd:
		w.breakLine(1)
	case atom.Pre:
		w.breakLine(1)
		w.pre = max(0, w.pre-1)
	case atom.Blockquote:
		w.breakLine(1)
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
	said := strings.TrimSpace(w.out.String()[w.linkAt:])
	bare := strings.TrimPrefix(link, "mailto:")
	if said == bare || said == link || said != "" && strings.TrimSuffix(bare, "/") == said {
		return
	}
	w.space = true
	w.write("<" + bare + ">")
}
