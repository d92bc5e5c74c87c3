package message

import (
	"mime"
	"strings"

	"agentstateloop/internal/plain"
)

// This file reads structured values: a keyword, or a media type with its parameters.

// impersonal are the words of Precedence in mail that is not written to one reader.
var impersonal = []string{"bulk", "list", "junk", "auto_reply", "auto-reply"}

// Keyword returns the first word of a structured value in lower case, without parameters and
// comments (RFC 2045 section 5.1, RFC 3834 section 5). If comments and quotes do not match, it
// returns the text before the first blank, ";" or "(".
func Keyword(v string) string {
	l := NewLexer(v)
	word := ""
	for {
		t, ok, err := l.Next()
		if err != nil && word == "" {
			if i := strings.IndexAny(v, "; \t("); i >= 0 {
				v = v[:i]
			}
			return strings.ToLower(v)
		}
		if err != nil || !ok || t.Is(";") || word != "" && t.Apart {
			return strings.ToLower(word)
		}
		word += t.Text
	}
}

// withoutComments returns a value without its separate comments: those at its beginning, or
// after a blank or ";". If they do not match, it returns v.
func withoutComments(v string) string {
	var b strings.Builder
	quoted, escaped, depth, before := false, false, 0, rune(' ')
	for _, r := range v {
		switch {
		case escaped:
			escaped = false
		case r == '\\' && (quoted || depth > 0):
			escaped = true
		case depth > 0 && r == '(':
			depth++
		case depth > 0 && r == ')':
			depth--
			before = ' '
			continue
		case depth > 0:
		case r == '"':
			quoted = !quoted
		case !quoted && r == '(' && strings.ContainsRune(" \t;", before):
			depth = 1
		}
		if depth == 0 {
			b.WriteRune(r)
			before = r
		}
	}
	if depth > 0 || quoted {
		return v
	}
	return strings.TrimSpace(b.String())
}

// mediaType parses the first maxParsed bytes of a Content-Type, because the time for numbered
// parameters grows faster than their number. It returns the type even of a malformed value.
func mediaType(v string) (string, map[string]string) {
	v = plain.Cut(v, maxParsed)
	t, params, err := mime.ParseMediaType(v)
	if err == nil {
		return t, params
	}
	v = withoutComments(v)
	if t, params, err := mime.ParseMediaType(v); err == nil {
		return t, params
	}
	t, rest, _ := strings.Cut(v, ";")
	t = strings.ToLower(strings.TrimSpace(t))
	params = looseParams(rest)
	if i := strings.IndexAny(t, " \t"); i >= 0 {
		t = t[:i]
	}
	return t, params
}

// looseParams parses the parameters of a malformed field as far as possible.
func looseParams(s string) map[string]string {
	params := map[string]string{}
	for part := range strings.SplitSeq(s, ";") {
		k, v, ok := strings.Cut(part, "=")
		k = strings.ToLower(strings.TrimSpace(k))
		if _, seen := params[k]; ok && !seen {
			params[k] = strings.Trim(strings.TrimSpace(v), `"`)
		}
	}
	return params
}
