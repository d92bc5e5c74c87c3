package markdown

import (
	"bytes"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/yuin/goldmark/ast"
	extast "github.com/yuin/goldmark/extension/ast"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/text"
	"github.com/yuin/goldmark/util"
)

// reader returns the parser of our Markdown. It is created on first use.
//
// It parses GitHub's Markdown, with tables, strikethrough, task lists and bare addresses, with
// two exceptions. HTML is text: an agent that writes Vec<String> means it. Link definitions are
// not supported, because a log line such as "[warn]: disk" would be one, and vanish.
//
// The extensions of goldmark are not imported: they would add more to the start of every
// command than the rest of goldmark together (docs/performance.md).
var reader = sync.OnceValue(func() parser.Parser {
	return parser.NewParser(
		parser.WithBlockParsers(
			util.Prioritized(parser.NewSetextHeadingParser(), 100),
			util.Prioritized(parser.NewThematicBreakParser(), 200),
			util.Prioritized(parser.NewListParser(), 300),
			util.Prioritized(parser.NewListItemParser(), 400),
			util.Prioritized(parser.NewCodeBlockParser(), 500),
			util.Prioritized(parser.NewATXHeadingParser(), 600),
			util.Prioritized(parser.NewFencedCodeBlockParser(), 700),
			util.Prioritized(parser.NewBlockquoteParser(), 800),
			util.Prioritized(parser.NewParagraphParser(), 1000),
		),
		parser.WithInlineParsers(
			util.Prioritized(parser.NewCodeSpanParser(), 100),
			util.Prioritized(parser.NewLinkParser(), 200),
			util.Prioritized(parser.NewAutoLinkParser(), 300),
			util.Prioritized(bareAddresses{}, 400),
			util.Prioritized(parser.NewEmphasisParser(), 500),
			util.Prioritized(struckText{}, 500),
		),
		parser.WithParagraphTransformers(util.Prioritized(tables{}, 200)),
	)
})

func parse(src []byte) ast.Node { return reader().Parse(text.NewReader(src)) }

// maxMarks is the maximum number of marks in a paragraph, or in lines without an empty line
// between them. The time to match marks grows with the square of their number.
const maxMarks = 3000

// readable reports whether text is UTF-8 that a person may have written. Goldmark takes long to
// parse other text.
func readable(text string) bool {
	marks := 0
	for line := range strings.Lines(text) {
		start := strings.TrimLeft(line, "> \t")
		if strings.Count(line[:len(line)-len(start)], ">") > maxDepth {
			return false
		}
		if strings.TrimSpace(line) == "" {
			marks = 0
		}
		for _, b := range []byte(line) {
			switch b {
			case '*', '_', '[', ']', '~', '`', '<', ':':
				marks++
			}
		}
		if marks > maxMarks {
			return false
		}
	}
	return utf8.ValidString(text)
}

// struckText reads ~~struck text~~.
type struckText struct{}

func (struckText) Trigger() []byte         { return []byte{'~'} }
func (struckText) IsDelimiter(b byte) bool { return b == '~' }

func (struckText) CanOpenCloser(opener, closer *parser.Delimiter) bool {
	return opener.Char == closer.Char
}

func (struckText) OnMatch(int) ast.Node { return extast.NewStrikethrough() }

// Parse accepts exactly two tildes. A single one belongs to a path or a rough number.
func (s struckText) Parse(_ ast.Node, block text.Reader, pc parser.Context) ast.Node {
	before := block.PrecendingCharacter()
	line, segment := block.PeekLine()
	d := parser.ScanDelimiter(line, before, 2, s)
	if d == nil || d.OriginalLength != 2 || before == '~' {
		return nil
	}
	d.Segment = segment.WithStop(segment.Start + d.OriginalLength)
	block.Advance(d.OriginalLength)
	pc.PushDelimiter(d)
	return d
}

// bareAddresses reads http and https addresses in running text.
type bareAddresses struct{}

func (bareAddresses) Trigger() []byte { return []byte{':'} }

// Parse is called at a colon. The name of the scheme then ends the preceding text.
func (bareAddresses) Parse(parent ast.Node, block text.Reader, pc parser.Context) ast.Node {
	line, segment := block.PeekLine()
	before, ok := parent.LastChild().(*ast.Text)
	if pc.IsInLinkLabel() || !ok || before.Segment.Stop != segment.Start || !bytes.HasPrefix(line, []byte("://")) {
		return nil
	}
	preceding := bytes.ToLower(before.Segment.Value(block.Source()))
	scheme := 0
	for _, s := range []string{"https", "http"} {
		if bytes.HasSuffix(preceding, []byte(s)) && (len(preceding) == len(s) || !isWord(preceding[len(preceding)-len(s)-1])) {
			scheme = len(s)
		}
	}
	length := addressLength(line)
	if scheme == 0 || length <= len("://") {
		return nil
	}
	before.Segment.Stop -= scheme
	if before.Segment.IsEmpty() && !before.SoftLineBreak() {
		parent.RemoveChild(parent, before)
	}
	block.Advance(length)
	whole := text.NewSegment(segment.Start-scheme, segment.Start+length)
	return ast.NewAutoLink(ast.AutoLinkURL, ast.NewTextSegment(whole))
}

// addressLength returns the length of the address at the beginning of line. Punctuation that
// ends a sentence or encloses the address is not part of it.
func addressLength(line []byte) int {
	n := bytes.IndexFunc(line, func(r rune) bool {
		return r <= ' ' || r == '<' || r == '>' || r == '"' || r == '`' || r == '|' || r == '\u00a0' || r >= 0x3000 && r <= 0x303f || r >= 0xff00 && r <= 0xff65
	})
	if n < 0 {
		n = len(line)
	}
	for n > 0 {
		switch c := line[n-1]; {
		case bytes.IndexByte([]byte(".,;:!?'*_~]}"), c) >= 0:
		case c == ')' && bytes.Count(line[:n], []byte("(")) < bytes.Count(line[:n], []byte(")")):
		default:
			return n
		}
		n--
	}
	return 0
}

func isWord(b byte) bool {
	return b >= 'a' && b <= 'z' || b >= 'A' && b <= 'Z' || b >= '0' && b <= '9' || b >= 0x80
}

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
