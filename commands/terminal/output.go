package terminal

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"unicode"
)

// Output is where a command prints.
type Output struct {
	Stdout, Stderr io.Writer
}

// Printf prints data for a person.
func (o *Output) Printf(format string, args ...any) {
	fmt.Fprintf(o.Stdout, format, args...)
}

// Warn reports trouble that does not make the command fail.
func (o *Output) Warn(format string, args ...any) {
	fmt.Fprintf(o.Stderr, "%s: warning: %s\n", Program, Text(fmt.Sprintf(format, args...)))
}

// Error reports why a command failed and, unless it is empty, what to do next.
func (o *Output) Error(text, hint string) {
	if text != "" {
		fmt.Fprintf(o.Stderr, "%s: error: %s\n", Program, Text(text))
	}
	if hint != "" {
		fmt.Fprintf(o.Stderr, "%s: hint: %s\n", Program, Text(hint))
	}
}

// JSON prints one value, indented.
func (o *Output) JSON(v any) error { return o.encode(v, "  ") }

// JSONLine prints one value on one line.
func (o *Output) JSONLine(v any) error { return o.encode(v, "") }

func (o *Output) encode(v any, indent string) error {
	e := json.NewEncoder(o.Stdout)
	e.SetEscapeHTML(false)
	e.SetIndent("", indent)
	return e.Encode(v)
}

// Table returns a writer that aligns columns separated by tabs. The caller must
// flush it.
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

// Text makes foreign text of many lines safe for a terminal. It replaces what
// could move the cursor, change colours or reverse the direction of writing.
// Newlines and tabs stay. For a single line there is plain.Line.
func Text(s string) string {
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
