package terminal

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"unicode"

	"agentstateloop/internal/plain"
)

// Output prints the output of a command.
type Output struct {
	Stdout, Stderr io.Writer

	// Columns and ErrColumns return the width of the terminals of Stdout and Stderr (ColumnsOf). If
	// they return 0, or are nil, text is not wrapped.
	Columns, ErrColumns func() int

	// Answered is set by JSON: the command has printed its one document.
	Answered bool

	// Rows returns the height of the terminal of Stdout (RowsOf).
	Rows func() int

	// Redact removes the secrets from a text. It runs before wrapping and cutting, because it could
	// not find a secret split across two lines. If it is nil, the text is not changed.
	Redact func(string) string
}

func (o *Output) redacted(text string) string {
	if o.Redact == nil {
		return text
	}
	return o.Redact(text)
}

// Fit wraps a line to the width of Stdout's terminal. Continuation lines are indented by indent
// blanks.
func (o *Output) Fit(line string, indent int) string {
	return WrapHanging(o.redacted(line), columnsOf(o.Columns), indent)
}

// FitWords truncates each word of a foreign text so that it fits on a line that begins with indent
// blanks.
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

// Printf prints data for a person, as whole lines. On a terminal it wraps them at words (Wrap).
func (o *Output) Printf(format string, args ...any) {
	io.WriteString(o.Stdout, Wrap(o.redacted(fmt.Sprintf(format, args...)), columnsOf(o.Columns)))
}

// Wrapped returns a writer that takes whole lines, and wraps them as Printf does.
func (o *Output) Wrapped() io.Writer { return wrapped{o} }

type wrapped struct{ *Output }

func (w wrapped) Write(lines []byte) (int, error) {
	_, err := io.WriteString(w.Stdout, Wrap(w.redacted(string(lines)), columnsOf(w.Columns)))
	return len(lines), err
}

// Verbatim prints a text for a file or another program, such as a script. It never wraps the text.
func (o *Output) Verbatim(text string) {
	io.WriteString(o.Stdout, text)
}

// Warn prints a warning, which does not make the command fail.
func (o *Output) Warn(format string, args ...any) {
	o.tell("warning", fmt.Sprintf(format, args...))
}

// Note prints a message about current events under a label. It is not data, and not a warning or
// error.
func (o *Output) Note(label, format string, args ...any) {
	o.tell(label, fmt.Sprintf(format, args...))
}

// tell prints a line to standard error. Continuation lines are indented, to show that they belong
// together.
func (o *Output) tell(label, text string) {
	text = Printable(fmt.Sprintf("%s: %s: %s", Program, label, o.redacted(text)))
	columns := columnsOf(o.ErrColumns)
	for line := range strings.Lines(text) {
		fmt.Fprintln(o.Stderr, WrapHanging(strings.TrimSuffix(line, "\n"), columns, 4))
	}
}

// Error prints why a command failed and what to do next. It omits an empty text or hint.
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

// Prompt prints a question, wrapped at words, and leaves the cursor after it.
func (o *Output) Prompt(text string) {
	fmt.Fprint(o.Stderr, WrapHanging(strings.TrimRight(text, " "), columnsOf(o.ErrColumns), 2)+" ")
}

// JSON prints one value as indented JSON: the one document of a command. It escapes invisible
// characters (plain.JSON).
func (o *Output) JSON(v any) error {
	o.Answered = true
	return o.encode(v, "  ")
}

// JSONLine prints one value as one line of JSON.
func (o *Output) JSONLine(v any) error { return o.encode(v, "") }

// encode writes v in a single write, so that the writer below finds any secret in it.
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

// Printable makes foreign text of several lines safe to print. It replaces characters that could
// move the cursor, change colors or reverse the direction of writing. It keeps newlines and tabs.
// For one line use plain.Line.
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

// problem is a missing or wrong flag in a script.
type problem struct {
	missing     bool   // false if the value is wrong
	text, alone string // the text in a list of several, and on its own
	hint        string // for a single problem; "" for the general hint
}

// Wrong reports a wrong value of a flag. At a terminal it returns a UsageError at once. Otherwise
// it records the error for Problems, so that a script gets all of them together, and returns nil.
func (a *Asker) Wrong(hint, format string, args ...any) error {
	err := Usagef(hint, format, args...)
	if a.CanAsk() {
		return err
	}
	text := strings.TrimSuffix(err.Error()+"; "+hint, "; ")
	a.problems = append(a.problems, problem{text: text, alone: err.Error(), hint: hint})
	return nil
}

// Missing records that one of the flags is missing, which would answer a question.
func (a *Asker) Missing(flags, question string) {
	a.problems = append(a.problems, problem{
		missing: true, text: flags + " is missing: " + question,
		alone: flags + " is required without a terminal: " + question,
	})
}

// Problems returns a UsageError that lists all missing and wrong values, or nil.
func (a *Asker) Problems() error {
	const hint = "see " + Program + " init --help"
	if len(a.problems) == 0 {
		return nil
	}
	if len(a.problems) == 1 {
		return Usagef(cmp.Or(a.problems[0].hint, hint), "%s", a.problems[0].alone)
	}
	missing := 0
	var lines strings.Builder
	for _, p := range a.problems {
		if p.missing {
			missing++
		}
		lines.WriteString("\n  " + p.text)
	}
	wrong := len(a.problems) - missing
	switch {
	case wrong == 0:
		return Usagef(hint, "%s (cannot ask without a terminal):%s", Count(missing, "missing value"), lines.String())
	case missing == 0:
		return Usagef(hint, "%s:%s", Count(wrong, "invalid value"), lines.String())
	}
	return Usagef(hint, "%s and %s (cannot ask without a terminal):%s", Count(missing, "missing value"), Count(wrong, "invalid value"), lines.String())
}
