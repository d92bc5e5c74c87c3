package mail_test

import (
	"bytes"
	"strings"
	"testing"

	"agentstateloop/internal/testkit/mailtest"
	"agentstateloop/mail/trust"
)

// The fields of an answer that providers sign: all that make it an answer, only its recipients, or
// neither.
var (
	signsAnswers    = []string{"From", "To", "Subject", "Date", "Message-ID", "In-Reply-To", "References"}
	signsRecipients = []string{"From", "To", "Subject", "Date", "Message-ID"}
	signsNeither    = []string{"From", "Date", "Subject", "Message-ID", "Content-Type", "MIME-Version"}
)

// TestAnswersByID checks that an answer without the callsign is an order only with the id of one of
// our mails. Each mail is signed by the operator's domain, and gets its References afterwards if the
// provider does not sign them.
func TestAnswersByID(t *testing.T) {
	const thread = "plans for Friday"
	id := ownID("reply.t1", thread)
	old := "<reply.t1.goulard3120@example.org>"
	otherKey, otherAgent := idsOf(filter.Handle, filter.Own), idsOf("dorlange3120", filter.Own)
	otherKey.Secret = bytes.Repeat([]byte{8}, 32)
	const gap = "\r\n\r\n"

	d := newSigningDomain(t)
	for _, c := range []struct {
		name, subject, id string
		signs             []string
		gate              string
	}{
		{"an answer", "Re: " + thread, id, signsAnswers, ""},
		{"an answer under another subject, all signed", "Re: lunch", id, signsAnswers, ""},
		{"an answer, nothing signed", "Re: " + thread, id, signsNeither, ""},
		{"an answer in German", "AW: [EXTERNAL] Plans for  friday", id, signsNeither, ""},
		{"an answer in capitals", "RE: " + thread, strings.ToUpper(id), signsNeither, ""},
		{"an answer in small letters", "Re: " + thread, strings.ToLower(id), signsNeither, ""},
		{"an answer with a folded id", "Re: " + thread, strings.Replace(id, ".goulard", ".\r\n goulard", 1), signsNeither, ""},
		{"an answer to a thread", "Re: " + thread, "<x@example.com>\r\n " + id + "\r\n <y@example.com>", signsNeither, ""},

		{"an id without a MAC", "Re: " + thread, old, signsNeither, foreign},
		{"an id without a MAC, signed", "Re: " + thread, old, signsAnswers, foreign},
		{"the id of the first attack", "Re: " + thread, "<e1.goulard3120@example.org>", signsNeither, foreign},
		{"a guess", "Re: " + thread, "<reply.t1." + strings.Repeat("a", 32) + ".goulard3120@example.org>", signsAnswers, foreign},
		{"a truncated MAC", "Re: " + thread, id[:26] + ".goulard3120@example.org>", signsAnswers, foreign},
		{"the MAC of another effect", "Re: " + thread, strings.Replace(id, ".t1.", ".t2.", 1), signsAnswers, foreign},
		{"the MAC of another agent", "Re: " + thread, strings.Replace(otherAgent.Make("reply.t1", thread), "dorlange", "goulard", 1), signsAnswers, foreign},
		{"another agent's key", "Re: " + thread, otherKey.Make("reply.t1", thread), signsAnswers, foreign},
		{"an answer to another agent", "Re: " + thread, otherAgent.Make("reply.t1", thread), signsAnswers, foreign},
		{"a good id among a hundred bad ones", "lunch", strings.Repeat(old+" ", 100) + id, signsNeither, trust.GateTrust},

		{"the id of another thread", "Re: lunch", id, signsNeither, trust.GateTrust},
		{"the id of another thread, To signed", "Re: " + thread, id, signsRecipients, trust.GateTrust},
		{"no subject", "Re:", id, signsNeither, trust.GateTrust},
		{"a forward", "FW: " + thread, id, signsNeither, trust.GateTrust},
		{"a forward, all signed", "Fwd: " + thread, id, signsAnswers, trust.GateTrust},
	} {
		for _, verify := range []string{trust.VerifyDKIM, trust.VerifyServer} {
			t.Run(c.name+", "+verify, func(t *testing.T) {
				field := "References: " + c.id + "\r\n"
				mime := "MIME-Version: 1.0\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Transfer-Encoding: 7bit\r\n"
				raw := datedLetter(c.subject, filter.Own, "somebody@example.net", gap, "\r\n"+mime+field+gap[2:])
				if len(c.signs) < len(signsAnswers) {
					raw = strings.Replace(raw, field, "", 1)
				}
				raw = sign(t, d.Signer, raw, signFields(c.signs...))
				if len(c.signs) < len(signsAnswers) {
					raw = field + raw
				}
				f := verifying(d.dns)
				if verify == trust.VerifyServer {
					f = trusting()
					raw = ar + "; dkim=pass header.d=example.com header.s=s1; dmarc=pass header.from=example.com\r\n" + raw
				}
				h, _ := memoryHost(t, mailtest.Options{})
				found := judgeMails(t, h, f, []string{raw})
				if got := gateOf(found, raw); got != c.gate {
					t.Errorf("gate %q (%s), want %q", got, found[raw].Reason, c.gate)
				}
			})
		}
	}
}
