package setup

import (
	"context"
	"slices"
	"strings"

	"agentstateloop/commands/terminal"
	"agentstateloop/mail"
)

// mailPart is [mail], [mail.imap], [mail.smtp] and [trust].
type mailPart struct {
	address            string
	username           string // to log in with; "" for the address
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
	if m.username != "" {
		d.line("username", m.username, "to log in with, also to send")
	}
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

// askMail asks for the servers of the agent's address, and sets how mail is authenticated.
func (in *interview) askMail(ctx context.Context, address string) (*mailPart, error) {
	m := &mailPart{address: address, username: in.Username, caFile: in.CAFile}
	if err := in.makeAbsolute(&m.caFile); err != nil {
		return nil, err
	}
	choice, err := in.askPreset(ctx, address)
	if err != nil {
		return nil, err
	}
	m.known = presets()[choice]
	if choice != "" { // otherwise a script must set more flags first
		if err := in.askServers(ctx, m, choice); err != nil {
			return nil, err
		}
	}
	if m.trust, err = in.trust(m.known); err != nil {
		return nil, err
	}
	m.login.clientID, m.login.provider = in.ClientID, m.known.provider
	if in.ClientID != "" && choice != "" && m.known.provider == "" {
		if err := in.Asker.Wrong("write [mail.imap.oauth2] yourself: see agent.toml.example", "--client-id works only with --preset gmail or outlook"); err != nil {
			return nil, err
		}
	}
	if m.known.onlyOAuth && in.ClientID == "" {
		m.login.clientID, err = in.Asker.Ask(ctx, "", terminal.Question{
			Flag: "client-id", Text: "the client id of the application you registered with the provider, which accepts no passwords (OAuth2, see docs/operating.md)", Check: isText,
		})
	}
	return m, err
}

// askPreset returns the provider, from the address if that is certain. It returns "" if a script
// must name the provider.
func (in *interview) askPreset(ctx context.Context, address string) (string, error) {
	withMail := presetNames()[:4]
	switch {
	case in.Preset != "" && !slices.Contains(withMail, in.Preset):
		return "", nil // already reported
	case in.Preset != "":
		return in.Preset, nil
	case presetOf(address) != "":
		return presetOf(address), nil
	case in.IMAPHost != "":
		return presetGeneric, nil
	}
	text := "its mail provider (" + strings.Join(withMail, ", ") + ")"
	if !in.Asker.CanAsk() {
		text += ", or --imap-host for a server of your own"
	}
	return in.Asker.Ask(ctx, "", terminal.Question{Flag: "preset", Text: text, Guess: presetGeneric, Check: isOneOf(withMail...)})
}

func (in *interview) askServers(ctx context.Context, m *mailPart, choice string) error {
	m.imap, m.smtp = m.known.imap, m.known.smtp
	if choice == presetOutlook && presetOf(m.address) != choice {
		m.smtp = "smtp.office365.com:587" // a company's own domain
	}
	var err error
	if in.IMAPHost != "" || m.imap == "" {
		if m.imap, err = in.askIMAP(ctx, m, in.IMAPHost); err != nil {
			return err
		}
	}
	given := in.SMTPHost
	if given == "" && m.smtp != "" {
		return nil
	}
	if given == "" && !in.Asker.CanAsk() {
		if given = smtpFor(m.imap); given == "" && m.imap == "" {
			return nil // it may be guessed once the IMAP server is known
		}
	}
	m.smtp, err = in.askSMTP(ctx, m, given)
	return err
}

// askIMAP asks for the IMAP server, unless given is set, and tries it.
func (in *interview) askIMAP(ctx context.Context, m *mailPart, given string) (string, error) {
	guess := m.imap
	if guess == "" {
		guess = "imap." + domainOf(m.address)
	}
	host, err := in.Asker.Ask(ctx, given, terminal.Question{
		Flag: "imap-host", Text: "its IMAP server", Guess: guess, Check: isHost, Try: in.tryHost(m, "993", imapPorts, mail.Server.GreetIMAP),
	})
	return withPort(host, "993"), err
}

// askSMTP asks for the SMTP server, unless given is set, and tries it.
func (in *interview) askSMTP(ctx context.Context, m *mailPart, given string) (string, error) {
	guess := m.smtp
	if guess == "" {
		guess = smtpFor(m.imap)
	}
	host, err := in.Asker.Ask(ctx, given, terminal.Question{
		Flag: "smtp-host", Text: "its SMTP server", Guess: guess, Check: isHost, Try: in.tryHost(m, "465", smtpPorts, mail.Server.GreetSMTP),
	})
	return withPort(host, "465"), err
}
