// Package manual writes manual pages. It turns the texts of help pages and the example configuration
// into the language of man(7); it does no I/O.
package manual

import (
	"fmt"
	"strings"
)

// Footer is the part of a page that names the build.
type Footer struct {
	Date    string // such as 2026-11-28, or ""
	Version string // such as v0.1.0
}

// Page is a manual page that is being written.
type Page struct {
	file   string
	text   strings.Builder
	begins bool // a section or subsection
}

// New returns a page with its header and its section NAME. title is the name of the page, such as
// agent.toml. section is its section of the manual, such as 5.
func New(title string, section int, summary string, f Footer) *Page {
	p := &Page{file: fmt.Sprintf("man%d/%s.%d", section, title, section)}
	// The date is not escaped: a printer of manual pages parses it.
	fmt.Fprintf(&p.text, ".TH %s %d \"%s\" %s %s\n", quoted(strings.ToUpper(title)), section,
		f.Date, quoted("agentStateLoop "+f.Version), quoted("agentStateLoop manual"))
	p.text.WriteString(".nh\n.ad l\n") // a path or a command that is broken in two cannot be copied
	p.Heading("NAME")
	fmt.Fprintf(&p.text, "%s \\- %s\n", escaped(title), escaped(summary))
	p.begins = false
	return p
}

// File returns the path of the page below a folder of MANPATH.
func (p *Page) File() string { return p.file }

// String returns the page.
func (p *Page) String() string { return p.text.String() }

// Heading begins a section.
func (p *Page) Heading(title string) { p.heading("SH", title) }

// Subheading begins a subsection.
func (p *Page) Subheading(title string) { p.heading("SS", title) }

func (p *Page) heading(macro, title string) {
	fmt.Fprintf(&p.text, ".%s %s\n", macro, quoted(title))
	p.begins = true
}

// separate separates the next text from the text before it, if there is any.
func (p *Page) separate(macro string) {
	if !p.begins {
		p.text.WriteString(macro)
	}
	p.begins = false
}

// Usage adds a command line: the command in bold, and its arguments.
func (p *Page) Usage(command, arguments string) {
	p.separate(".br\n")
	fmt.Fprintf(&p.text, "%s\n", strings.TrimSpace(bold(command)+" "+escaped(arguments)))
}

// Text adds paragraphs, separated by blank lines. Lines that begin with blanks are printed
// unchanged, as examples.
func (p *Page) Text(text string) {
	verbatim, blank := false, true // after an example; after a blank line
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		if line == "" {
			blank = true
			continue
		}
		indented := strings.HasPrefix(line, " ")
		switch {
		case indented && !verbatim:
			p.separate(".P\n")
			p.text.WriteString(".RS 4\n.EX\n")
		case !indented && verbatim:
			p.text.WriteString(".EE\n.RE\n.P\n")
		case blank && verbatim:
			p.text.WriteString("\n")
		case blank:
			p.separate(".P\n")
		}
		verbatim, blank = indented, false
		p.line(strings.TrimPrefix(line, "  "))
	}
	if verbatim {
		p.text.WriteString(".EE\n.RE\n")
	}
}

// Item adds an entry of a list. Its term is a word in bold and a rest, such as " DURATION".
func (p *Page) Item(word, rest, text string) {
	p.begins = false
	fmt.Fprintf(&p.text, ".TP\n%s%s\n", bold(word), escaped(rest))
	for line := range strings.Lines(text) {
		p.line(strings.TrimRight(line, "\n"))
	}
}

// SeeAlso adds the section with other pages, such as agent.toml(5).
func (p *Page) SeeAlso(pages ...string) {
	p.Heading("SEE ALSO")
	for i, page := range pages {
		title, section, _ := strings.Cut(page, "(")
		after := "(" + section
		if i < len(pages)-1 {
			after += ","
		}
		fmt.Fprintf(&p.text, ".BR %s %s\n", escaped(title), after)
	}
}

// line adds a line of text, which is not a request even if it begins with a dot.
func (p *Page) line(line string) {
	if strings.HasPrefix(line, ".") || strings.HasPrefix(line, "'") {
		p.text.WriteString(`\&`)
	}
	p.text.WriteString(escaped(line) + "\n")
}

func bold(text string) string { return `\fB` + escaped(text) + `\fR` }

// quoted returns an argument of a macro.
func quoted(text string) string {
	return `"` + strings.ReplaceAll(escaped(text), `"`, `\(dq`) + `"`
}

// escaped returns text whose characters are all printed as they are. Without the escapes, a
// printer of manual pages shows some of them as typographic ones, which a shell does not accept.
func escaped(text string) string {
	var b strings.Builder
	for _, r := range text {
		switch {
		case r == '\\':
			b.WriteString(`\e`)
		case r == '-':
			b.WriteString(`\-`)
		case r == '\'':
			b.WriteString(`\(aq`)
		case r == '`':
			b.WriteString(`\(ga`)
		case r == '^':
			b.WriteString(`\(ha`)
		case r == '~':
			b.WriteString(`\(ti`)
		case r > '~':
			fmt.Fprintf(&b, `\[u%04X]`, r)
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}
