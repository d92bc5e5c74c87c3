package terminal

import (
	"io"
	"os"
	"slices"
	"strings"

	"github.com/rivo/uniseg"
	"golang.org/x/term"
)

// Column describes how a column of a Grid may shrink on a narrow terminal.
type Column struct {
	// Least is the minimum number of cells to which texts may be cut. 0 means that they must not be
	// cut.
	Least int
}

// Grid prints rows of cells, aligned in columns with two blanks between them. On a terminal that is
// too narrow, it cuts texts of the columns that allow it, the widest column first. It wraps the
// last column at words: in place, or, where that is too narrow, on separate lines. Without a
// terminal it cuts and wraps no text. Each row has as many cells as there are columns.
func (o *Output) Grid(columns []Column, rows [][]string) error {
	rows = o.redactedRows(rows)
	g := grid{columns: columns, widths: make([]int, len(columns)), terminal: columnsOf(o.Columns)}
	g.measure(rows)
	g.fit()
	var b strings.Builder
	for _, row := range rows {
		g.row(&b, row)
	}
	_, err := io.WriteString(o.Stdout, b.String())
	return err
}

func (o *Output) redactedRows(rows [][]string) [][]string {
	if o.Redact == nil {
		return rows
	}
	clean := make([][]string, len(rows))
	for i, row := range rows {
		for _, cell := range row {
			clean[i] = append(clean[i], o.Redact(cell))
		}
	}
	return clean
}

const (
	gap           = "  "
	belowIndent   = 4  // of the last column on separate lines
	leastLastWide = 24 // cells that the last column needs for wrapping in place
)

type grid struct {
	columns  []Column
	widths   []int
	terminal int // columns of the terminal; 0 without a terminal
}

func (g *grid) measure(rows [][]string) {
	for _, row := range rows {
		for i, cell := range row {
			g.widths[i] = max(g.widths[i], Cells(cell))
		}
	}
}

// before returns the total width of the columns before the last one, in cells.
func (g *grid) before() int {
	sum := 0
	for i, w := range g.widths[:len(g.widths)-1] {
		if w > 0 || i == 0 {
			sum += w + len(gap)
		}
	}
	return sum
}

// fit narrows the columns that may be cut until the last one fits in place. If it cannot fit, it
// goes on separate lines, and the other columns get the whole width.
func (g *grid) fit() {
	if g.terminal == 0 {
		return
	}
	last := len(g.widths) - 1
	whole := slices.Clone(g.widths)
	g.narrow(g.terminal - min(g.widths[last], max(leastLastWide, g.terminal/3)))
	if g.terminal-g.before() < min(leastLastWide, g.widths[last]) {
		g.widths = whole
		g.narrow(g.terminal + len(gap))
	}
}

// narrow cuts the widest column before the last one until those columns take at most the given
// number of cells.
func (g *grid) narrow(cells int) {
	for g.before() > cells {
		widest := -1
		for i, c := range g.columns[:len(g.columns)-1] {
			if c.Least > 0 && g.widths[i] > c.Least && (widest < 0 || g.widths[i] > g.widths[widest]) {
				widest = i
			}
		}
		if widest < 0 {
			return
		}
		g.widths[widest]--
	}
}

func (g *grid) row(b *strings.Builder, row []string) {
	last := len(row) - 1
	var line strings.Builder
	for i, cell := range row[:last] {
		if g.widths[i] == 0 && i > 0 {
			continue // an empty column
		}
		cell = g.cut(i, cell)
		line.WriteString(cell + strings.Repeat(" ", max(0, g.widths[i]-Cells(cell))) + gap)
	}
	text, indent := line.String(), g.before()
	switch whole := text + row[last]; {
	case g.terminal == 0 || Cells(whole) <= g.terminal:
		text = whole
	case g.terminal-indent >= leastLastWide:
		text = wrapLine(whole, g.terminal, indent)
	default:
		below := strings.Repeat(" ", belowIndent)
		text = strings.TrimRight(text, " ") + "\n" + wrapLine(below+row[last], g.terminal, belowIndent)
	}
	b.WriteString(strings.TrimRight(text, " ") + "\n")
}

// cut returns a cell cut to the width of its column.
func (g *grid) cut(i int, cell string) string {
	if g.terminal == 0 || g.columns[i].Least == 0 {
		return cell
	}
	return Truncate(cell, g.widths[i])
}

// fewestColumns is the minimum width. A narrower terminal is treated as this wide.
const fewestColumns = 20

// ColumnsOf returns a function that returns the current number of columns of the terminal w. The
// function returns 0 if w is not a terminal, or if the width is unknown.
func ColumnsOf(w io.Writer) func() int {
	if !IsTerminal(w) {
		return noSize
	}
	f := w.(*os.File)
	return func() int {
		columns, _, err := term.GetSize(int(f.Fd()))
		if err != nil || columns <= 0 {
			return 0
		}
		return max(columns, fewestColumns)
	}
}

// IsTerminal reports whether w is a terminal.
func IsTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

func noSize() int { return 0 }

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
