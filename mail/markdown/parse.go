package markdown

import (
	"sync"

	"github.com/yuin/goldmark/ast"
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
