package commands

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

// wireMail makes the mail of the agent; nil where [mail] is left out.
func (p *program) wireMail(c *config, timeout time.Duration) (*cycle.Mail, error) {
	if !c.has("mail") {
		return nil, nil
	}
	address, err := c.address("mail.address", c.file.Mail.Address)
	if err != nil {
		return nil, err
	}
	operators, err := c.operators(address)
	if err != nil {
		return nil, err
	}
	if c.file.Mail.Mailbox == "" {
		return nil, c.wrong("mail.mailbox", `is empty: "INBOX" is the usual one`)
	}
	filter := mail.Filter{Handle: c.file.Agent.Handle, Operators: operators, Own: address, MaxSize: largestMail}
	if err := c.wireTrust(&filter); err != nil {
		return nil, err
	}
	imap, err := p.wireServer(c, "mail.imap", c.file.Mail.IMAP, address, timeout)
	if err != nil {
		return nil, err
	}
	smtp, err := p.wireServer(c, "mail.smtp", c.smtp(), address, timeout)
	if err != nil {
		return nil, err
	}
	return &cycle.Mail{
		Mailbox: mail.Mailbox{Server: imap, Name: c.file.Mail.Mailbox},
		SMTP:    smtp,
		Address: address,
		Filter:  filter,
	}, nil
}

// operators are the addresses of the operator, of which there must be one.
func (c *config) operators(own string) ([]string, error) {
	const key = "agent.operator"
	var addresses []string
	for _, text := range c.file.Agent.Operator {
		address, err := c.address(key, text)
		if err != nil {
			return nil, err
		}
		if strings.EqualFold(address, own) {
			return nil, c.wrong(key, "%s is the agent's own address (mail.address): give the agent a mailbox of its own, or mail from you could not be told from its", address)
		}
		addresses = append(addresses, address)
	}
	if len(addresses) == 0 {
		return nil, c.wrong(key, `is missing: your own address, such as ["you@example.com"]`)
	}
	return addresses, nil
}

// address reads one mail address, with or without a name before it.
func (c *config) address(key, text string) (string, error) {
	if text == "" {
		return "", c.wrong(key, "is missing: a mail address is wanted")
	}
	a, err := netmail.ParseAddress(text)
	if err != nil {
		return "", c.wrong(key, "%q is no mail address", text)
	}
	return a.Address, nil
}

// smtp is [mail.smtp] with what is missing taken from [mail.imap]: how to log
// in always, the host where we know that the two belong together.
func (c *config) smtp() serverSection {
	imap, smtp := c.file.Mail.IMAP, c.file.Mail.SMTP
	if smtp.Host == "" && imap.Host == "imap.gmail.com:993" {
		smtp.Host = "smtp.gmail.com:465"
	}
	smtp.TLS = cmp.Or(smtp.TLS, "implicit")
	smtp.Auth = cmp.Or(smtp.Auth, imap.Auth)
	smtp.Username = cmp.Or(smtp.Username, imap.Username)
	if smtp.secrets() == 0 {
		smtp.PasswordFile, smtp.PasswordEnv, smtp.PasswordCommand = imap.PasswordFile, imap.PasswordEnv, imap.PasswordCommand
		smtp.TokenCommand, smtp.OAuth2 = imap.TokenCommand, imap.OAuth2
	}
	return smtp
}

// secrets counts the ways to the secret that are set.
func (s serverSection) secrets() int {
	n := secretSource{file: s.PasswordFile, env: s.PasswordEnv, command: s.PasswordCommand}.ways()
	if len(s.TokenCommand) > 0 {
		n++
	}
	if s.OAuth2.set() {
		n++
	}
	return n
}

// wireServer makes one endpoint of its section.
func (p *program) wireServer(c *config, section string, s serverSection, address string, timeout time.Duration) (mail.Server, error) {
	none := mail.Server{}
	if s.Host == "" {
		return none, c.wrong(section+".host", "is missing: the server and its port, such as \"%s\"", exampleHost(section))
	}
	host, port, err := net.SplitHostPort(s.Host)
	if err != nil || host == "" || port == "" {
		return none, c.wrong(section+".host", "%q has no port: write it like \"%s\"", s.Host, exampleHost(section))
	}
	if err := c.oneOf(section+".tls", s.TLS, mail.TLSImplicit, mail.TLSStart, mail.TLSNone); err != nil {
		return none, err
	}
	if s.TLS == mail.TLSNone && !loopback(host) {
		return none, c.wrong(section+".tls", `"none" is for a server on this machine; %s gets your password only over "implicit" or "starttls"`, host)
	}
	if err := c.oneOf(section+".auth", s.Auth, mail.AuthPlain, mail.AuthXOAuth2, mail.AuthOAuthBearer); err != nil {
		return none, err
	}
	if n := s.secrets(); n != 1 {
		return none, c.wrong(section, "%d of password_file, password_env, password_command, token_command and [%s.oauth2] are set, and exactly one is wanted", n, section)
	}
	if s.Auth == mail.AuthPlain && len(s.TokenCommand) > 0 {
		return none, c.wrong(section+".token_command", `is for auth = "xoauth2" or "oauthbearer"; a password comes from password_command`)
	}
	if s.Auth == mail.AuthPlain && s.OAuth2.set() {
		return none, c.wrong(section+".oauth2", `is for auth = "xoauth2" or "oauthbearer"; this login has auth = "plain"`)
	}
	caFile := s.CAFile
	if caFile != "" {
		caFile = c.resolve(caFile)
	}
	server := mail.Server{
		Addr:     s.Host,
		TLS:      s.TLS,
		Auth:     s.Auth,
		Username: cmp.Or(s.Username, address),
		CAFile:   caFile,
		Timeout:  timeout,
	}
	if s.OAuth2.set() {
		o, err := p.wireOAuth(c, section+".oauth2", s.OAuth2, timeout)
		if err != nil {
			return none, err
		}
		server.Secret, server.Renew = p.learning(o)
		return server, nil
	}
	server.Secret = p.secret(c, s.secret())
	return server, nil
}

// secret says where the login's own secret is found: the refresh token, a
// password or a program that prints a token, of which one is set.
func (s serverSection) secret() secretSource {
	if s.OAuth2.set() {
		return secretSource{file: s.OAuth2.RefreshTokenFile, login: true}
	}
	return secretSource{file: s.PasswordFile, env: s.PasswordEnv, command: slices.Concat(s.PasswordCommand, s.TokenCommand)}
}

func exampleHost(section string) string {
	if section == "mail.smtp" {
		return "smtp.example.com:465"
	}
	return "imap.example.com:993"
}

// loopback says whether a host is this machine by its very name.
func loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}
