package message

import (
	"errors"
	"strings"
	"unicode"
	"unicode/utf8"
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
