package terminal

import (
	"io"
	"os"

	"github.com/rivo/uniseg"
	"golang.org/x/term"
)

// fewestColumns is what a narrower terminal is taken for.
const fewestColumns = 20

// ColumnsOf returns a function that returns the number of columns of the terminal that w
// writes to, now. It returns 0 if w is not a terminal, or one that does not tell.
func ColumnsOf(w io.Writer) func() int {
	f, ok := w.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) {
		return nowhere
	}
	return func() int {
		columns, _, err := term.GetSize(int(f.Fd()))
		if err != nil || columns <= 0 {
			return 0
		}
		return max(columns, fewestColumns)
	}
}

func nowhere() int { return 0 }

// columnsOf returns what a function of ColumnsOf returns, or 0 for nil.
func columnsOf(columns func() int) int {
	if columns == nil {
		return 0
	}
	return columns()
}

// Cells returns the number of columns that text takes on a terminal: two for a
// Chinese character or an emoji, none for an accent of its own.
func Cells(text string) int {
	if isASCII(text) {
		return len(text)
	}
	return uniseg.StringWidth(text)
}

func isASCII(text string) bool {
	for i := range len(text) {
		if text[i] >= 0x80 {
			return false
		}
	}
	return true
}

// Truncate returns text in at most so many cells. A text that does not fit ends with
// "…".
func Truncate(text string, cells int) string {
	if Cells(text) <= cells {
		return text
	}
	if cells <= 0 {
		return ""
	}
	fits, used, state := 0, 0, -1
	for rest := text; rest != ""; {
		var cluster string
		var width int
		cluster, rest, width, state = uniseg.FirstGraphemeClusterInString(rest, state)
		if used+width > cells-1 {
			break
		}
		used += width
		fits += len(cluster)
	}
	return text[:fits] + "…"
}
