package commands

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"agentstateloop/commands/config"
	"agentstateloop/commands/terminal"
	"agentstateloop/mail"
	"agentstateloop/state"
)

// checkMailbox logs in and looks at the last mails: EXAMINE and PEEK, so that
// nothing is marked as read.
func (d *patient) checkMailbox(ctx context.Context) []finding {
	const check = "imap"
	if d.agent == nil || d.agent.Mail == nil {
		return d.broken(check, "mail")
	}
	if off := d.offline(check); off != nil {
		return append(off, d.offline("stamps")...)
	}
	m := d.agent.Mail
	probe, err := m.Mailbox.Probe(ctx, m.Filter)
	if err != nil {
		return append([]finding{mailFailure(check, err)},
			skipped("stamps", "the mailbox could not be read", "see imap")...)
	}
	found := []finding{good(check, "logged in at %s, %s in %s; %s", m.Mailbox.Addr, terminal.Count(int(probe.Mails), "mail"), m.Mailbox.Name, capabilities(probe.Caps))}
	if !slices.Contains(probe.Caps, "IDLE") {
		found = append(found, finds(levelInfo, check, "",
			"the server has no IDLE: `listen` and [schedule] linger ask it every 20 seconds instead of being told of new mail"))
	}
	if skew := probe.Newest.Sub(d.loader.Now()); !probe.Newest.IsZero() && skew > longestSkew {
		found = append(found, finds(levelWarn, "clock", "set this machine's clock, and keep it with NTP",
			"the newest mail arrived, by the mail server's clock, in %s: one of the two clocks is wrong", terminal.Short(skew)))
	}
	return append(found, d.checkStamps(m.Filter, probe)...)
}

// mailFailure is a server that could not be logged in to.
func mailFailure(check string, err error) finding {
	if _, ok := errors.AsType[*config.UnreadError](err); ok {
		hint := "see secret.imap"
		if check == "smtp" {
			hint = "see secret.smtp, or secret.imap where they share one"
		}
		return finds(levelSkipped, check, hint, "there is nothing to log in with")
	}
	if _, ok := state.CredentialFailure(err); ok {
		return failure(check, "the server refuses the login: correct the secret, it is read anew at each poll; for Gmail it must be an app password", err)
	}
	return failure(check, "check host and tls in [mail."+check+"], and the network", err)
}

// capabilities picks those worth a word.
func capabilities(caps []string) string {
	var has []string
	for _, c := range []string{"IDLE", "CONDSTORE", "QRESYNC", "MOVE", "UIDPLUS", "ESEARCH", "ID"} {
		if slices.Contains(caps, c) {
			has = append(has, c)
		}
	}
	if len(has) == 0 {
		return "it has no extension that is of use"
	}
	return "it has " + strings.Join(has, ", ")
}

// checkStamps says what the gate would do with the operator's last mails, and
// where they fail for the name of who checked them, which name is likely.
func (d *patient) checkStamps(f mail.Filter, p mail.Probe) []finding {
	const check = "stamps"
	if f.Require == mail.RequireFrom {
		return skipped(check, `require = "from" looks at none`, "")
	}
	if f.Require == mail.RequireChallenge {
		return skipped(check, `require = "challenge" believes none: you are asked about each mail`, "")
	}
	var found []finding
	passed := 0
	for _, t := range p.Trials {
		switch {
		case t.Gate == "":
			passed++
		case t.Gate == mail.GateTrust || t.Gate == mail.GateFrom:
			fate := "would be refused"
			if f.Fallback && t.Gate == mail.GateTrust {
				fate = "would not come in before you have answered for it"
			}
			found = append(found, finds(levelWarn, check, d.stampHint(f, p.AuthservIDs),
				"the mail of %s from %s %s: %s", terminal.Clock(t.At, d.loader.Now()), t.From, fate, t.Reason))
		default:
			found = append(found, finds(levelInfo, check, "write it by hand, from your own address",
				"the mail of %s from %s would be refused (%s): %s", terminal.Clock(t.At, d.loader.Now()), t.From, t.Gate, t.Reason))
		}
	}
	if len(p.Trials) == 0 {
		found = append(found, finds(levelInfo, check,
			"send the agent a mail, then run doctor again", "none of the last mails is yours, so that the proof of its sender could not be tried"))
		if stamp, all := onlyStamp(p.AuthservIDs); f.Verify != mail.VerifyDKIM && all && !strings.EqualFold(stamp, f.AuthservID) {
			found = append(found, finds(levelWarn, check, d.stampHint(f, p.AuthservIDs),
				"authserv_id is %q, and no mail here bears that name", f.AuthservID))
		}
		return found
	}
	if passed > 0 {
		calls := ""
		if !slices.ContainsFunc(p.Trials, func(t mail.Trial) bool { return t.ForUs }) {
			calls = fmt.Sprintf("; but none calls the agent: put @%s into the subject", d.agent.Handle)
		}
		found = append([]finding{good(check, "%d of your last %s proved by %s%s", passed, terminal.Count(len(p.Trials), "mail"), prover(f), calls)}, found...)
	}
	return found
}

func prover(f mail.Filter) string {
	if provesBySignature(f) {
		return "a DKIM signature"
	}
	return f.AuthservID
}

// stampHint suggests settings for mail that is not proved. A name is suggested
// only if all mail here bears it: one that stands on some of it may have been
// put there by a sender.
func (d *patient) stampHint(f mail.Filter, stamps []string) string {
	if provesBySignature(f) {
		return "your provider must sign what you send, for your own domain; see docs/security.md"
	}
	stamp, all := onlyStamp(stamps)
	switch {
	case all && !strings.EqualFold(stamp, f.AuthservID):
		return fmt.Sprintf("the last %s here bear the name %q: if that is your mail server's, set authserv_id = %[2]q in [trust]", terminal.Count(len(stamps), "mail"), stamp)
	case all:
		return "the server checked it and was not content; see docs/security.md"
	default:
		return `the server stamps no name, or changing ones: set verify = "dkim" in [trust], and leave authserv_id out`
	}
}

// onlyStamp gives the name that all mails bear, at least three.
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

// checkSMTP logs in, says QUIT, and sends nothing.
func (d *patient) checkSMTP(ctx context.Context) []finding {
	const check = "smtp"
	if d.agent == nil || d.agent.Mail == nil {
		return d.broken(check, "mail")
	}
	if off := d.offline(check); off != nil {
		return off
	}
	server := d.agent.Mail.SMTP
	auth, err := server.ProbeSender(ctx)
	if err != nil {
		return []finding{mailFailure(check, err)}
	}
	if auth == "" {
		auth = "nothing"
	}
	return []finding{good(check, "logged in at %s, which offers %s; nothing was sent", server.Addr, auth)}
}
