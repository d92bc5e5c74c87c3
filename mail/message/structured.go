package message

import (
	"errors"
	"mime"
	"strings"
	"unicode"
	"unicode/utf8"

	"agentstateloop/internal/plain"
)

// Token is a piece of a structured header field (RFC 5322 section 3.2): a word,
// a quoted string, or one special character.
type Token struct {
	Text   string // without the quotes of a quoted string
	Quoted bool
	Apart  bool // blanks or comments precede the token
}

// Is reports whether t is this special character, outside quotes.
func (t Token) Is(special string) bool { return !t.Quoted && t.Text == special }

// specials each make a token of their own. "\" is a special character, too, but is allowed only
// in quotes and comments. "=" and "/" are not special in an address (RFC 5322) but in a MIME
// value (RFC 2045); the parser of an address joins them again.
const specials = `<>@,;:[]=/.`

// Lexer splits the unfolded value of a field into tokens. Text in quotes or in a comment is
// never another token.
type Lexer struct{ rest string }

// NewLexer returns a lexer of value.
func NewLexer(value string) Lexer { return Lexer{value} }

// ErrField is the error for a value that breaks the lexical rules.
var ErrField = errors.New("malformed field")

// Next returns the next token. ok is false at the end. An unclosed quote or comment, a control
// character and a byte that is not UTF-8 are errors.
func (l *Lexer) Next() (t Token, ok bool, err error) {
	if t.Apart, err = l.skip(); err != nil || l.rest == "" {
		return Token{}, false, err
	}
	if l.rest[0] == '"' {
		t.Quoted = true
		t.Text, err = l.quotedString()
		return t, err == nil, err
	}
	if strings.IndexByte(specials, l.rest[0]) >= 0 {
		t.Text, l.rest = l.rest[:1], l.rest[1:]
		return t, true, nil
	}
	end := strings.IndexFunc(l.rest, func(r rune) bool {
		return strings.ContainsRune(specials+" \t\"()\\", r) || !textRune(r)
	})
	if end < 0 {
		end = len(l.rest)
	}
	if end == 0 {
		return Token{}, false, ErrField
	}
	t.Text, l.rest = l.rest[:end], l.rest[end:]
	return t, true, nil
}

// skip skips blanks and comments, which may be nested.
func (l *Lexer) skip() (skipped bool, err error) {
	depth := 0
	for i := 0; i < len(l.rest); {
		r, size := utf8.DecodeRuneInString(l.rest[i:])
		switch {
		case r == ' ' || r == '\t':
		case !textRune(r):
			return false, ErrField
		case r == '(':
			depth++
		case depth == 0:
			l.rest = l.rest[i:]
			return i > 0, nil
		case r == ')':
			depth--
		case r == '\\':
			// The next character has no special meaning.
			i += size
			r, size = utf8.DecodeRuneInString(l.rest[i:])
			if size == 0 || !textRune(r) && r != '\t' {
				return false, ErrField
			}
		}
		i += size
	}
	if depth > 0 {
		return false, ErrField
	}
	l.rest = ""
	return true, nil
}

// quotedString reads a quoted string, from its first quote on.
func (l *Lexer) quotedString() (string, error) {
	var b strings.Builder
	escaped := false
	for i, r := range l.rest {
		switch {
		case i == 0:
		case !textRune(r) && r != '\t':
			return "", ErrField
		case escaped:
			escaped = false
			b.WriteRune(r)
		case r == '\\':
			escaped = true
		case r == '"':
			l.rest = l.rest[i+1:]
			return b.String(), nil
		default:
			b.WriteRune(r)
		}
	}
	return "", ErrField
}

// textRune reports whether a field may contain r. Control characters and bytes that are not
// UTF-8 are not allowed.
func textRune(r rune) bool { return r != utf8.RuneError && !unicode.IsControl(r) }

// lex returns all tokens of value.
func lex(value string) ([]Token, error) {
	l := NewLexer(value)
	var tokens []Token
	for {
		t, ok, err := l.Next()
		if err != nil || !ok {
			return tokens, err
		}
		tokens = append(tokens, t)
	}
}

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
	if t, params, err := mime.ParseMediaType(v); err == nil {
		return t, params
	}
	v = withoutComments(v)
	if t, params, err := mime.ParseMediaType(v); err == nil {
		return t, params
	}
	t, _, _ := strings.Cut(v, ";")
	t, _, _ = strings.Cut(strings.ReplaceAll(strings.TrimSpace(t), "\t", " "), " ")
	params := parameters(v)
	for name, value := range params {
		params[name] = strings.Trim(value, `"`) // a stray quote
	}
	return strings.ToLower(t), params
}

// parameters reads the parameters of a value more leniently than mime.ParseMediaType: a value
// may hold blanks without being quoted, and quotes within its quotes. In quotes a backslash
// is literal unless a quote or another one follows, as in the paths that some
// programs write. Names are in lower case. Of several values of a name the first counts.
func parameters(v string) map[string]string {
	params := map[string]string{}
	_, rest, _ := strings.Cut(plain.Cut(v, maxParsed), ";")
	for rest != "" {
		i := strings.IndexAny(rest, "=;")
		if i < 0 {
			return params
		}
		name, assigned := strings.ToLower(strings.TrimSpace(rest[:i])), rest[i] == '='
		rest = rest[i+1:]
		if !assigned {
			continue
		}
		var value string
		rest = strings.TrimLeft(rest, " \t")
		if strings.HasPrefix(rest, `"`) {
			value, rest = quotedValue(rest[1:])
		} else {
			value, rest, _ = strings.Cut(rest, ";")
			value = strings.TrimSpace(value)
		}
		if _, seen := params[name]; !seen {
			params[name] = value
		}
	}
	return params
}

// quotedValue returns the text before the quote that ends a value, and the text after the next
// ";". Without such a quote the value ends at a ";".
func quotedValue(s string) (value, rest string) {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		switch {
		case s[i] == '\\' && i+1 < len(s) && (s[i+1] == '"' || s[i+1] == '\\'):
			i++
		case s[i] == '"':
			behind := strings.TrimLeft(s[i+1:], " \t")
			if behind == "" || behind[0] == ';' || behind[0] == '(' {
				_, rest, _ = strings.Cut(behind, ";")
				return b.String(), rest
			}
		}
		b.WriteByte(s[i])
	}
	value, rest, _ = strings.Cut(s, ";")
	return value, rest
}

// IsNullPath reports whether the value of Return-Path is the null path of bounces: "<>",
// possibly with comments around it (RFC 5321 section 4.5.5).
func IsNullPath(v string) bool {
	tokens, err := lex(v)
	return err == nil && len(tokens) == 2 && tokens[0].Is("<") && tokens[1].Is(">")
}
