package terminal

import (
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/rivo/uniseg"
	"golang.org/x/term"
)

// RowsOf returns a function that returns the current number of rows of the terminal w. The function
// returns 0 if w is not a terminal, or if the height is unknown.
func RowsOf(w io.Writer) func() int {
	f, ok := w.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) {
		return noSize
	}
	return func() int {
		_, rows, err := term.GetSize(int(f.Fd()))
		if err != nil {
			return 0
		}
		return max(rows, 0)
	}
}

// Control sequences that every terminal supports unless it is "dumb" (ECMA-48, and private modes of
// xterm).
const (
	enterScreen = "\x1b[?1049h\x1b[?25l\x1b[?7l" // the alternate screen, no cursor, no wrapping
	leaveScreen = "\x1b[?7h\x1b[?25h\x1b[?1049l"
	cursorHome  = "\x1b[H"
	clearLine   = "\x1b[K" // to the end of the line
	clearBelow  = "\x1b[J"
)

// Screen shows a text and replaces it with the next. It uses the alternate screen, like an editor:
// no text scrolls, and Close restores the earlier content of the terminal.
type Screen struct {
	out  *Output
	open bool
}

// Screen returns a Screen on standard output. ok is false if that is not a terminal, or is a
// terminal that cannot move its cursor. kind is $TERM.
func (o *Output) Screen(kind string) (s *Screen, ok bool) {
	if kind == "" || kind == "dumb" || columnsOf(o.Columns) == 0 || columnsOf(o.Rows) == 0 {
		return nil, false
	}
	return &Screen{out: o}, true
}

// Show shows text from the first line on. It makes a single write, to avoid flicker. The last row
// counts the lines that do not fit.
func (s *Screen) Show(text string) error {
	columns, rows := columnsOf(s.out.Columns), columnsOf(s.out.Rows)
	var b strings.Builder
	if !s.open {
		s.open = true
		b.WriteString(enterScreen + cursorHome + clearBelow)
	}
	lines := fitRows(strings.Split(strings.TrimSuffix(s.out.redacted(text), "\n"), "\n"), columns, rows)
	b.WriteString(cursorHome)
	for i, line := range lines {
		if i > 0 {
			b.WriteString("\r\n")
		}
		b.WriteString(line)
		if columns == 0 || Cells(line) < columns { // at the last column it would clear that column
			b.WriteString(clearLine)
		}
	}
	if rows == 0 || len(lines) < rows {
		b.WriteString("\r\n" + clearBelow)
	}
	_, err := io.WriteString(s.out.Stdout, b.String())
	return err
}

// Close restores the earlier content of the terminal, and its cursor. It may be called more than
// once. A later Show opens the screen again.
func (s *Screen) Close() {
	if s.open {
		s.open = false
		io.WriteString(s.out.Stdout, leaveScreen)
	}
}

// fitRows breaks lines to a number of columns, and limits their number to rows.
func fitRows(lines []string, columns, rows int) []string {
	var fit []string
	for _, line := range lines {
		fit = append(fit, breakLine(line, columns)...)
	}
	if rows <= 0 || len(fit) <= rows {
		return fit
	}
	more := fmt.Sprintf("… %s more", Count(len(fit)-rows+1, "line"))
	return append(fit[:rows-1], more)
}

// breakLine breaks a line that is too long for its terminal, at any character.
func breakLine(line string, columns int) []string {
	if columns == 0 || Cells(line) <= columns {
		return []string{line}
	}
	var lines []string
	start, at, used, state := 0, 0, 0, -1
	for rest := line; rest != ""; {
		var cluster string
		var width int
		cluster, rest, width, state = uniseg.FirstGraphemeClusterInString(rest, state)
		if used+width > columns {
			lines = append(lines, line[start:at])
			start, used = at, 0
		}
		at += len(cluster)
		used += width
	}
	return append(lines, line[start:])
}
