package doctor

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"agentstateloop/commands/terminal"
	"agentstateloop/mail"
)

// stampsCheck reports what the gate would do with the operator's last mails.
// Where they fail for the name of the server that checked them, it suggests a
// name.
type stampsCheck struct {
	filter mail.Filter
	probe  mail.Probe
	handle string
	now    time.Time
}

func (c stampsCheck) findings() []Finding {
	const name = "stamps"
	f := c.filter
	if f.Require == mail.RequireFrom {
		return []Finding{skip(name, `require = "from" looks at none`, "")}
	}
	if f.Require == mail.RequireChallenge {
		return []Finding{skip(name, `require = "challenge" relies on none: you are asked about each mail`, "")}
	}
	if len(c.probe.Trials) == 0 {
		return c.withoutMail()
	}
	var found []Finding
	passed := 0
	for _, t := range c.probe.Trials {
		when := terminal.Clock(t.At, c.now)
		switch {
		case t.Gate == "":
			passed++
		case t.Gate == mail.GateTrust || t.Gate == mail.GateFrom:
			fate := "would be rejected"
			if f.Fallback && t.Gate == mail.GateTrust {
				fate = "would wait until you have confirmed it"
			}
			found = append(found, bad(Warn, name, c.hint(), "the mail of %s from %s %s: %s", when, t.From, fate, t.Reason))
		default:
			found = append(found, bad(Info, name, "write it by hand, from your own address",
				"the mail of %s from %s would be rejected (%s): %s", when, t.From, t.Gate, t.Reason))
		}
	}
	if passed == 0 {
		return found
	}
	calls := ""
	if !slices.ContainsFunc(c.probe.Trials, func(t mail.Trial) bool { return t.ForUs }) {
		calls = fmt.Sprintf("; but none calls the agent: put @%s into the subject", c.handle)
	}
	proved := good(name, "%d of your last %s proved by %s%s", passed, terminal.Count(len(c.probe.Trials), "mail"), c.prover(), calls)
	return append([]Finding{proved}, found...)
}

// withoutMail is for a mailbox in which no recent mail is the operator's.
func (c stampsCheck) withoutMail() []Finding {
	found := []Finding{bad(Info, "stamps", "send the agent a mail, then run doctor again",
		"none of the last mails is yours, so the proof of its sender could not be tried")}
	if stamp, all := onlyStamp(c.probe.AuthservIDs); c.filter.Verify != mail.VerifyDKIM && all && !strings.EqualFold(stamp, c.filter.AuthservID) {
		found = append(found, bad(Warn, "stamps", c.hint(), "authserv_id is %q, and no mail here bears that name", c.filter.AuthservID))
	}
	return found
}

// bySignature reports whether the agent's mail is proved by its DKIM signature.
func (c stampsCheck) bySignature() bool {
	return c.filter.Require == mail.RequireDMARC && c.filter.Verify == mail.VerifyDKIM
}

func (c stampsCheck) prover() string {
	if c.bySignature() {
		return "a DKIM signature"
	}
	return c.filter.AuthservID
}

// hint suggests settings for mail that is not proved. It suggests a name only if
// all mail here bears it: a sender may have written one that only some mails
// bear.
func (c stampsCheck) hint() string {
	if c.bySignature() {
		return "your provider must sign what you send, for your own domain; see docs/security.md"
	}
	stamp, all := onlyStamp(c.probe.AuthservIDs)
	switch {
	case all && !strings.EqualFold(stamp, c.filter.AuthservID):
		return fmt.Sprintf("the last %s here bear the name %q: if that is your mail server's, set authserv_id = %[2]q in [trust]", terminal.Count(len(c.probe.AuthservIDs), "mail"), stamp)
	case all:
		return "the server checked it, and it did not pass; see docs/security.md"
	default:
		return `the server stamps no name, or changing ones: set verify = "dkim" in [trust], and leave authserv_id out`
	}
}

// onlyStamp returns the name that all mails bear, if there are at least three.
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
