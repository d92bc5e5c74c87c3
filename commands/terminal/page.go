package terminal

import (
	"bytes"
	"errors"
	"fmt"
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
		if len(lines) > 0 && continues(first, line) {
			lines[len(lines)-1] += " " + strings.TrimLeft(line, " ")
			continue
		}
		lines, first = append(lines, line), line
	}
	return strings.Join(lines, "\n") + "\n"
}

// continues reports whether line continues the paragraph or description that began with first.
func continues(first, line string) bool {
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

// ResumeCommands returns the commands that lift a HALT, quoted and joined with "and". Each place in
// halted is "mesh", or another text for the agent itself.
func ResumeCommands(halted []string) string {
	var commands []string
	for _, where := range halted {
		command := Program + " resume"
		if where == "mesh" {
			command = Program + " mesh resume"
		}
		commands = append(commands, "`"+command+"`")
	}
	return strings.Join(commands, " and ")
}

// OverdueHint returns the question to ask when a poll is overdue. starter names what starts polls.
func OverdueHint(starter string) string { return "is " + starter + " running?" }

// UsageError reports a wrong command line. Advice may be empty.
type UsageError struct{ Text, Advice string }

func (e *UsageError) Error() string { return e.Text }

// Hint returns what to do next, or "".
func (e *UsageError) Hint() string { return e.Advice }

// Usagef returns a UsageError with a hint, which may be empty.
func Usagef(hint, format string, args ...any) error {
	return &UsageError{fmt.Sprintf(format, args...), hint}
}

// hinted is an error with a hint.
type hinted struct {
	error
	hint string
}

func (e *hinted) Unwrap() error { return e.error }
func (e *hinted) Hint() string  { return e.hint }

// WithHint returns err with a hint, which states what to do next.
func WithHint(err error, hint string) error { return &hinted{err, hint} }

// HintOf returns the hint of err or of the first wrapped error that has one, or
// "".
func HintOf(err error) string {
	if e, ok := errors.AsType[interface {
		error
		Hint() string
	}](err); ok {
		return e.Hint()
	}
	return ""
}
