package config

import (
	"net"
	"strings"

	"agentstateloop/cycle"
	"agentstateloop/mail/trust"
)

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
			`is missing: require = "dmarc" needs the name that your mail server writes into Authentication-Results`)
	case strings.ContainsAny(t.AuthservID, " \t;\"()"):
		return c.At(dotted("trust.authserv_id"), "use the text before the first semicolon of Authentication-Results", "%q is not a server name", t.AuthservID)
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
		`semicolon of its topmost Authentication-Results field; if it has no such field, set verify = "dkim" in [trust]`
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
			return c.At(dotted(other.key), `remove it: with verify = "dkim" the mail server's own check does not count`, `can only be used with verify = "server"`)
		}
	}
	if t.Resolver != "" {
		if host, port, err := net.SplitHostPort(t.Resolver); err != nil || host == "" || port == "" {
			return c.At(dotted("trust.resolver"), `write it like "127.0.0.1:53"`, "%q is not a host and port", t.Resolver)
		}
	}
	f.Resolver = t.Resolver
	return nil
}

// Unproved reports whether the agent accepts mail from unauthenticated senders.
func Unproved(a *cycle.Agent) bool {
	return a.Mail != nil && a.Mail.Filter.Require == trust.RequireFrom
}
