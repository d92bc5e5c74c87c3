package terminal

import (
	"bytes"
	"io"
	"strings"
)

// pageColumns is the width of the help pages as written.
const pageColumns = 80

// Page is a writer that collects a help page and prints it with Flush. On a terminal of less than
// 80 columns it rewraps the paragraphs.
type Page struct {
	text bytes.Buffer
	out  *Output
}

// Page returns a Page for standard output.
func (o *Output) Page() *Page { return &Page{out: o} }

// Write appends text to the page.
func (p *Page) Write(text []byte) (int, error) { return p.text.Write(text) }

// Flush prints the collected text.
func (p *Page) Flush() error {
	text, columns := p.text.String(), columnsOf(p.out.Columns)
	p.text.Reset()
	if columns > 0 && columns < pageColumns {
		text = Wrap(joinLines(text), columns)
	}
	if text == "" {
		return nil // even an empty write could wait for an earlier write that is never read
	}
	_, err := io.WriteString(p.out.Stdout, text)
	return err
}

// joinLines joins each paragraph into one line, and also each description of a flag or a command
// that continues on indented lines. It keeps other indented lines, such as examples.
func joinLines(page string) string {
	var lines []string
	first := "" // the first input line of the last element of lines
	for line := range strings.Lines(page) {
		line = strings.TrimSuffix(line, "\n")
		if len(lines) > 0 && goesOn(first, line) {
			lines[len(lines)-1] += " " + strings.TrimLeft(line, " ")
			continue
		}
		lines, first = append(lines, line), line
	}
	return strings.Join(lines, "\n") + "\n"
}

// goesOn reports whether line continues the paragraph or description that began with first.
func goesOn(first, line string) bool {
	text := strings.TrimLeft(line, " ")
	leading := len(line) - len(text)
	if text == "" || strings.TrimSpace(first) == "" {
		return false
	}
	if leading == 0 {
		return !strings.HasPrefix(first, " ") && !strings.HasPrefix(first, "usage: ")
	}
	began := len(first) - len(strings.TrimLeft(first, " "))
	return leading > began && leading == hanging(first, pageColumns)
}
