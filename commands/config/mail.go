package config

import (
	"cmp"
	"net"
	netmail "net/mail"
	"slices"
	"strings"
	"time"

	"agentstateloop/cycle"
	"agentstateloop/mail"
)

// largestMail is more than any provider lets through, in bytes.
const largestMail = 64 << 20

// wireMail wires [mail]; nil where it is left out.
func (l *Loader) wireMail(c *Config) (*cycle.Mail, error) {
	if !c.Has("mail") {
		return nil, nil
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
		return nil, c.Wrong("mail.mailbox", `is empty: "INBOX" is the usual one`)
	}
	filter := mail.Filter{Handle: c.File.Agent.Handle, Operators: operators, Own: address, MaxSize: largestMail}
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
		Mailbox: mail.Mailbox{Server: imap, Name: c.File.Mail.Mailbox},
		SMTP:    smtp,
		Address: address,
		Filter:  filter,
	}, nil
}

// operators returns the addresses of the operator, at least one.
func (c *Config) operators(own string) ([]string, error) {
	const key = "agent.operator"
	var addresses []string
	for _, text := range c.File.Agent.Operator {
		address, err := c.address(key, text)
		if err != nil {
			return nil, err
		}
		if strings.EqualFold(address, own) {
			return nil, c.Wrong(key, "%s is the agent's own address (mail.address): give the agent a mailbox of its own, so that its mail and yours can be told apart", address)
		}
		addresses = append(addresses, address)
	}
	if len(addresses) == 0 {
		return nil, c.Wrong(key, `is missing: your own address, such as ["you@example.com"]`)
	}
	return addresses, nil
}

// address reads one email address, with or without a name before it.
func (c *Config) address(key, text string) (string, error) {
	if text == "" {
		return "", c.Wrong(key, "is missing: the agent's own email address")
	}
	a, err := netmail.ParseAddress(text)
	if err != nil {
		return "", c.Wrong(key, "%q is not an email address", text)
	}
	return a.Address, nil
}

// SMTP returns [mail.smtp] with what it leaves out taken from [mail.imap]: always
// the login, and the host where we know that the two belong together.
func (c *Config) SMTP() serverSection {
	imap, smtp := c.File.Mail.IMAP, c.File.Mail.SMTP
	if smtp.Host == "" && imap.Host == "imap.gmail.com:993" {
		smtp.Host = "smtp.gmail.com:465"
	}
	smtp.TLS = cmp.Or(smtp.TLS, "implicit")
	smtp.Auth = cmp.Or(smtp.Auth, imap.Auth)
	smtp.Username = cmp.Or(smtp.Username, imap.Username)
	if smtp.ways() == 0 {
		smtp.PasswordFile, smtp.PasswordEnv, smtp.PasswordCommand = imap.PasswordFile, imap.PasswordEnv, imap.PasswordCommand
		smtp.TokenCommand, smtp.OAuth2 = imap.TokenCommand, imap.OAuth2
	}
	return smtp
}

// ways counts the ways to the secret that are set.
func (s serverSection) ways() int {
	n := Source{File: s.PasswordFile, Env: s.PasswordEnv, Command: s.PasswordCommand}.Ways()
	if len(s.TokenCommand) > 0 {
		n++
	}
	if s.OAuth2.IsSet() {
		n++
	}
	return n
}

// wireServer wires one server from its section.
func (l *Loader) wireServer(c *Config, section string, s serverSection, address string) (mail.Server, error) {
	none := mail.Server{}
	if s.Host == "" {
		return none, c.Wrong(section+".host", "is missing: the server and its port, such as \"%s\"", exampleHost(section))
	}
	host, port, err := net.SplitHostPort(s.Host)
	if err != nil || host == "" || port == "" {
		return none, c.Wrong(section+".host", "%q has no port: write it like \"%s\"", s.Host, exampleHost(section))
	}
	if err := c.oneOf(section+".tls", s.TLS, mail.TLSImplicit, mail.TLSStart, mail.TLSNone); err != nil {
		return none, err
	}
	if s.TLS == mail.TLSNone && !Loopback(host) {
		return none, c.Wrong(section+".tls", `"none" is for a server on this machine; use "implicit" or "starttls" for %s, so that your password is encrypted`, host)
	}
	if err := c.oneOf(section+".auth", s.Auth, mail.AuthPlain, mail.AuthXOAuth2, mail.AuthOAuthBearer); err != nil {
		return none, err
	}
	if n := s.ways(); n != 1 {
		return none, c.Wrong(section, "%d of password_file, password_env, password_command, token_command and [%s.oauth2] are set: keep exactly one", n, section)
	}
	if s.Auth == mail.AuthPlain && len(s.TokenCommand) > 0 {
		return none, c.Wrong(section+".token_command", `is for auth = "xoauth2" or "oauthbearer"; a password comes from password_command`)
	}
	if s.Auth == mail.AuthPlain && s.OAuth2.IsSet() {
		return none, c.Wrong(section+".oauth2", `is for auth = "xoauth2" or "oauthbearer"; this login has auth = "plain"`)
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
		Timeout:  time.Duration(c.File.Timing.NetworkTimeout),
	}
	if s.OAuth2.IsSet() {
		o, err := l.OAuth(c, section+".oauth2", s.OAuth2)
		if err != nil {
			return none, err
		}
		server.Secret, server.Renew = l.learning(o)
		return server, nil
	}
	server.Secret = l.Secret(c, s.Secret())
	return server, nil
}

// Secret says where the login's own secret is found: a refresh token, a
// password, or a program that prints a token.
func (s serverSection) Secret() Source {
	if s.OAuth2.IsSet() {
		return Source{File: s.OAuth2.RefreshTokenFile, Login: true}
	}
	return Source{File: s.PasswordFile, Env: s.PasswordEnv, Command: slices.Concat(s.PasswordCommand, s.TokenCommand)}
}

// exampleHost is for errors.
func exampleHost(section string) string {
	if section == "mail.smtp" {
		return "smtp.example.com:465"
	}
	return "imap.example.com:993"
}

// Loopback reports whether the name of a host can only mean this machine.
func Loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}
