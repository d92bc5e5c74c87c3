package config

import (
	"net"
	"strings"

	"agentstateloop/cycle"
	"agentstateloop/mail"
)

// wireTrust sets in f what proves the sender of a mail: [trust] except for
// trust.mesh, which wireMesh reads.
func (c *Config) wireTrust(f *mail.Filter) error {
	t := c.File.Trust
	if err := c.oneOf("trust.require", t.Require, mail.RequireDMARC, mail.RequireChallenge, mail.RequireFrom); err != nil {
		return err
	}
	f.Require = t.Require
	switch {
	case t.Fallback != "" && t.Require != mail.RequireDMARC:
		return c.Wrong("trust.fallback", `is for require = "dmarc" only`)
	case t.Fallback != "" && t.Fallback != mail.RequireChallenge:
		return c.Wrong("trust.fallback", `%q is not known: set "challenge", or leave it out`, t.Fallback)
	case t.Require != mail.RequireDMARC:
		return nil
	}
	f.Fallback = t.Fallback != ""
	f.Verify = t.Verify
	switch t.Verify {
	case mail.VerifyServer:
		return c.wireServersWord(f, t)
	case mail.VerifyDKIM:
		return c.wireSignatures(f, t)
	}
	return c.oneOf("trust.verify", t.Verify, mail.VerifyServer, mail.VerifyDKIM)
}

// wireServersWord is for verify = "server": the mail server's own check counts.
func (c *Config) wireServersWord(f *mail.Filter, t trustSection) error {
	switch {
	case t.AuthservID == "":
		return c.At([]string{"trust", "authserv_id"}, c.authservHint(),
			`is missing: require = "dmarc" relies on the mail server's check of a sender, and needs the name that the server signs it with`)
	case strings.ContainsAny(t.AuthservID, " \t;\"()"):
		return c.Wrong("trust.authserv_id", "%q is not a server's name: it is the text before the first semicolon of Authentication-Results", t.AuthservID)
	case t.Resolver != "":
		return c.Wrong("trust.resolver", `is for verify = "dkim" only`)
	case t.SameProvider != "" && t.SameProvider != "auth":
		return c.Wrong("trust.same_provider", `%q is not known: set "auth", or leave it out`, t.SameProvider)
	}
	f.AuthservID, f.SameProvider = t.AuthservID, t.SameProvider == "auth"
	return nil
}

// authservHint returns how to find the authserv_id.
func (c *Config) authservHint() string {
	if c.File.Mail.IMAP.Host == "imap.gmail.com:993" {
		return `set authserv_id = "mx.google.com" in [trust]`
	}
	return `open the source of a mail that you sent to the agent: authserv_id is the text before the first ` +
		`semicolon of its topmost Authentication-Results field; if it has no such field, set verify = "dkim" in [trust]`
}

// wireSignatures is for verify = "dkim": we verify the signature ourselves.
func (c *Config) wireSignatures(f *mail.Filter, t trustSection) error {
	for _, other := range []struct{ key, value string }{
		{"trust.authserv_id", t.AuthservID},
		{"trust.same_provider", t.SameProvider},
	} {
		if other.value != "" {
			return c.Wrong(other.key, `is for verify = "server" only: with "dkim" the mail server's own check does not count`)
		}
	}
	if t.Resolver != "" {
		if host, port, err := net.SplitHostPort(t.Resolver); err != nil || host == "" || port == "" {
			return c.Wrong("trust.resolver", "%q is not a server and port: write it like \"127.0.0.1:53\"", t.Resolver)
		}
	}
	f.Resolver = t.Resolver
	return nil
}

// Unproved reports whether the agent accepts mail without a proof of its sender.
func Unproved(a *cycle.Agent) bool { return a.Mail != nil && a.Mail.Filter.Require == mail.RequireFrom }
