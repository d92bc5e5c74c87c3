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
}

// Printf prints data for a person.
func (o *Output) Printf(format string, args ...any) {
	fmt.Fprintf(o.Stdout, format, args...)
}

// Warn prints a warning, which does not make the command fail.
func (o *Output) Warn(format string, args ...any) {
	fmt.Fprintf(o.Stderr, "%s: warning: %s\n", Program, Printable(fmt.Sprintf(format, args...)))
}

// Error prints why a command failed and what to do next. It omits an empty text
// and an empty hint.
func (o *Output) Error(text, hint string) {
	if text != "" {
		fmt.Fprintf(o.Stderr, "%s: error: %s\n", Program, Printable(text))
	}
	if hint != "" {
		fmt.Fprintf(o.Stderr, "%s: hint: %s\n", Program, Printable(hint))
	}
}

// JSON prints one value as indented JSON. Characters that cannot be seen are escaped
// (plain.JSON).
func (o *Output) JSON(v any) error { return o.encode(v, "  ") }

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
