package message

import (
	"slices"
	"strings"

	"agentstateloop/internal/plain"
)

// maxQuoteDepth is the maximum number of quotation levels that are distinguished in a flowed
// line.
const maxQuoteDepth = 50

// unflow returns a text in format=flowed (RFC 3676) with each paragraph on one line. A
// quoted paragraph begins with one ">" for each level and a blank. If delsp is true, the
// blank that breaks a line is not part of the text.
func unflow(text string, delsp bool) string {
	var out strings.Builder
	first := true
	open, depth := false, 0 // the last line continues, at this depth of quotation
	for line := range strings.SplitSeq(strings.ReplaceAll(text, "\r\n", "\n"), "\n") {
		quoted := strings.TrimLeft(line, ">")
		marks := min(len(line)-len(quoted), maxQuoteDepth)
		stuffed := strings.HasPrefix(quoted, " ")
		content := strings.TrimPrefix(quoted, " ")
		signature := content == "-- "
		goesOn := open && depth == marks && !signature && content != "" // an empty line ends a paragraph, despite the RFC
		if !goesOn {
			if !first {
				out.WriteByte('\n')
			}
			first = false
			out.WriteString(strings.Repeat(">", marks))
			// A ">" written by hand must not become a quotation.
			if marks > 0 || stuffed && strings.HasPrefix(content, ">") {
				out.WriteByte(' ')
			}
		}
		open = strings.HasSuffix(content, " ") && !signature
		if open && delsp {
			content = content[:len(content)-1]
		}
		out.WriteString(content)
		depth = marks
	}
	return out.String()
}

// readable returns the text of a part whose charset is already decoded.
func (e entity) readable(s string) string {
	switch {
	case e.mediaType == "text/html":
		text, _ := htmlText(s)
		return text
	case e.mediaType == "text/enriched" || e.mediaType == "text/richtext":
		return enrichedText(s)
	case e.mediaType == "text/plain" && e.has("format", "flowed"):
		return plain.Text(unflow(s, e.has("delsp", "yes")))
	}
	return plain.Text(s)
}

// has reports whether a parameter of the media type has this value.
func (e entity) has(name, value string) bool {
	return strings.EqualFold(strings.TrimSpace(e.params[name]), value)
}

// sameWords reports whether two texts have the same words, without their quotation marks.
func sameWords(a, b string) bool { return slices.Equal(unquotedWords(a), unquotedWords(b)) }

// unquotedWords returns the words of a text without its quotation marks.
func unquotedWords(text string) []string {
	var words []string
	for line := range strings.Lines(text) {
		words = append(words, strings.Fields(strings.TrimLeft(line, "> "))...)
	}
	return words
}
