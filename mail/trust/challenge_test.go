package trust_test

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"agentstateloop/mail/message"
	"agentstateloop/mail/trust"
)

// filter is the filter of the agent in these tests.
var filter = trust.Filter{Handle: "goulard3120", Own: "artificer3120@example.org", IDKey: message.IDKey{Secret: bytes.Repeat([]byte{7}, 32)}}

func ids(handle, own string) message.IDs {
	return message.IDs{Handle: handle, Address: own, IDKey: filter.IDKey}
}

// ownID returns the Message-ID of the agent's mail for an effect.
func ownID(effect, subject string) string {
	return ids(filter.Handle, filter.Own).Make(effect, subject)
}

func TestNewTokenIsParsed(t *testing.T) {
	aToken := trust.NewToken()
	if other := trust.NewToken(); other == aToken {
		t.Fatal("two tokens are the same")
	}
	if got := trust.Consent("YES " + aToken); got != aToken {
		t.Errorf("a new token %q is read as %q", aToken, got)
	}
	id := ownID(trust.ChallengeID(aToken), "")
	if got := trust.Tokens(message.Header{InReplyTo: id}, filter.Handle, filter.Own, ""); !slices.Equal(got, []string{aToken}) {
		t.Errorf("the token of %s is %v, want %s", id, got, aToken)
	}
}

const aToken = "abcdefghijklmnopqrstuvwx23"

// TestConsent checks the variants of "YES TOKEN" that programs write, and texts that only resemble
// them.
func TestConsent(t *testing.T) {
	for text, want := range map[string]string{
		"YES " + aToken:        aToken,
		"yes " + aToken:        aToken,
		"Yes, " + aToken + ".": aToken,
		"\n  Yes:  " + strings.ToUpper(aToken) + " ":       aToken,
		"YES\u00a0" + aToken:                               aToken,
		"*YES " + aToken + "*":                             aToken,
		"_YES_ _" + aToken + "_":                           aToken,
		"YES " + aToken + "\n\nand hurry":                  aToken,
		"YES " + aToken + "\r\n> quoted":                   aToken,
		"YES":                                              "",
		"YES please":                                       "",
		aToken:                                             "",
		"NO " + aToken:                                     "",
		"YES " + aToken[:25]:                               "",
		"YES " + aToken + "4":                              "",
		"YES abcdefghijklmnopqrstuvwx01":                   "",
		"YES YES " + aToken:                                "",
		"YES " + aToken + " " + aToken:                     "",
		"I am away.\n\nYES " + aToken:                      "",
		"On Monday you wrote:\nYES " + aToken:              "",
		"> YES " + aToken:                                  "",
		"YES " + strings.Replace(aToken, "k", "\u212a", 1): "",
		"": "",
	} {
		if got := trust.Consent(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

// TestAnswerTokens checks the places where an answer can have the token.
func TestAnswerTokens(t *testing.T) {
	ids := ids("goulard3120", "agent@example.org")
	id := ids.Make(trust.ChallengeID(aToken), "did you write this?")
	const other = "zyxwvutsrqponmlkjihgfedc76"
	for name, c := range map[string]struct {
		header message.Header
		text   string
		want   []string
	}{
		"In-Reply-To":                 {message.Header{InReplyTo: id}, "", []string{aToken}},
		"References":                  {message.Header{References: []string{"<a@b>", id}}, "", []string{aToken}},
		"from before MACs":            {message.Header{InReplyTo: "<challenge." + aToken + ".goulard3120@example.org>"}, "", []string{aToken}},
		"in capitals":                 {message.Header{InReplyTo: strings.ToUpper(id)}, "", []string{aToken}},
		"quoted in the text":          {message.Header{}, "no\n> YES " + aToken + "\n", []string{aToken}},
		"both, once":                  {message.Header{InReplyTo: id}, aToken, []string{aToken}},
		"two":                         {message.Header{InReplyTo: id}, other, []string{aToken, other}},
		"another agent's challenge":   {message.Header{InReplyTo: strings.Replace(id, "goulard", "dorlange", 1)}, "", nil},
		"another address's challenge": {message.Header{InReplyTo: strings.Replace(id, "example.org", "example.net", 1)}, "", nil},
		"another mail of ours":        {message.Header{InReplyTo: ids.Make("reply.t1", "hm")}, "", nil},
		"a word that is longer":       {message.Header{}, aToken + "x", nil},
		"a word within another":       {message.Header{}, "x" + aToken, nil},
		"an address that begins so":   {message.Header{}, aToken + "@example.com", []string{aToken}},
		"nothing":                     {message.Header{}, "hello", nil},
		"wrapped":                     {message.Header{}, aToken[:13] + "\n" + aToken[13:], nil},
	} {
		if got := trust.Tokens(c.header, "goulard3120", "agent@example.org", c.text); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

func TestExcerpt(t *testing.T) {
	for text, want := range map[string]string{
		"hello":                          "hello",
		" hello\r\n\r\n\tworld. Bye. ":   "hello world. Bye.",
		"see http://evil.example.net/x":  "see http[:]//evil[.]example[.]net/x",
		"www.evil.net, a@evil.net":       "www[.]evil[.]net, a(at)evil[.]net",
		"evil\u3002net":                  "evil[.]net",
		"mailto:x javascript:y":          "mailto[:]x javascript[:]y",
		"a\u202eb\u200bc\x1b[31md\x00e":  "abc[31mde",
		"\u2066x\u2069\ufeff":            "x",
		strings.Repeat("ä", 41):          strings.Repeat("ä", 40) + "...",
		strings.Repeat("ä", 40):          strings.Repeat("ä", 40),
		"at 9:30: two things: 3.14 of 9": "at 9[:]30: two things: 3[.]14 of 9",
		"":                               "",
	} {
		if got := trust.Excerpt(text, 40); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}
