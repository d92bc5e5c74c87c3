package config

import (
	"cmp"
	"fmt"
	"io"
	"net"
	netmail "net/mail"
	"slices"
	"strings"
	"text/template"
	"time"
	"unicode/utf8"

	"agentstateloop/commands/terminal"
	"agentstateloop/cycle"
	"agentstateloop/internal/plain"
	"agentstateloop/mail"
	"agentstateloop/mail/trust"
	"agentstateloop/state"
)

// maxMail is the size, in bytes, above which we reject a mail. Providers have lower limits.
const maxMail = 64 << 20

// wireMail wires [mail]. It returns nil if the section is missing.
func (l *Loader) wireMail(c *Config) (*cycle.Mail, error) {
	if !c.Has("mail") {
		return nil, nil
	}
	if c.File.Mail.Address == "" {
		return nil, c.Missing("mail.address", "set the agent's own email address")
	}
	address, err := c.address("mail.address", c.File.Mail.Address)
	if err != nil {
		return nil, err
	}
	operators, err := c.operators(address)
	if err != nil {
		return nil, err
	}
	if c.File.Mail.Mailbox == "" {
		return nil, c.At(splitKey("mail.mailbox"), `remove it for the default, "INBOX"`, "is empty")
	}
	aliases, err := c.aliases(operators)
	if err != nil {
		return nil, err
	}
	filter := trust.Filter{Handle: c.File.Agent.Handle, Operators: operators, Own: address, Aliases: aliases, MaxSize: maxMail}
	if err := c.wireTrust(&filter); err != nil {
		return nil, err
	}
	imap, err := l.wireServer(c, "mail.imap", c.File.Mail.IMAP, address)
	if err != nil {
		return nil, err
	}
	smtp, err := l.wireServer(c, "mail.smtp", c.SMTP(), address)
	if err != nil {
		return nil, err
	}
	return &cycle.Mail{
		Mailbox: mail.Mailbox{Server: imap, Name: c.File.Mail.Mailbox, Sent: c.File.Replies.Sent, Secrets: l.Secrets},
		SMTP:    smtp,
		Address: address,
		Filter:  filter,
	}, nil
}

// aliases returns the other addresses of the agent. It rejects the operator's addresses: as an
// alias, one would turn mail that operators send to themselves into orders.
func (c *Config) aliases(operators []string) ([]string, error) {
	const key = "mail.aliases"
	var aliases []string
	for _, text := range c.File.Mail.Aliases {
		alias, err := c.address(key, text)
		if err != nil {
			return nil, err
		}
		if slices.ContainsFunc(operators, func(op string) bool { return strings.EqualFold(op, alias) }) {
			return nil, c.At(splitKey(key), "list only addresses that deliver to the agent's mailbox", "%s is one of your own addresses (agent.operator)", alias)
		}
		aliases = append(aliases, alias)
	}
	return aliases, nil
}

// address returns the email address in text, which may have a display name before it.
func (c *Config) address(key, text string) (string, error) {
	a, err := netmail.ParseAddress(text)
	if err != nil {
		return "", c.Wrong(key, "%q is not an email address", text)
	}
	return a.Address, nil
}

// SMTP returns [mail.smtp], completed from [mail.imap]. A missing login is copied from IMAP. A
// missing host is set only for a provider with a known SMTP host.
func (c *Config) SMTP() serverSection {
	imap, smtp := c.File.Mail.IMAP, c.File.Mail.SMTP
	if smtp.Host == "" && imap.Host == "imap.gmail.com:993" {
		smtp.Host = "smtp.gmail.com:465"
	}
	smtp.TLS = cmp.Or(smtp.TLS, "implicit")
	smtp.Auth = cmp.Or(smtp.Auth, imap.Auth)
	smtp.Username = cmp.Or(smtp.Username, imap.Username)
	if smtp.countSources() == 0 {
		smtp.PasswordFile, smtp.PasswordEnv, smtp.PasswordCommand = imap.PasswordFile, imap.PasswordEnv, imap.PasswordCommand
		smtp.TokenCommand, smtp.OAuth2 = imap.TokenCommand, imap.OAuth2
	}
	return smtp
}

// maxName limits the display name of the agent, in characters.
const maxName = 60

