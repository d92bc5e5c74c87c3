package doctor

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"agentstateloop/commands/config"
	"agentstateloop/commands/terminal"
	"agentstateloop/cycle"
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
