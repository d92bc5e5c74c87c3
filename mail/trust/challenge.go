package trust

import (
	"crypto/rand"
	"slices"
	"strings"
	"unicode"

	"agentstateloop/internal/plain"
	"agentstateloop/mail/message"
)

// A challenge asks the operator about a mail that nothing proves to be from them.
// Its Message-ID and its text hold a token. A mail that shows the token is from
// somebody who can read the operator's mail.

// NewToken returns a token: 26 letters and digits that hold more than 128
// random bits. The alphabet has no two characters that look alike.
func NewToken() string { return strings.ToLower(rand.Text()) }

// tokenLength is the length of a token, in characters of base32.
const tokenLength = 26

// ChallengeID returns the id of the draft of a challenge, which begins its
// Message-ID. No effect has such an id.
func ChallengeID(token string) string { return challengePrefix + token }

const challengePrefix = "challenge."

// Tokens returns what may be tokens in an answer, with header h and text, to a
// mail that handle has sent from the address own. It looks at the Message-IDs
// that the answer refers to, which mail programs copy. It also returns every
// word of text that looks like a token, because some programs copy only the
// text. Nothing in them is proved.
func Tokens(h message.Header, handle, own, text string) []string {
	var tokens []string
	ids := message.IDs{Handle: handle, Address: own}
	for _, id := range append([]string{h.InReplyTo}, h.References...) {
		if !ids.HasForm(id) {
			continue
		}
		if rest, ok := strings.CutPrefix(strings.ToLower(id), "<"+challengePrefix); ok {
			token, _, _ := strings.Cut(rest, ".")
			tokens = append(tokens, token)
		}
	}
	for word := range strings.FieldsFuncSeq(text, notWordRune) {
		if token, ok := asToken(word); ok {
			tokens = append(tokens, token)
		}
	}
	slices.Sort(tokens)
	return slices.Compact(tokens)
}

// Consent returns the token of a mail whose reply text begins with the line
// "YES TOKEN", in any case, and else "". Only the first line counts: a program
// that answers by itself may quote our mail, but puts its own text first.
func Consent(replyText string) (token string) {
	line, _, _ := strings.Cut(message.WithoutBanners(replyText), "\n")
	if strings.HasPrefix(line, ">") {
		return "" // quoted from our mail
	}
	words := strings.FieldsFunc(line, notWordRune)
	if len(words) != 2 || !strings.EqualFold(words[0], "yes") {
		return ""
	}
	token, _ = asToken(words[1])
	return token
}

func notWordRune(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) }

// asToken reads a word as a token, in any case.
func asToken(word string) (token string, ok bool) {
	if len(word) != tokenLength {
		return "", false
	}
	token = strings.ToLower(word)
	for _, r := range token {
		if !(r >= 'a' && r <= 'z' || r >= '2' && r <= '7') {
			return "", false
		}
	}
	return token, true
}

// Excerpt returns the beginning of a stranger's text, at most max characters,
// that can be shown to the operator. It is one line. It holds nothing that
// changes how the rest is displayed, and nothing that a mail program turns into
// a link or an address.
func Excerpt(text string, max int) string {
	text = strings.Map(func(r rune) rune {
		switch {
		case unicode.IsSpace(r):
			return ' '
		case unicode.IsPrint(r):
			return r
		}
		return -1
	}, plain.Text(text))
	runes := []rune(strings.Join(strings.Fields(text), " "))
	end := ""
	if len(runes) > max {
		runes, end = runes[:max], "..."
	}
	var b strings.Builder
	for i, r := range runes {
		within := i > 0 && i < len(runes)-1 && wordRune(runes[i-1]) && wordRune(runes[i+1])
		switch {
		case r == '@':
			b.WriteString("(at)")
		case within && strings.ContainsRune(".\u3002\uff0e\uff61", r): // each of them ends a label of a domain
			b.WriteString("[.]")
		case r == ':' && i < len(runes)-1 && runes[i+1] != ' ': // not the scheme of a URL
			b.WriteString("[:]")
		default:
			b.WriteRune(r)
		}
	}
	return b.String() + end
}
