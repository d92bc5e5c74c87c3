// Package present writes the texts that people read: the status, the history, the rows of the
// inbox and the outbox, and why an answer has not come. Its rules:
//
//   - Data in, text out. It reads no files and no flags, and prints nothing: the commands read the
//     data, and print the text through package terminal.
//   - The time is a parameter. Times are local, as terminal.Clock writes them.
//   - Foreign text goes through plain.Line, so a text has one line unless its function says more.
//   - The width of the terminal is a Fitter.
//   - A label in capitals marks trouble that the operator can fix. Other labels are in lower case.
//   - JSON documents are not made here. Some carry one of these texts, for a person to read.
package present

// Fitter fits text to the width of a terminal. *terminal.Output is one.
type Fitter interface {
	// Fit wraps a line. Continuation lines are indented by indent blanks.
	Fit(line string, indent int) string

	// FitWords truncates each word of a text so that it fits on a line that begins with indent
	// blanks.
	FitWords(text string, indent int) string
}
