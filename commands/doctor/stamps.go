package doctor

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"agentstateloop/commands/terminal"
	"agentstateloop/internal/plain"
	"agentstateloop/mail"
	"agentstateloop/mail/trust"
)

// stampsCheck reports how the gate would treat the operator's last mails. If they fail because of
// authserv_id, it suggests another one.
type stampsCheck struct {
	filter trust.Filter
	probe  mail.Probe
	handle string
	now    time.Time
}

func (c stampsCheck) findings() []Finding {
	const name = "stamps"
	f := c.filter
	if f.Require == trust.RequireFrom {
		return []Finding{skip(name, `not used with require = "from"`, "")}
	}
	if f.Require == trust.RequireChallenge {
		return []Finding{skip(name, `not used with require = "challenge": you confirm each mail`, "")}
	}
	if len(c.probe.Trials) == 0 {
		return c.withoutMail()
	}
	var found []Finding
	passed := 0
	unanswered := 0
	for _, t := range c.probe.Trials {
		switch {
		case t.Gate == "":
			passed++
		case t.NoAnswer != nil:
			if unanswered++; unanswered == 1 {
				found = append(found, c.withoutDNS(t.NoAnswer))
			}
		default:
			found = append(found, c.rejected(t))
		}
	}
	if passed == 0 {
		return found
	}
	calls := ""
	if !slices.ContainsFunc(c.probe.Trials, func(t trust.Trial) bool { return t.ForUs }) {
		calls = fmt.Sprintf("; none is addressed to the agent: put @%s in the subject", c.handle)
	}
	proved := good(name, "%d of your last %s verified by %s%s", passed, terminal.Count(len(c.probe.Trials), "mail"), c.verifier(), calls)
	return append([]Finding{proved}, found...)
}

// withoutDNS returns the finding for mail whose key could not be looked up. That does not reveal
// who signs the mail.
func (c stampsCheck) withoutDNS(err error) Finding {
	server := "the name server of this machine (/etc/resolv.conf)"
	if c.filter.Resolver != "" {
		server = c.filter.Resolver + ", the resolver in [trust]"
	}
	return bad(Error, "stamps", "check the network and the name server; until it answers, polls leave such mail in the mailbox and try again",
		"DNS does not answer, so the signatures of your mails cannot be verified: %s: %v", server, err)
}

// rejected returns the finding for a mail that failed a gate.
func (c stampsCheck) rejected(t trust.Trial) Finding {
	const name = "stamps"
	when := terminal.Clock(t.At, c.now)
	if t.Gate != trust.GateTrust && t.Gate != trust.GateFrom {
		return bad(Info, name, "send it by hand, from your own address", "the mail from %s at %s would be rejected (%s): %s", t.From, when, t.Gate, t.Reason)
	}
	fate := "would be rejected"
	if c.filter.Fallback && t.Gate == trust.GateTrust {
		fate = "would wait until you confirm it"
	}
	return bad(Warn, name, c.hintFor(t), "the mail from %s at %s %s: %s", t.From, when, fate, t.Reason)
}

// withoutMail returns the findings for a mailbox without a recent mail from the operator.
func (c stampsCheck) withoutMail() []Finding {
	found := []Finding{bad(Info, "stamps", "send the agent a mail, then run doctor again",
		"none of the last mails is from you, so sender verification could not be tested")}
	if stamp, all := onlyStamp(c.probe.AuthservIDs); c.filter.Verify != trust.VerifyDKIM && all && !strings.EqualFold(stamp, c.filter.AuthservID) {
		found = append(found, bad(Warn, "stamps", c.hint(), "authserv_id is %q, but no mail here has that name", c.filter.AuthservID))
	}
	return found
}

// bySignature reports whether the agent verifies senders by DKIM signatures.
func (c stampsCheck) bySignature() bool {
	return c.filter.Require == trust.RequireDMARC && c.filter.Verify == trust.VerifyDKIM
}

// verifier returns the verifier of a sender, for display.
func (c stampsCheck) verifier() string {
	if c.bySignature() {
		return "a DKIM signature"
	}
	return c.filter.AuthservID
}

// hintFor returns the hint for one mail.
func (c stampsCheck) hintFor(t trust.Trial) string {
	if t.SPFAlone && !c.filter.AllowSPF {
		return "your provider must sign your mail with DKIM; or set allow_spf = true in [trust], which trusts every server of your domain"
	}
	if t.Doubtful {
		return "write plain text, or compose the mail in an ordinary mail program"
	}
	if t.Signing == nil {
		return c.hint()
	}
	// The sender is verified, but the mail is not bound to the agent.
	hint := "put @" + c.handle + " in the subject"
	if len(t.Signing.To) > 0 {
		hint += fmt.Sprintf("; if %s is an address of the agent, add it to aliases in [mail]", plain.OneLine(orList(t.Signing.To), 200))
	}
	return hint
}

// hint suggests settings for mail whose sender is not verified. It suggests a name only if all
// mails carry it, because a sender can write a name into single mails.
func (c stampsCheck) hint() string {
	if c.bySignature() {
		return "your mail provider must sign your mail for your own domain; see docs/mail-proof.md"
	}
	stamp, all := onlyStamp(c.probe.AuthservIDs)
	switch {
	case all && !strings.EqualFold(stamp, c.filter.AuthservID):
		return fmt.Sprintf("the last %s have the name %q: if that is your mail server, set authserv_id = %[2]q in [trust]", terminal.Count(len(c.probe.AuthservIDs), "mail"), stamp)
	case all:
		return "your mail server checked it, but its verdict does not prove that you wrote it; see docs/mail-proof.md"
	default:
		return `your mail server adds no name, or different ones: set verify = "dkim" in [trust] and remove authserv_id`
	}
}

// onlyStamp returns the name that all mails carry. It needs at least three mails.
func onlyStamp(stamps []string) (stamp string, all bool) {
	const least = 3
	if len(stamps) < least || stamps[0] == "" {
		return "", false
	}
	for _, s := range stamps {
		if !strings.EqualFold(s, stamps[0]) {
			return "", false
		}
	}
	return stamps[0], true
}
