// Package timeline prints what happens to agents over time, one line for each event: the clock, the
// phase, the direction, and the event in words. `demo` and `replay` print with it.
package timeline

import (
	"fmt"
	"io"
	"time"

	"agentstateloop/state"
)

// Timeline prints a story, and has the clock of all its agents.
type Timeline struct {
	Out io.Writer
	Now time.Time // events are printed with this time, in its zone

	printed string // the last printed clock time
}

// Print prints a line that is not an event.
func (t *Timeline) Print(format string, args ...any) { fmt.Fprintf(t.Out, format+"\n", args...) }

// Heading prints a heading after an empty line. The next event shows its time.
func (t *Timeline) Heading(text string) {
	t.Print("\n%s", text)
	t.printed = ""
}

// The directions of an event.
const (
	In      = "->"
	Out     = "<-"
	Between = "  "
)

// Lane prints the events of one agent.
type Lane struct {
	*Timeline
	Host  string // name of the agent's host; "" in a story with a single host
	Phase state.Phase

	empty int // polls without news since the last printed line
}

// Event prints one event with the clock, the host, the phase and the direction. It omits a time that
// the line before has.
func (l *Lane) Event(direction, format string, args ...any) {
	l.ShowEmpty()
	clock := l.Now.Format("15:04")
	if clock == l.printed {
		clock = "     "
	} else {
		l.printed = clock
	}
	l.Print("  %s  %s  %s %s", clock, l.where(), direction, fmt.Sprintf(format, args...))
}

// where returns the agent's host and phase.
func (l *Lane) where() string {
	if l.Host == "" {
		return fmt.Sprintf("%-6s", l.Phase)
	}
	return fmt.Sprintf("%-5s  %-6s", l.Host, l.Phase)
}

// Empty counts polls without news. Their number is printed before the next event.
func (l *Lane) Empty(polls int) { l.empty += polls }

// ShowEmpty prints the number of polls without news since the last event, if there were any.
func (l *Lane) ShowEmpty() {
	if l.empty > 0 {
		l.Print("    ...  %s     polls without news: %d", l.where(), l.empty)
		l.empty = 0
	}
}
