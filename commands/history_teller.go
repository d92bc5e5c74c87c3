package commands

import (
	"fmt"
	"time"

	"agentstateloop/commands/terminal"
	"agentstateloop/internal/plain"
	"agentstateloop/state"
)

// teller prints the history for its reader, one sentence per line.
type teller struct {
	book  *book
	words func(state.Message) (string, bool) // returns the first words of a message, while they are kept
	out   *terminal.Output
	day   time.Time // day of the lines printed so far
}

// shows records a line and returns its printer, or nil if the line is hidden. The printer reads
// the words of the line's message only when it prints.
func (t *teller) shows(l state.Line) linePrinter {
	what := t.book.note(l)
	if what.text == "" {
		return nil
	}
	return func() error {
		if day := l.At.Local(); day.Format(time.DateOnly) != t.day.Local().Format(time.DateOnly) {
			t.day = l.At
			if _, err := fmt.Fprintln(t.out.Stdout, day.Format("Monday, 2006-01-02")); err != nil {
				return err
			}
		}
		_, err := fmt.Fprintln(t.out.Stdout, t.out.Fit(l.At.Local().Format("15:04")+" "+t.text(what), len("15:04 ")))
		return err
	}
}

// text returns the sentence with the words of its message.
func (t *teller) text(what told) string {
	if what.quote == nil {
		return what.text
	}
	words, ok := t.words(*what.quote)
	switch {
	case what.within && ok && words != "":
		return what.text + " " + inQuotes(words) + what.after
	case what.within:
		return what.text + what.after
	case !ok:
		return what.text + ": (not kept any more)" + what.after
	case words == "":
		return what.text + ": (no text)" + what.after
	}
	return what.text + ": " + inQuotes(words) + what.after
}

// quotedWords is the maximum length of a quote, in characters.
const quotedWords = 120

// inQuotes returns the beginning of a foreign text, on one line and in quotes.
func inQuotes(text string) string { return `"` + plain.Shorten(plain.Line(text), quotedWords) + `"` }
