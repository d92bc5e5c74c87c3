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
		return failure(name, "the server refused the login: "+c.LoginHint("mail."+name), err)
	}
	if dns, ok := errors.AsType[*net.DNSError](err); ok && !dns.IsNotFound {
		return failure(name, "DNS does not answer: check the network and the name server in /etc/resolv.conf", err)
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
		return "supports none of the extensions we use"
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

// sentCheck looks at the folder for copies of our mail ([replies] sent).
type sentCheck struct {
	mail   *cycle.Mail
	folder string // "" for no copies
}

// ownCopies are the domains of mail servers that save a copy to the folder for sent mail
// themselves.
var ownCopies = []string{
	"gmail.com", "googlemail.com", "office365.com", "outlook.com", "hotmail.com", "live.com", "yahoo.com", "aol.com", "zoho.com", "zoho.eu", "protonmail.com", "proton.me",
}

// keepsCopies returns the name of the server if it saves copies itself, or "".
func keepsCopies(smtp string) string {
	host, _, err := net.SplitHostPort(smtp)
	if err != nil {
		host = smtp
	}
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	for _, end := range ownCopies {
		if host == end || strings.HasSuffix(host, "."+end) {
			return host
		}
	}
	return ""
}

func (c sentCheck) run(ctx context.Context) []Finding {
	const name = "sent"
	host := keepsCopies(c.mail.SMTP.Addr)
	if c.folder == "" && host != "" {
		return []Finding{good(name, "%s keeps copies of sent mail", host)}
	}
	marked, there, err := c.mail.Mailbox.SentFolders(ctx, c.folder)
	switch {
	case err != nil:
		return []Finding{skip(name, "the folders could not be read", "see imap")}
	case c.folder == "":
		folder := "Sent"
		if len(marked) > 0 {
			folder = marked[0]
		}
		return []Finding{good(name, "no copies of sent mail are kept; sent = %q in [replies] would keep them", folder)}
	case !there:
		hint := "create the folder in your mail program, or set sent in [replies] to another folder"
		if len(marked) > 0 {
			hint = `set sent = "` + marked[0] + `" in [replies], the server's own folder for sent mail`
		}
		return []Finding{bad(Warn, name, hint, "the mailbox has no folder %q, so sent mail cannot be copied", c.folder)}
	case host != "":
		return []Finding{bad(Info, name, "you can remove sent from [replies]; no mail is copied twice", "%s itself keeps copies of sent mail", host)}
	}
	return []Finding{good(name, "copies of sent mail go to %q", c.folder)}
}
