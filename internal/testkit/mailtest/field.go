package mailtest

import "strings"

// OutsideQuotes returns a field without its quotes and comments. It is a plain implementation,
// one byte at a time, to check a parser against.
func OutsideQuotes(value string) string {
	var b strings.Builder
	quoted, escaped, depth := false, false, 0
	for i := range len(value) {
		c := value[i]
		switch {
		case escaped:
			escaped = false
		case c == '\\' && (quoted || depth > 0):
			escaped = true
		case c == '"' && depth == 0:
			quoted = !quoted
		case quoted:
		case c == '(':
			depth++
		case c == ')' && depth > 0:
			depth--
		case depth == 0:
			b.WriteByte(c)
		}
	}
	return b.String()
}
