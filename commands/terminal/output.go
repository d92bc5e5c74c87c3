package terminal

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"unicode"

	"agentstateloop/internal/plain"
)

// Output prints what a command reports.
type Output struct {
	Stdout, Stderr io.Writer

	// Columns and ErrColumns return the width of the terminals that Stdout and Stderr
	// write to (ColumnsOf). Where they return 0, or are nil, nothing is wrapped.
	Columns, ErrColumns func() int

	// Answered is set by JSON: the one document of the command has been printed.
	Answered bool

	// Rows returns the height of the terminal that Stdout writes to (RowsOf).
	Rows func() int

	// Redact takes the secrets out of a text, before it is wrapped or cut: of one on two
	// lines nobody finds both parts. nil changes nothing.
	Redact func(string) string
}

func (o *Output) redacted(text string) string {
	if o.Redact == nil {
		return text
	}
	return o.Redact(text)
}

// Fit returns a line as it fits the terminal that Stdout writes to. What is broken off
// begins with indent blanks.
func (o *Output) Fit(line string, indent int) string {
	return WrapHanging(o.redacted(line), columnsOf(o.Columns), indent)
}

// FitWords returns a foreign text in which each word fits a line that begins with indent
// blanks. The end of a longer one is cut.
func (o *Output) FitWords(text string, indent int) string {
	columns := columnsOf(o.Columns)
	if columns == 0 {
		return text
	}
	all := strings.Split(o.redacted(text), " ")
	for i, word := range all {
		all[i] = Truncate(word, max(columns-indent, columns/2))
	}
	return strings.Join(all, " ")
}

// Printf prints data for a person, as whole lines. On a terminal they are wrapped at
// words (Wrap).
func (o *Output) Printf(format string, args ...any) {
	io.WriteString(o.Stdout, Wrap(o.redacted(fmt.Sprintf(format, args...)), columnsOf(o.Columns)))
}

// Verbatim prints a text that is for a file or another program, such as a
// script. It is never wrapped.
func (o *Output) Verbatim(text string) {
	io.WriteString(o.Stdout, text)
}

// Warn prints a warning, which does not make the command fail.
func (o *Output) Warn(format string, args ...any) {
	o.tell("warning", fmt.Sprintf(format, args...))
}

// Note prints what happens, under a label. It is neither data nor trouble.
func (o *Output) Note(label, format string, args ...any) {
	o.tell(label, fmt.Sprintf(format, args...))
}

// tell prints a line to standard error. What is wrapped of it begins indented, so that
// one sees what belongs together.
func (o *Output) tell(label, text string) {
	text = Printable(fmt.Sprintf("%s: %s: %s", Program, label, o.redacted(text)))
	columns := columnsOf(o.ErrColumns)
	for line := range strings.Lines(text) {
		fmt.Fprintln(o.Stderr, WrapHanging(strings.TrimSuffix(line, "\n"), columns, 4))
	}
}

// Error prints why a command failed and what to do next. It omits an empty text
// and an empty hint.
func (o *Output) Error(text, hint string) {
	if text != "" {
		o.tell("error", text)
	}
	if hint != "" {
		o.tell("hint", hint)
	}
}

// Aside prints an indented line to standard error, between the questions of a command.
func (o *Output) Aside(text string) {
	fmt.Fprintln(o.Stderr, WrapHanging("  "+plain.Line(text), columnsOf(o.ErrColumns), 4))
}

// Prompt prints a question, wrapped at words, and leaves the cursor behind it.
func (o *Output) Prompt(text string) {
	fmt.Fprint(o.Stderr, WrapHanging(strings.TrimRight(text, " "), columnsOf(o.ErrColumns), 2)+" ")
}

// JSON prints one value as indented JSON, which is the one document of a command.
// Characters that cannot be seen are escaped (plain.JSON).
func (o *Output) JSON(v any) error {
	o.Answered = true
	return o.encode(v, "  ")
}

// JSONLine prints one value as one line of JSON, escaped as JSON does it.
func (o *Output) JSONLine(v any) error { return o.encode(v, "") }

// encode writes v at once, so that the writer below finds a secret in it.
func (o *Output) encode(v any, indent string) error {
	var text bytes.Buffer
	e := json.NewEncoder(&text)
	e.SetEscapeHTML(false)
	e.SetIndent("", indent)
	if err := e.Encode(v); err != nil {
		return err
	}
	_, err := o.Stdout.Write(plain.JSON(text.Bytes()))
	return err
}

// Table returns a writer to standard output that aligns columns separated by tabs.
// The caller must flush it.
func (o *Output) Table() *tabwriter.Writer {
	return tabwriter.NewWriter(o.Stdout, 0, 0, 2, ' ', 0)
}

// Count returns a number and its noun: "1 mail", "2 mails".
func Count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// Printable returns foreign text of several lines that is safe to print. It replaces
// characters that could move the cursor, change colours or reverse the direction
// of writing. It keeps newlines and tabs. For one line use plain.Line.
func Printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r == '\n' || r == '\t' || unicode.IsPrint(r) || r == '\u200d' {
			return r
		}
		if unicode.IsSpace(r) {
			return ' '
		}
		return unicode.ReplacementChar
	}, s)
}
