package doctor

import (
	"context"
	"errors"
	"net"
	"slices"
	"strings"
	"time"

	"agentstateloop/commands/config"
	"agentstateloop/commands/terminal"
	"agentstateloop/cycle"
	"agentstateloop/state"
)

// imapCheck logs in to the mailbox and examines the last mails. It uses EXAMINE and PEEK, which do
// not mark mails as read.
type imapCheck struct {
	config *config.Config
	agent  *cycle.Agent
	now    func() time.Time
}

func (c imapCheck) run(ctx context.Context) []Finding {
	const name = "imap"
	m := c.agent.Mail
	filter, err := c.agent.MailFilter()
	if err != nil {
		return []Finding{skip(name, "the state could not be read", "see state"), skip("stamps", "the state could not be read", "see state")}
	}
	probe, err := m.Mailbox.Probe(ctx, filter)
	if err != nil {
		return []Finding{mailFailure(name, c.config, err), skip("stamps", "the mailbox could not be read", "see imap")}
	}
	found := []Finding{good(name, "logged in to %s, %s in %s; %s", m.Mailbox.Addr, terminal.Count(int(probe.Mails), "mail"), m.Mailbox.Name, capabilities(probe.Caps))}
	if !slices.Contains(probe.Caps, "IDLE") {
		found = append(found, bad(Info, name, "",
			"the server does not support IDLE: `listen` and linger in [schedule] check for new mail every 20 seconds instead"))
	}
	if skew := probe.Newest.Sub(c.now()); !probe.Newest.IsZero() && skew > maxSkew {
		found = append(found, bad(Warn, "clock", clockHint,
			"this machine's clock is at least %s behind the mail server's: one of the two is wrong", terminal.Short(skew)))
	}
	stamps := stampsCheck{filter: filter, probe: probe, handle: c.agent.Handle, now: c.now()}
	provider := providerCheck{trials: probe.Trials, handle: c.agent.Handle}
	return slices.Concat(found, stamps.findings(), provider.findings())
}

// mailFailure returns the finding for a failed login. name is "imap" or "smtp".
func mailFailure(name string, c *config.Config, err error) Finding {
	if _, ok := errors.AsType[*config.UnreadError](err); ok {
		hint := "see secret.imap"
		if name == "smtp" {
			hint = "see secret.smtp, or secret.imap if they share one"
		}
		return skip(name, "the secret could not be read", hint)
	}
	if _, ok := state.CredentialFailure(err); ok {
		return failure(name, "the server denies the login: "+c.LoginHint("mail."+name), err)
	}
	if dns, ok := errors.AsType[*net.DNSError](err); ok && !dns.IsNotFound {
		return failure(name, "the DNS does not answer: check the network and the name server in /etc/resolv.conf", err)
	}
	return failure(name, "check host and tls in [mail."+name+"], and the network", err)
}

// capabilities lists the IMAP extensions in caps that we use.
func capabilities(caps []string) string {
	var has []string
	for _, c := range []string{"IDLE", "CONDSTORE", "QRESYNC", "MOVE", "UIDPLUS", "ESEARCH", "ID"} {
		if slices.Contains(caps, c) {
			has = append(has, c)
		}
	}
	if len(has) == 0 {
		return "supports no extension that we use"
	}
	return "supports " + strings.Join(has, ", ")
}

// smtpCheck logs in to the SMTP server. It sends no mail.
type smtpCheck struct {
	config *config.Config
	mail   *cycle.Mail
}

func (c smtpCheck) run(ctx context.Context) []Finding {
	const name = "smtp"
	server := c.mail.SMTP
	auth, err := server.ProbeSender(ctx)
	if err != nil {
		return []Finding{mailFailure(name, c.config, err)}
	}
	if auth == "" {
		auth = "no login"
	}
	return []Finding{good(name, "logged in to %s, which offers %s; nothing was sent", server.Addr, auth)}
}
