package setup

import (
	"context"
	"strings"

	"agentstateloop/commands/terminal"
	"agentstateloop/mail"
)

// mailPart is [mail], [mail.imap], [mail.smtp] and [trust].
type mailPart struct {
	address            string
	imap, smtp, caFile string
	login              login
	trust              trustPart
	known              preset
}

func (m *mailPart) write(d *document) {
	d.section("mail")
	d.line("address", m.address, "the agent's own, not one of yours")
	d.section("mail.imap")
	m.writeServer(d, m.imap)
	m.login.write(d)
	d.section("mail.smtp")
	m.writeServer(d, m.smtp)
	m.trust.write(d)
}

func (m *mailPart) writeServer(d *document, host string) {
	d.line("host", host, "")
	if tls := tlsOf(host); tls != mail.TLSImplicit {
		d.line("tls", tls, "")
	}
	if m.caFile != "" {
		d.line("ca_file", path(m.caFile), "")
	}
}

// askMail learns the servers of the agent's address, and what proves mail.
func (in *interview) askMail(ctx context.Context, address string) (*mailPart, error) {
	choice := in.Preset
	if choice == "" {
		choice = presetOf(address)
	}
	if choice == "" && in.IMAPHost != "" {
		choice = presetGeneric
	}
	withMail := presetNames()[:4]
	choice, err := in.Asker.Ask(ctx, choice, terminal.Question{
		Flag: "preset", Text: "its mail provider (" + strings.Join(withMail, ", ") + ")", Guess: presetGeneric, Check: isOneOf(withMail...),
	})
	if err != nil {
		return nil, err
	}
	m := &mailPart{address: address, caFile: in.CAFile, known: presets()[choice]}
	if err := in.askServers(ctx, m, choice); err != nil {
		return nil, err
	}
	if m.trust, err = in.trust(m.known); err != nil {
		return nil, err
	}
	m.login.clientID, m.login.provider = in.ClientID, m.known.provider
	if in.ClientID != "" && m.known.provider == "" {
		return nil, terminal.Usagef("write [mail.imap.oauth2] yourself: see agent.toml.example", "--client-id works only with --preset gmail or outlook")
	}
	if m.known.onlyOAuth && in.ClientID == "" {
		m.login.clientID, err = in.Asker.Ask(ctx, "", terminal.Question{
			Flag: "client-id", Text: "the client id of the application you registered with the provider, which accepts no passwords (OAuth2, see docs/operating.md)", Check: isText,
		})
	}
	if err != nil {
		return nil, err
	}
	return m, in.makeAbsolute(&m.caFile)
}

func (in *interview) askServers(ctx context.Context, m *mailPart, choice string) error {
	m.imap, m.smtp = m.known.imap, m.known.smtp
	if choice == presetOutlook && presetOf(m.address) != choice {
		m.smtp = "smtp.office365.com:587" // a company's own domain
	}
	var err error
	if in.IMAPHost != "" || m.imap == "" {
		m.imap, err = in.Asker.Ask(ctx, in.IMAPHost, terminal.Question{Flag: "imap-host", Text: "its IMAP server", Guess: "imap." + domainOf(m.address), Check: isHost})
		if err != nil {
			return err
		}
		m.imap = withPort(m.imap, "993")
	}
	given := in.SMTPHost
	if given == "" && m.smtp != "" {
		return nil
	}
	guess := smtpFor(m.imap)
	if given == "" && !in.Asker.CanAsk() {
		given = guess
	}
	m.smtp, err = in.Asker.Ask(ctx, given, terminal.Question{Flag: "smtp-host", Text: "its SMTP server", Guess: guess, Check: isHost})
	m.smtp = withPort(m.smtp, "465")
	return err
}