// wireReplies parses the templates of [replies]. It executes each once, to find errors now and not
// when a mail must be sent.
func wireReplies(c *Config) (cycle.Replies, error) {
	name := c.File.Replies.Name
	replies := cycle.Replies{Name: name, HTML: c.File.Replies.HTML, Sent: c.File.Replies.Sent}
	if plain.Line(name) != name || utf8.RuneCountInString(name) > maxName {
		return replies, c.Wrong("replies.name", "must be one line of at most %d characters", maxName)
	}
	for _, r := range []struct {
		key  string
		text string
		into **template.Template
	}{
		{"replies.ack", c.File.Replies.Ack, &replies.Ack},
		{"replies.quiet_prep", c.File.Replies.QuietPrep, &replies.QuietPrep},
		{"replies.quiet_active", c.File.Replies.QuietActive, &replies.QuietActive},
	} {
		if r.text == "" {
			continue
		}
		t, err := template.New(r.key).Parse(r.text)
		if err == nil {
			handle := c.File.Agent.Handle
			err = t.Execute(io.Discard, cycle.ReplyData{Handle: handle, Callsign: "@" + handle, Phase: string(state.IDLE)})
		}
		if err != nil {
			return replies, c.At(splitKey(r.key), "use only {{.Handle}}, {{.Callsign}} and {{.Phase}}", "%v", err)
		}
		*r.into = t
	}
	return replies, nil
}

// checkAckAfter rejects a delay after which an ack would be useless: PREP would be over, or the
// outbox would already drop the ack for its age.
func (c *Config) checkAckAfter() error {
	const key = "replies.ack_after"
	after, prep := time.Duration(c.File.Replies.AckAfter), time.Duration(c.File.Timing.PrepTimeout)
	switch {
	case after > 0 && after >= prep:
		return c.Wrong(key, "%s is too long: must be less than prep_timeout in [timing], which is %s", terminal.Short(after), terminal.Short(prep))
	case after > state.MaxAckAfter:
		return c.Wrong(key, "%s is too long: must be at most %s", terminal.Short(after), terminal.Short(state.MaxAckAfter))
	}
	return nil
}

// wireTrust sets in f how a mail's sender is authenticated. It wires [trust] except trust.mesh,
// which Mesh wires.
func (c *Config) wireTrust(f *trust.Filter) error {
	t := c.File.Trust
	if err := c.oneOf("trust.require", t.Require, trust.RequireDMARC, trust.RequireChallenge, trust.RequireFrom); err != nil {
		return err
	}
	f.Require = t.Require
	switch {
	case t.Fallback != "" && t.Require != trust.RequireDMARC:
		return c.Wrong("trust.fallback", `can only be used with require = "dmarc"`)
	case t.Fallback != "" && t.Fallback != trust.RequireChallenge:
		return c.Wrong("trust.fallback", `%q is not valid: set "challenge" or remove it`, t.Fallback)
	case t.Require != trust.RequireDMARC:
		return nil
	}
	f.Fallback = t.Fallback != ""
	f.Verify = t.Verify
	switch t.Verify {
	case trust.VerifyServer:
		return c.wireServerCheck(f, t)
	case trust.VerifyDKIM:
		return c.wireDKIM(f, t)
	}
	return c.oneOf("trust.verify", t.Verify, trust.VerifyServer, trust.VerifyDKIM)
}

// wireServerCheck wires verify = "server": the mail server checks the sender.
func (c *Config) wireServerCheck(f *trust.Filter, t trustSection) error {
	switch {
	case t.AuthservID == "":
		return c.At([]string{"trust", "authserv_id"}, c.authservHint(),
			`is missing: require = "dmarc" needs the name that your mail server uses in Authentication-Results`)
	case strings.ContainsAny(t.AuthservID, " \t;\"()"):
		return c.At(splitKey("trust.authserv_id"), "use the text before the first semicolon of Authentication-Results", "%q is not a server name", t.AuthservID)
	case t.Resolver != "":
		return c.Wrong("trust.resolver", `can only be used with verify = "dkim"`)
	case t.SameProvider != "" && t.SameProvider != "auth":
		return c.Wrong("trust.same_provider", `%q is not valid: set "auth" or remove it`, t.SameProvider)
	}
	f.AuthservID, f.SameProvider, f.AllowSPF = t.AuthservID, t.SameProvider == "auth", t.AllowSPF
	return nil
}

// authservHint returns a hint about finding authserv_id.
func (c *Config) authservHint() string {
	if c.File.Mail.IMAP.Host == "imap.gmail.com:993" {
		return `set authserv_id = "mx.google.com" in [trust]`
	}
	return `open the source of a mail that you sent to the agent: authserv_id is the text before the first ` +
		`semicolon of its topmost Authentication-Results header; if it has no such header, set verify = "dkim" in [trust]`
}

// wireDKIM wires verify = "dkim": we verify the signature of a mail ourselves.
func (c *Config) wireDKIM(f *trust.Filter, t trustSection) error {
	for _, other := range []struct {
		key string
		set bool
	}{
		{"trust.authserv_id", t.AuthservID != ""},
		{"trust.same_provider", t.SameProvider != ""},
		{"trust.allow_spf", t.AllowSPF},
	} {
		if other.set {
			return c.At(splitKey(other.key), `remove it; verify = "dkim" ignores the mail server's own check`, `can only be used with verify = "server"`)
		}
	}
	if t.Resolver != "" {
		if host, port, err := net.SplitHostPort(t.Resolver); err != nil || host == "" || port == "" {
			return c.At(splitKey("trust.resolver"), `use HOST:PORT, such as "127.0.0.1:53"`, "%q is not a host and port", t.Resolver)
		}
	}
	f.Resolver = t.Resolver
	return nil
}

