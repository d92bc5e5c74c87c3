package mail

import (
	"crypto/rand"
	"slices"
	"strings"
	"unicode"

	"agentstateloop/internal/plain"
	"agentstateloop/mail/message"
)

// A challenge asks the operator whether he wrote a mail that nothing proves to
// be his. Its Message-ID and its text hold a token; who can show that has read
// the operator's mail.

// NewToken gives a token: 26 letters and digits with 128 random bits and more,
// none of which is easily taken for another.
func NewToken() string { return strings.ToLower(rand.Text()) }

// tokenLength is that of a token, in characters of base32.
const tokenLength = 26

// ChallengeID is the id of a challenge's draft, and so the beginning of its
// Message-ID. It is no effect's id.
func ChallengeID(token string) string { return challengePrefix + token }

const challengePrefix = "challenge."

// Tokens gives what may be tokens in an answer with header h and text, to a mail
// that handle has sent from own: those of the Message-IDs it answers to, which
// mail programs copy, and every word of the text that looks like one, since some
// copy the text only. Nothing in them is proved.
func Tokens(h message.Header, handle, own, text string) []string {
	var tokens []string
	for _, id := range append([]string{h.InReplyTo}, h.References...) {
		if !message.OwnMessageID(id, handle, own) {
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

// Consent gives the token of a mail whose new text begins with the line "YES
// TOKEN", in any case; "" if it does not. Only the first line counts: a program
// that answers by itself may quote ours, but puts its own before it.
func Consent(replyText string) (token string) {
	line, _, _ := strings.Cut(strings.TrimSpace(replyText), "\n")
	if strings.HasPrefix(line, ">") {
		return "" // ours, quoted
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

// Excerpt is the beginning of a stranger's text, at most max characters, made
// harmless for showing it to the operator: one line, nothing that changes how the
// rest is written, and nothing that a mail program makes a link or an address of.
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
		case within && strings.ContainsRune(".\u3002\uff0e\uff61", r): // all of which end a label of a domain
			b.WriteString("[.]")
		case r == ':' && i < len(runes)-1 && runes[i+1] != ' ': // no scheme
			b.WriteString("[:]")
		default:
			b.WriteRune(r)
		}
	}
	return b.String() + end
}
