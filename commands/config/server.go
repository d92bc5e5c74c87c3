package config

import (
	"cmp"
	"fmt"
	"net"
	"slices"
	"time"

	"agentstateloop/mail"
)

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
		return c.Missing(section+".host", fmt.Sprintf("set the server and its port, such as %q", exampleHost(section)))
	}
	host, port, err := net.SplitHostPort(s.Host)
	if err != nil || host == "" || port == "" {
		return c.At(dotted(section+".host"), fmt.Sprintf("write it like %q", exampleHost(section)), "%q is not a host and port", s.Host)
	}
	if err := c.oneOf(section+".tls", s.TLS, mail.TLSImplicit, mail.TLSStart, mail.TLSNone); err != nil {
		return err
	}
	if s.TLS == mail.TLSNone && !Loopback(host) {
		return c.At(dotted(section+".tls"), `use "implicit" or "starttls"; "none" is for a server on this machine`, `"none" would send the password to %s unencrypted`, host)
	}
	return nil
}

// checkLogin checks that a server has exactly one secret, of the right kind for the login.
func (c *Config) checkLogin(section string, s serverSection) error {
	if err := c.oneOf(section+".auth", s.Auth, mail.AuthPlain, mail.AuthXOAuth2, mail.AuthOAuthBearer); err != nil {
		return err
	}
	if n := s.countSources(); n != 1 {
		return c.At(dotted(section), "set exactly one of them",
			"%d of password_file, password_env, password_command, token_command and [%s.oauth2] are set", n, section)
	}
	if s.Auth == mail.AuthPlain && len(s.TokenCommand) > 0 {
		return c.At(dotted(section+".token_command"), "set auth, or use password_command for a password", `requires auth = "xoauth2" or "oauthbearer"`)
	}
	if s.Auth == mail.AuthPlain && s.OAuth2.IsSet() {
		return c.At(dotted(section+".oauth2"), "set auth in ["+section+"]", `requires auth = "xoauth2" or "oauthbearer", but auth is "plain"`)
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
