package terminal

import (
	"io"
	"os"

	"github.com/rivo/uniseg"
	"golang.org/x/term"
)

// fewestColumns is the minimum width. A narrower terminal is treated as this wide.
const fewestColumns = 20

// ColumnsOf returns a function that returns the current number of columns of the terminal w. The
// function returns 0 if w is not a terminal, or if the width is unknown.
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

// columnsOf calls a function of ColumnsOf. It returns 0 for nil.
func columnsOf(columns func() int) int {
	if columns == nil {
		return 0
	}
	return columns()
}

// Cells returns the number of columns that text takes on a terminal: two for a Chinese character or
// an emoji, zero for a combining accent.
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

// Truncate shortens text to at most the given number of cells. Shortened text ends with "…".
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
