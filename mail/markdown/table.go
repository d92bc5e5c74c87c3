package markdown

import (
	"bytes"

	"github.com/yuin/goldmark/ast"
	extast "github.com/yuin/goldmark/extension/ast"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/text"
)

// maxColumns is the maximum number of columns of a table. A wider table stays text.
const maxColumns = 50

// tables reads the tables of GitHub: a line of headings, a line of dashes, and rows.
type tables struct{}

// Transform turns the end of a paragraph into a table, starting at the line before the first
// line of dashes.
func (tables) Transform(p *ast.Paragraph, reader text.Reader, _ parser.Context) {
	src, lines := reader.Source(), p.Lines()
	for i := 1; i < lines.Len(); i++ {
		at := lines.At(i)
		columns := alignments(at.Value(src))
		if columns == nil {
			continue
		}
		heading := cells(lines.At(i-1), src)
		if len(heading) != len(columns) {
			continue
		}
		table := extast.NewTable()
		table.Alignments = columns
		table.AppendChild(table, extast.NewTableHeader(row(heading, columns)))
		for j := i + 1; j < lines.Len(); j++ {
			table.AppendChild(table, row(cells(lines.At(j), src), columns))
		}
		p.Parent().InsertAfter(p.Parent(), p, table)
		lines.SetSliced(0, i-1)
		if i == 1 {
			p.Parent().RemoveChild(p.Parent(), p)
			return
		}
		last := lines.At(i - 2)
		lines.Set(i-2, last.TrimRightSpace(src)) // otherwise a line end would follow it
		return
	}
}

// alignments reads a line of dashes, such as "|:---|---:|". It returns nil for any other line.
func alignments(line []byte) (columns []extast.Alignment) {
	line = bytes.TrimSpace(line)
	if bytes.IndexByte(line, '|') < 0 || bytes.Count(line, []byte("|")) > maxColumns+1 {
		return nil
	}
	line = bytes.TrimPrefix(line, []byte("|"))
	line = bytes.TrimSuffix(line, []byte("|"))
	for cell := range bytes.SplitSeq(line, []byte("|")) {
		cell = bytes.TrimSpace(cell)
		dashes := bytes.TrimSuffix(bytes.TrimPrefix(cell, []byte(":")), []byte(":"))
		if len(dashes) == 0 || len(bytes.Trim(dashes, "-")) > 0 {
			return nil
		}
		left, right := cell[0] == ':', cell[len(cell)-1] == ':'
		switch {
		case left && right:
			columns = append(columns, extast.AlignCenter)
		case right:
			columns = append(columns, extast.AlignRight)
		case left:
			columns = append(columns, extast.AlignLeft)
		default:
			columns = append(columns, extast.AlignNone)
		}
	}
	return columns
}

// cells returns the positions of the cells in a line. A bar after a backslash does not end a
// cell.
func cells(line text.Segment, src []byte) (all []text.Segment) {
	line = line.TrimLeftSpace(src)
	line = line.TrimRightSpace(src)
	if line.Start < line.Stop && src[line.Start] == '|' {
		line.Start++
	}
	start, escaped := line.Start, false
	for i := line.Start; i < line.Stop; i++ {
		switch c := src[i]; {
		case c == '|' && !escaped:
			all = append(all, trimmed(start, i, src))
			start = i + 1
			escaped = false
		default:
			escaped = c == '\\' && !escaped
		}
	}
	if start < line.Stop {
		all = append(all, trimmed(start, line.Stop, src))
	}
	return all
}

func trimmed(start, stop int, src []byte) text.Segment {
	s := text.NewSegment(start, stop)
	s = s.TrimLeftSpace(src)
	return s.TrimRightSpace(src)
}

// row returns a table row with one cell per column.
func row(cells []text.Segment, columns []extast.Alignment) *extast.TableRow {
	r := extast.NewTableRow(columns)
	for i, column := range columns {
		cell := extast.NewTableCell()
		cell.Alignment = column
		if i < len(cells) {
			cell.Lines().Append(cells[i])
		}
		r.AppendChild(r, cell)
	}
	return r
}
