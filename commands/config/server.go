package config

import (
	"cmp"
	"net"
	"slices"
	"time"

	"agentstateloop/mail"
)

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
