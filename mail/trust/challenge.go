package trust

import (
	"crypto/rand"
	"slices"
	"strings"
	"unicode"

	"agentstateloop/internal/plain"
	"agentstateloop/mail/message"
)

// A challenge asks the operator about a mail whose sender is not proved. Its Message-ID and its
// text hold a token. A mail that shows the token is from somebody who can read the operator's
// mail.

// NewToken returns a token: 26 letters and digits that hold more than 128
// random bits. The alphabet has no two characters that look alike.
func NewToken() string { return strings.ToLower(rand.Text()) }

// tokenLength is the length of a token, in characters of base32.
const tokenLength = 26

// ChallengeID returns the draft ID of a challenge, which begins its Message-ID. It is never the
// ID of an effect.
func ChallengeID(token string) string { return challengePrefix + token }

const challengePrefix = "challenge."

// Tokens returns the possible tokens in an answer, with header h and text, to a mail that
// handle has sent from the address own. It looks at the Message-IDs that the answer refers to,
// which mail programs copy. It also returns every word of text that looks like a token, because
// some programs copy only the text. The tokens are not verified.
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

// Consent returns the token of a mail whose reply text begins with the line "YES TOKEN", in any
// case, and otherwise "". Only the first line counts: an automatic reply may quote our mail,
// but puts its own text first.
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

// asToken parses a word as a token, in any case.
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

// Excerpt returns the beginning of a stranger's text, at most max characters, in a form that is
// safe to show to the operator. It is one line. It cannot change how the rest is displayed, and
// mail programs do not turn any part of it into a link or an address.
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
