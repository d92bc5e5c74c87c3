package markdown

import (
	"bytes"

	"github.com/yuin/goldmark/ast"
	extast "github.com/yuin/goldmark/extension/ast"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/text"
)

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
	said := bytes.ToLower(before.Segment.Value(block.Source()))
	scheme := 0
	for _, s := range []string{"https", "http"} {
		if bytes.HasSuffix(said, []byte(s)) && (len(said) == len(s) || !isWord(said[len(said)-len(s)-1])) {
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
