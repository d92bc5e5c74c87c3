package config

import (
	"cmp"
	netmail "net/mail"

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
