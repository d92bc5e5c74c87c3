package mail_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"agentstateloop/mail"
	"agentstateloop/mail/mailtest"
	"agentstateloop/mail/message"
)

func TestToken(t *testing.T) {
	aToken := mail.NewToken()
	if other := mail.NewToken(); other == aToken {
		t.Fatal("two tokens are the same")
	}
	if got := mail.Consent("YES " + aToken); got != aToken {
		t.Errorf("a new token %q is read as %q", aToken, got)
	}
	id := ownID(mail.ChallengeID(aToken), "")
	if got := mail.Tokens(message.Header{InReplyTo: id}, filter.Handle, filter.Own, ""); !slices.Equal(got, []string{aToken}) {
		t.Errorf("the token of %s is %v, want %s", id, got, aToken)
	}
}

const aToken = "abcdefghijklmnopqrstuvwx23"

// Programs change "YES TOKEN" in many ways, and other texts resemble it.
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
		if got := mail.Consent(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

// An answer shows the token in several places.
func TestTokensOfAnAnswer(t *testing.T) {
	ids := idsOf("goulard3120", "agent@example.org")
	id := ids.Make(mail.ChallengeID(aToken), "did you write this?")
	const other = "zyxwvutsrqponmlkjihgfedc76"
	for name, c := range map[string]struct {
		header message.Header
		text   string
		want   []string
	}{
		"In-Reply-To":                   {message.Header{InReplyTo: id}, "", []string{aToken}},
		"References":                    {message.Header{References: []string{"<a@b>", id}}, "", []string{aToken}},
		"from before MACs":              {message.Header{InReplyTo: "<challenge." + aToken + ".goulard3120@example.org>"}, "", []string{aToken}},
		"in capitals":                   {message.Header{InReplyTo: strings.ToUpper(id)}, "", []string{aToken}},
		"quoted in the text":            {message.Header{}, "no\n> YES " + aToken + "\n", []string{aToken}},
		"both, once":                    {message.Header{InReplyTo: id}, aToken, []string{aToken}},
		"two":                           {message.Header{InReplyTo: id}, other, []string{aToken, other}},
		"another agent's challenge":     {message.Header{InReplyTo: strings.Replace(id, "goulard", "dorlange", 1)}, "", nil},
		"another address's challenge":   {message.Header{InReplyTo: strings.Replace(id, "example.org", "example.net", 1)}, "", nil},
		"another mail of ours":          {message.Header{InReplyTo: ids.Make("reply.t1", "hm")}, "", nil},
		"a word that is longer":         {message.Header{}, aToken + "x", nil},
		"a word within another":         {message.Header{}, "x" + aToken, nil},
		"an address that begins so":     {message.Header{}, aToken + "@example.com", []string{aToken}},
		"nothing":                       {message.Header{}, "hello", nil},
		"wrapped, as nobody wraps them": {message.Header{}, aToken[:13] + "\n" + aToken[13:], nil},
	} {
		if got := mail.Tokens(c.header, "goulard3120", "agent@example.org", c.text); !slices.Equal(got, c.want) {
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
		if got := mail.Excerpt(text, 40); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

// Only mail that lacks nothing but a proof may be asked about, and only if the
// operator wants to be asked.
func TestWhatIsAskedAbout(t *testing.T) {
	for _, f := range []struct {
		name   string
		filter mail.Filter
		ask    bool
	}{
		{"dmarc", trusting(), false},
		{"dmarc, fallback", trusting(func(f *mail.Filter) { f.Fallback = true }), true},
		{"dkim, fallback", trusting(func(f *mail.Filter) { f.Verify, f.Fallback = mail.VerifyDKIM, true }), true},
		{"challenge", trusting(func(f *mail.Filter) { f.Require = mail.RequireChallenge }), true},
	} {
		t.Run(f.name, func(t *testing.T) {
			h, _ := memoryHost(t, mailtest.Options{})
			cases := map[string]bool{
				op + call: f.ask,
				ar + "; dmarc=fail header.from=example.com\r\n" + op + call: f.ask,
				op + "From: evil@example.net\r\n" + call:                    false,
				"From: operator@example.com, evil@example.net\r\n" + call:   false,
				"From: Us: operator@example.com;\r\n" + call:                false,
				op + call + "Auto-Submitted: auto-replied\r\n":              false,
				op + call + "List-Id: <x.example.com>\r\n":                  false,
				op + call + "Return-Path: <>\r\n":                           false,
				"X-Y: a\rb\r\n" + op + call:                                 false,
			}
			var mails []string
			whole := map[string]string{}
			for header := range cases {
				raw := header + fmt.Sprintf("Message-ID: <%d@example.com>\r\n\r\nhello\r\n", len(mails))
				mails, whole[header] = append(mails, raw), raw
			}
			found := gatesOf(t, h, f.filter, mails)
			for header, want := range cases {
				m, ok := found[whole[header]]
				if !ok || m.Gate == "" || m.Ask != want || m.Ask && m.Gate != mail.GateTrust {
					t.Errorf("%q: found %v, gate %q (%s), ask %v, want %v", header, ok, m.Gate, m.Reason, m.Ask, want)
				}
			}
		})
	}
}

// Under require = "challenge" neither a statement of the server nor a signature
// proves anything.
func TestChallengeBelievesNobody(t *testing.T) {
	h, _ := memoryHost(t, mailtest.Options{})
	raw := pass + op + call + "\r\nhello\r\n"
	found := gatesOf(t, h, trusting(func(f *mail.Filter) { f.Require = mail.RequireChallenge }), []string{raw})
	if m := found[raw]; m.Gate != mail.GateTrust || !m.Ask {
		t.Errorf("%+v", m)
	}
}
