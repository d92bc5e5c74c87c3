package config

import (
	"cmp"
	"fmt"
	"net"
	"slices"
	"strings"

	"agentstateloop/commands/terminal"
)

// LoginHint returns the hint for a login refused by a mail server. section is "mail.imap" or
// "mail.smtp". The hint names the file, variable or command of the secret, and the requirements of
// the provider if we know the host.
func (c *Config) LoginHint(section string) string {
	s := c.File.Mail.IMAP
	if section == "mail.smtp" {
		s = c.SMTP()
	}
	hint := c.secretHint(s) + ", or username in [" + section + "]; each poll reads them again"
	if s.OAuth2.IsSet() {
		hint = fmt.Sprintf("get a new refresh token with `%s login`, as %s", terminal.Program, cmp.Or(s.Username, c.File.Mail.Address))
	}
	if note := ProviderNote(s.Host, s.Auth); note != "" {
		hint += "; " + note
	}
	return hint
}

// secretHint returns a hint that names the place of a server's password or token.
func (c *Config) secretHint(s serverSection) string {
	what := "password"
	if len(s.TokenCommand) > 0 {
		what = "token"
	}
	switch secret := s.Secret(); {
	case secret.File != "" && secret.Equal(c.File.Mail.IMAP.Secret()):
		return fmt.Sprintf("correct the %s in %s (`%s init --password` tries a new one first)", what, c.Resolve(secret.File), terminal.Program)
	case secret.File != "":
		return fmt.Sprintf("correct the %s in %s", what, c.Resolve(secret.File))
	case secret.Env != "":
		return fmt.Sprintf("correct the %s in the environment variable %s, which the crontab sets", what, secret.Env)
	case len(secret.Command) > 0:
		return fmt.Sprintf("correct the %s that %s prints", what, secret.Command[0])
	}
	return "correct the " + what
}

// MeshSecretHint returns the hint for a token or key of handle that the mesh refuses.
func (c *Config) MeshSecretHint(handle string) string {
	if c.File.Mesh.OverNATS() {
		return fmt.Sprintf("the servers must know the public key of %s: give it to `%s fleet plan`, as %[1]s=U…, with those of the other agents, and reload the servers", handle, terminal.Program)
	}
	known := fmt.Sprintf("the one that FILE of `%s mesh serve --tokens FILE` has for %s", terminal.Program, handle)
	switch secret := c.File.Mesh.Secret(); {
	case secret.File != "":
		return "the token in " + c.Resolve(secret.File) + " must be " + known
	case secret.Env != "":
		return "the token in the environment variable " + secret.Env + " must be " + known
	case len(secret.Command) > 0:
		return "the token that " + secret.Command[0] + " prints must be " + known
	}
	return "set token_file in [mesh]; the token must be " + known
}

// providerNotes describe the credentials that providers require instead of the account password. A
// domain also matches all names below it.
var providerNotes = []struct {
	domains []string
	note    string
}{
	{[]string{"gmail.com", "googlemail.com"}, "Gmail needs an app password: https://myaccount.google.com/apppasswords"},
	{[]string{"fastmail.com", "messagingengine.com"}, "Fastmail needs an app password: Settings, Privacy & Security"},
	{[]string{"mail.me.com", "icloud.com"}, "iCloud needs an app-specific password: https://account.apple.com, Sign-In and Security"},
	{[]string{"mail.yahoo.com", "aol.com"}, "Yahoo and AOL need an app password: the security page of your account"},
}

// outlookDomains belong to Microsoft, which accepts no passwords.
var outlookDomains = []string{"outlook.com", "office365.com", "hotmail.com", "live.com"}

// ProviderNote returns the credential requirements of the provider of a mail host (host or
// host:port), or "" for a host without known requirements. With a token, auth is not AuthPlain, and
// no password is needed.
func ProviderNote(host, auth string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	in := func(domain string) bool { return host == domain || strings.HasSuffix(host, "."+domain) }
	if auth != "" && auth != "plain" {
		return ""
	}
	if slices.ContainsFunc(outlookDomains, in) {
		return `Outlook and Microsoft 365 accept no passwords: use auth = "xoauth2" and [mail.imap.oauth2], see docs/operating.md`
	}
	for _, p := range providerNotes {
		if slices.ContainsFunc(p.domains, in) {
			return p.note
		}
	}
	return ""
}
