package message

import (
	"strings"

	"agentstateloop/internal/plain"
)

// enrichedText returns the text of a part in text/enriched (RFC 1896) without its markup. In
// this format a single line end is a blank, and the first of several is left out.
func enrichedText(s string) string {
	var out strings.Builder
	s = strings.ReplaceAll(s, "\r\n", "\n")
	for s != "" {
		switch {
		case strings.HasPrefix(s, "<<"):
			out.WriteByte('<')
			s = s[2:]
		case s[0] == '<':
			command, rest, ok := strings.Cut(s[1:], ">")
			if !ok {
				out.WriteString(s)
				return plain.Text(out.String())
			}
			if s = rest; strings.EqualFold(command, "param") {
				s = behindParam(s)
			}
		case s[0] == '\n':
			lines := strings.TrimLeft(s, "\n")
			if n := len(s) - len(lines); n > 1 {
				out.WriteString(s[:n-1])
			} else {
				out.WriteByte(' ')
			}
			s = lines
		default:
			n := strings.IndexAny(s, "<\n")
			if n < 0 {
				n = len(s)
			}
			out.WriteString(s[:n])
			s = s[n:]
		}
	}
	return plain.Text(out.String())
}

// behindParam returns the text after the end of a parameter.
func behindParam(s string) string {
	const end = "</param>"
	for {
		i := strings.Index(s, "</")
		if i < 0 {
			return ""
		}
		if s = s[i:]; len(s) >= len(end) && strings.EqualFold(s[:len(end)], end) {
			return s[len(end):]
		}
		s = s[2:]
	}
}
