package doctor

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"agentstateloop/commands/config"
	"agentstateloop/commands/terminal"
	"agentstateloop/cycle"
	"agentstateloop/mail"
	"agentstateloop/state"
)

// imapCheck logs in and looks at the last mails. It uses EXAMINE and PEEK, so
// that nothing is marked as read.
type imapCheck struct {
	mail   *cycle.Mail
	handle string
	now    func() time.Time
}

func (c imapCheck) run(ctx context.Context) []Finding {
	const name = "imap"
	m := c.mail
	probe, err := m.Mailbox.Probe(ctx, m.Filter)
	if err != nil {
		return []Finding{mailFailure(name, err), skip("stamps", "the mailbox could not be read", "see imap")}
	}
	found := []Finding{good(name, "logged in at %s, %s in %s; %s", m.Mailbox.Addr, terminal.Count(int(probe.Mails), "mail"), m.Mailbox.Name, capabilities(probe.Caps))}
	if !slices.Contains(probe.Caps, "IDLE") {
		found = append(found, bad(Info, name, "",
			"the server has no IDLE: `listen` and [schedule] linger ask it for new mail every 20 seconds instead"))
	}
	if skew := probe.Newest.Sub(c.now()); !probe.Newest.IsZero() && skew > longestSkew {
		found = append(found, bad(Warn, "clock", clockHint,
			"the newest mail arrived, by the mail server's clock, in %s: one of the two clocks is wrong", terminal.Short(skew)))
	}
	stamps := stampsCheck{filter: m.Filter, probe: probe, handle: c.handle, now: c.now()}
	return append(found, stamps.findings()...)
}

// mailFailure is for a server that could not be logged in to.
func mailFailure(name string, err error) Finding {
	if _, ok := errors.AsType[*config.UnreadError](err); ok {
		hint := "see secret.imap"
		if name == "smtp" {
			hint = "see secret.smtp, or secret.imap where they share one"
		}
		return skip(name, "there is nothing to log in with", hint)
	}
	if _, ok := state.CredentialFailure(err); ok {
		return failure(name, "the server refuses the login: correct the secret, which each poll reads again; for Gmail it must be an app password", err)
	}
	return failure(name, "check host and tls in [mail."+name+"], and the network", err)
}

// capabilities lists those that matter to us.
func capabilities(caps []string) string {
	var has []string
	for _, c := range []string{"IDLE", "CONDSTORE", "QRESYNC", "MOVE", "UIDPLUS", "ESEARCH", "ID"} {
		if slices.Contains(caps, c) {
			has = append(has, c)
		}
	}
	if len(has) == 0 {
		return "it has no extension that we use"
	}
	return "it has " + strings.Join(has, ", ")
}

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

// smtpCheck logs in, says QUIT, and sends nothing.
type smtpCheck struct{ mail *cycle.Mail }

func (c smtpCheck) run(ctx context.Context) []Finding {
	const name = "smtp"
	server := c.mail.SMTP
	auth, err := server.ProbeSender(ctx)
	if err != nil {
		return []Finding{mailFailure(name, err)}
	}
	if auth == "" {
		auth = "nothing"
	}
	return []Finding{good(name, "logged in at %s, which offers %s; nothing was sent", server.Addr, auth)}
}