// Unproved reports whether the agent accepts mail from unauthenticated senders.
func Unproved(a *cycle.Agent) bool {
	return a.Mail != nil && a.Mail.Filter.Require == trust.RequireFrom
}

// wireServer wires [mail.imap] or [mail.smtp]. section is the name without the brackets, address
// the agent's own address.
func (l *Loader) wireServer(c *Config, section string, s serverSection, address string) (mail.Server, error) {
	none := mail.Server{}
	if err := c.checkServer(section, s); err != nil {
		return none, err
	}
	if err := c.checkLogin(section, s); err != nil {
		return none, err
	}
	caFile := s.CAFile
	if caFile != "" {
		caFile = c.Resolve(caFile)
	}
	server := mail.Server{
		Addr:     s.Host,
		TLS:      s.TLS,
		Auth:     s.Auth,
		Username: cmp.Or(s.Username, address),
		CAFile:   caFile,
		Roots:    c.roots(),
		Timeout:  time.Duration(c.File.Timing.NetworkTimeout),
	}
	if s.OAuth2.IsSet() {
		o, err := l.OAuth(c, section+".oauth2", s.OAuth2)
		if err != nil {
			return none, err
		}
		server.Secret, server.Renew = l.redactTokens(o)
		return server, nil
	}
	server.Secret = l.Secret(c, s.Secret())
	return server, nil
}

// checkServer checks the host and the encryption of a server.
func (c *Config) checkServer(section string, s serverSection) error {
	if s.Host == "" {
		return c.Missing(section+".host", fmt.Sprintf("set it to HOST:PORT, such as %q", exampleHost(section)))
	}
	host, port, err := net.SplitHostPort(s.Host)
	if err != nil || host == "" || port == "" {
		return c.At(splitKey(section+".host"), fmt.Sprintf("use HOST:PORT, such as %q", exampleHost(section)), "%q is not a host and port", s.Host)
	}
	if err := c.oneOf(section+".tls", s.TLS, mail.TLSImplicit, mail.TLSStart, mail.TLSNone); err != nil {
		return err
	}
	if s.TLS == mail.TLSNone && !Loopback(host) {
		return c.At(splitKey(section+".tls"), `use "implicit" or "starttls"; "none" is only for a server on this machine`, `"none" would send the password to %s unencrypted`, host)
	}
	return nil
}

// checkLogin checks that a server has exactly one secret, of the right kind for the login.
func (c *Config) checkLogin(section string, s serverSection) error {
	if err := c.oneOf(section+".auth", s.Auth, mail.AuthPlain, mail.AuthXOAuth2, mail.AuthOAuthBearer); err != nil {
		return err
	}
	if n := s.countSources(); n != 1 {
		return c.At(splitKey(section), "set exactly one of them",
			"%d of password_file, password_env, password_command, token_command and [%s.oauth2] are set", n, section)
	}
	if s.Auth == mail.AuthPlain && len(s.TokenCommand) > 0 {
		return c.At(splitKey(section+".token_command"), "set auth, or use password_command for a password", `requires auth = "xoauth2" or "oauthbearer"`)
	}
	if s.Auth == mail.AuthPlain && s.OAuth2.IsSet() {
		return c.At(splitKey(section+".oauth2"), "set auth in ["+section+"]", `requires auth = "xoauth2" or "oauthbearer", but auth is "plain"`)
	}
	return nil
}

// Secret returns the source of the login's secret: a refresh token, a password or an access token.
func (s serverSection) Secret() Source {
	if s.OAuth2.IsSet() {
		return Source{File: s.OAuth2.RefreshTokenFile, Login: true}
	}
	return Source{File: s.PasswordFile, Env: s.PasswordEnv, Command: slices.Concat(s.PasswordCommand, s.TokenCommand)}
}

// countSources returns how many sources of the secret are set.
func (s serverSection) countSources() int {
	n := Source{File: s.PasswordFile, Env: s.PasswordEnv, Command: s.PasswordCommand}.CountSet()
	if len(s.TokenCommand) > 0 {
		n++
	}
	if s.OAuth2.IsSet() {
		n++
	}
	return n
}

// exampleHost returns an example of a host and port for a hint.
func exampleHost(section string) string {
	if section == "mail.smtp" {
		return "smtp.example.com:465"
	}
	return "imap.example.com:993"
}

// Loopback reports whether a host name or address can only mean this machine.
func Loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}
