package config

import (
	"cmp"
	netmail "net/mail"
	"slices"
	"strings"

	"agentstateloop/cycle"
	"agentstateloop/mail"
	"agentstateloop/mail/trust"
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
		return nil, c.At(dotted("mail.mailbox"), `remove it to use "INBOX"`, "is empty")
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
		Mailbox: mail.Mailbox{Server: imap, Name: c.File.Mail.Mailbox, Secrets: l.Secrets},
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
			return nil, c.At(dotted(key), "list only addresses whose mail comes to the agent", "%s is one of your own addresses (agent.operator)", alias)
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
