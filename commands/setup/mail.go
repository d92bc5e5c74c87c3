package setup

import (
	"context"
	"net"
	"slices"
	"strings"

	"agentstateloop/commands/terminal"
	"agentstateloop/mail"
	"agentstateloop/mail/trust"
)

// mailPart is [mail], [mail.imap], [mail.smtp] and [trust].
type mailPart struct {
	address            string
	username           string // to log in with; "" for the address
	imap, smtp, caFile string
	login              login
	trust              trustPart
	preset             preset
}

func (m *mailPart) write(d *document) {
	d.section("mail")
	d.line("address", m.address, "the agent's own, not one of yours")
	d.section("mail.imap")
	m.writeServer(d, m.imap)
	if m.username != "" {
		d.line("username", m.username, "for IMAP and SMTP")
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
	m.preset = presets()[choice]
	if choice != "" { // otherwise a script must set more flags first
		if err := in.askServers(ctx, m, choice); err != nil {
			return nil, err
		}
	}
	if m.trust, err = in.trust(m.preset); err != nil {
		return nil, err
	}
	m.login.clientID, m.login.provider = in.ClientID, m.preset.provider
	if in.ClientID != "" && choice != "" && m.preset.provider == "" {
		if err := in.Asker.Wrong("write [mail.imap.oauth2] yourself: see agent.toml.example", "--client-id requires --preset gmail or outlook"); err != nil {
			return nil, err
		}
	}
	if m.preset.onlyOAuth && in.ClientID == "" {
		m.login.clientID, err = in.Asker.Ask(ctx, "", terminal.Question{
			Flag: "client-id", Text: "the OAuth2 client id of the application you registered (this provider accepts no passwords, see docs/outlook.md)", Check: isText,
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
	text := "the agent's mail provider (" + strings.Join(withMail, ", ") + ")"
	if !in.Asker.CanAsk() {
		text += ", or --imap-host for your own server"
	}
	return in.Asker.Ask(ctx, "", terminal.Question{Flag: "preset", Text: text, Guess: presetGeneric, Check: isOneOf(withMail...)})
}

func (in *interview) askServers(ctx context.Context, m *mailPart, choice string) error {
	m.imap, m.smtp = m.preset.imap, m.preset.smtp
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
		Flag: "imap-host", Text: "the IMAP server", Guess: guess, Check: isHost, Try: in.tryHost(m, "993", imapPorts, mail.Server.GreetIMAP),
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
		Flag: "smtp-host", Text: "the SMTP server", Guess: guess, Check: isHost, Try: in.tryHost(m, "465", smtpPorts, mail.Server.GreetSMTP),
	})
	return withPort(host, "465"), err
}

// trustPart is [trust]; "" is the default.
type trustPart struct {
	require, fallback string
	authservID        string // "": verify = "dkim"
}

func (t trustPart) write(d *document) {
	d.section("trust")
	switch {
	case t.require == trust.RequireChallenge:
		d.line("require", t.require, "you confirm each of your mails by mail")
	case t.authservID != "":
		d.line("authserv_id", t.authservID, "the mail server that verifies senders")
	default:
		d.line("verify", trust.VerifyDKIM, "your mail is verified by its DKIM signature")
	}
	if t.fallback != "" {
		d.line("fallback", t.fallback, "you confirm mail that fails verification")
	}
}

// trust sets how mail is authenticated, from the flags and the preset.
func (in *interview) trust(known preset) (trustPart, error) {
	t := trustPart{require: in.Require, fallback: in.Fallback, authservID: in.AuthservID}
	if t.authservID == "" {
		t.authservID = known.authservID
	}
	if t.require != "" {
		if err := isOneOf(trust.RequireDMARC, trust.RequireChallenge)(t.require); err != nil {
			if err := in.Asker.Wrong("", "--require %s: %v", t.require, err); err != nil {
				return t, err
			}
			t.require = ""
		}
	}
	if in.AuthservID != "" && t.require == trust.RequireChallenge {
		return t, in.Asker.Wrong("leave one of them out", "--authserv-id cannot be used with --require challenge, which ignores the mail server's check")
	}
	return t, nil
}

// preset holds the known settings of a mail provider.
type preset struct {
	domains    []string // addresses in these domains surely belong to the provider
	imap, smtp string   // host:port
	authservID string   // the name it writes into mail; "" if it is missing or varies: then we verify DKIM signatures
	provider   string   // of OAuth2
	onlyOAuth  bool     // the provider accepts no passwords
	secret     string   // the kind of password to ask for
}

// Names of presets. presetNone is an agent without mail.
const (
	presetOutlook = "outlook"
	presetGeneric = "generic"
	presetNone    = "none"
)

// presetNames returns the values of --preset, in the order of its help.
func presetNames() []string {
	return []string{"gmail", "fastmail", presetOutlook, presetGeneric, presetNone}
}

// presets returns the settings that the providers document. docs/mail-proof.md lists the names they
// write into mail.
func presets() map[string]preset {
	return map[string]preset{
		"gmail": {
			domains: []string{"gmail.com", "googlemail.com"},
			imap:    "imap.gmail.com:993", smtp: "smtp.gmail.com:465",
			authservID: "mx.google.com", provider: "google",
			secret: "app password (16 letters, from your Google account's security page)",
		},
		"fastmail": {
			domains: []string{"fastmail.com", "fastmail.fm", "sent.com", "messagingengine.com"},
			imap:    "imap.fastmail.com:993", smtp: "smtp.fastmail.com:465",
			secret: "app password (Settings, Privacy & Security)",
		},
		presetOutlook: {
			domains: []string{"outlook.com", "hotmail.com", "live.com", "msn.com"},
			imap:    "outlook.office365.com:993", smtp: "smtp-mail.outlook.com:587",
			provider: "microsoft", onlyOAuth: true,
		},
		presetGeneric: {secret: "password"},
		presetNone:    {},
	}
}

// presetOf guesses the preset from the address. It returns "" for an unknown domain.
func presetOf(address string) string {
	domain := strings.ToLower(domainOf(address))
	for _, name := range presetNames() {
		if slices.Contains(presets()[name].domains, domain) {
			return name
		}
	}
	return ""
}

func domainOf(address string) string { return address[strings.LastIndexByte(address, '@')+1:] }

// withPort adds a port to a host that lacks one.
func withPort(host, port string) string {
	if _, _, err := net.SplitHostPort(host); err == nil || host == "" {
		return host
	}
	return net.JoinHostPort(strings.Trim(host, "[]"), port)
}

// tlsOf returns the kind of TLS for a port. Ports where a connection begins in clear text need
// STARTTLS.
func tlsOf(hostPort string) string {
	_, port, _ := net.SplitHostPort(hostPort)
	if slices.Contains([]string{"143", "25", "587"}, port) {
		return "starttls"
	}
	return "implicit"
}

// smtpFor guesses the SMTP host from the IMAP host, or returns "".
func smtpFor(imap string) string {
	host, _, _ := net.SplitHostPort(imap)
	if rest, ok := strings.CutPrefix(host, "imap."); ok {
		return "smtp." + rest + ":465"
	}
	return ""
}
