package commands

import (
	"net"
	"strings"

	"agentstateloop/cycle"
	"agentstateloop/mail"
)

// wireTrust sets in f what proves the sender of a mail: [trust] but its mesh,
// which is wireMesh's.
func (c *config) wireTrust(f *mail.Filter) error {
	t := c.file.Trust
	if err := c.oneOf("trust.require", t.Require, mail.RequireDMARC, mail.RequireChallenge, mail.RequireFrom); err != nil {
		return err
	}
	f.Require = t.Require
	switch {
	case t.Fallback != "" && t.Require != mail.RequireDMARC:
		return c.wrong("trust.fallback", `is for require = "dmarc" only`)
	case t.Fallback != "" && t.Fallback != mail.RequireChallenge:
		return c.wrong("trust.fallback", `%q is not known: "challenge", or leave it out`, t.Fallback)
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

// wireServersWord is for verify = "server".
func (c *config) wireServersWord(f *mail.Filter, t trustSection) error {
	switch {
	case t.AuthservID == "":
		return c.at([]string{"trust", "authserv_id"}, c.authservHint(),
			`is missing: require = "dmarc" believes the mail server's check of a sender, and needs the name it signs that with`)
	case strings.ContainsAny(t.AuthservID, " \t;\"()"):
		return c.wrong("trust.authserv_id", "%q is no name: it is what stands before the first semicolon of Authentication-Results", t.AuthservID)
	case t.Resolver != "":
		return c.wrong("trust.resolver", `is for verify = "dkim" only`)
	case t.SameProvider != "" && t.SameProvider != "auth":
		return c.wrong("trust.same_provider", `%q is not known: "auth", or leave it out`, t.SameProvider)
	}
	f.AuthservID, f.SameProvider = t.AuthservID, t.SameProvider == "auth"
	return nil
}

// authservHint tells how to come by an authserv_id.
func (c *config) authservHint() string {
	if c.file.Mail.IMAP.Host == "imap.gmail.com:993" {
		return `set authserv_id = "mx.google.com" in [trust]`
	}
	return `open the source of a mail that you sent to the agent: authserv_id is what stands in its topmost ` +
		`Authentication-Results field before the first semicolon; if there is none, set verify = "dkim" in [trust]`
}

// wireSignatures is for verify = "dkim".
func (c *config) wireSignatures(f *mail.Filter, t trustSection) error {
	for _, other := range []struct{ key, value string }{
		{"trust.authserv_id", t.AuthservID},
		{"trust.same_provider", t.SameProvider},
	} {
		if other.value != "" {
			return c.wrong(other.key, `is for verify = "server" only: with "dkim" nothing that the mail server says is believed`)
		}
	}
	if t.Resolver != "" {
		if host, port, err := net.SplitHostPort(t.Resolver); err != nil || host == "" || port == "" {
			return c.wrong("trust.resolver", "%q is no server and port: write it like \"127.0.0.1:53\"", t.Resolver)
		}
	}
	f.Resolver = t.Resolver
	return nil
}

// unproved says that the agent takes mail without a proof of its sender.
func unproved(a *cycle.Agent) bool { return a.Mail != nil && a.Mail.Filter.Require == mail.RequireFrom }
