package mail_test

import (
	"agentstateloop/internal/testkit/mailtest"
	"agentstateloop/mail/trust"
	"fmt"
	"testing"
)

// TestMailToChallenge checks that only mail that lacks just a proof may be challenged, and only if
// the operator has configured that.
func TestMailToChallenge(t *testing.T) {
	for _, f := range []struct {
		name   string
		filter trust.Filter
		ask    bool
	}{
		{"dmarc", trusting(), false},
		{"dmarc, fallback", trusting(func(f *trust.Filter) { f.Fallback = true }), true},
		{"dkim, fallback", trusting(func(f *trust.Filter) { f.Verify, f.Fallback = trust.VerifyDKIM, true }), true},
		{"challenge", trusting(func(f *trust.Filter) { f.Require = trust.RequireChallenge }), true},
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
			found := judgeMails(t, h, f.filter, mails)
			for header, want := range cases {
				m, ok := found[whole[header]]
				if !ok || m.Gate == "" || m.Ask != want || m.Ask && m.Gate != trust.GateTrust {
					t.Errorf("%q: found %v, gate %q (%s), ask %v, want %v", header, ok, m.Gate, m.Reason, m.Ask, want)
				}
			}
		})
	}
}

// TestChallengeIgnoresProofs checks that under require = "challenge" neither a result of the server
// nor a signature is a proof.
func TestChallengeIgnoresProofs(t *testing.T) {
	h, _ := memoryHost(t, mailtest.Options{})
	raw := pass + op + call + "\r\nhello\r\n"
	found := judgeMails(t, h, trusting(func(f *trust.Filter) { f.Require = trust.RequireChallenge }), []string{raw})
	if m := found[raw]; m.Gate != trust.GateTrust || !m.Ask {
		t.Errorf("%+v", m)
	}
}
