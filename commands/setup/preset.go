package setup

import (
	"net"
	"slices"
	"strings"
)

// preset holds the known settings of a mail provider.
type preset struct {
	domains    []string // addresses in these domains surely belong to the provider
	imap, smtp string   // host:port
	authservID string   // the name it writes into mail; "" if it is missing or varies: then we verify DKIM signatures
	provider   string   // of OAuth2
	onlyOAuth  bool     // the provider accepts no passwords
	secret     string   // the kind of password to ask for
}

// Names of presets. presetNone is an agent without mail.
const (
	presetOutlook = "outlook"
	presetGeneric = "generic"
	presetNone    = "none"
)

// presetNames returns the values of --preset, in the order of its help.
func presetNames() []string {
	return []string{"gmail", "fastmail", presetOutlook, presetGeneric, presetNone}
}

// presets returns the settings that the providers document. docs/security.md lists the names they
// write into mail.
func presets() map[string]preset {
	return map[string]preset{
		"gmail": {
			domains: []string{"gmail.com", "googlemail.com"},
			imap:    "imap.gmail.com:993", smtp: "smtp.gmail.com:465",
			authservID: "mx.google.com", provider: "google",
			secret: "app password (16 letters, from your Google account's security page)",
		},
		"fastmail": {
			domains: []string{"fastmail.com", "fastmail.fm", "sent.com", "messagingengine.com"},
			imap:    "imap.fastmail.com:993", smtp: "smtp.fastmail.com:465",
			secret: "app password (Settings, Privacy & Security)",
		},
		presetOutlook: {
			domains: []string{"outlook.com", "hotmail.com", "live.com", "msn.com"},
			imap:    "outlook.office365.com:993", smtp: "smtp-mail.outlook.com:587",
			provider: "microsoft", onlyOAuth: true,
		},
		presetGeneric: {secret: "password"},
		presetNone:    {},
	}
}

// presetOf guesses the preset from the address. It returns "" for an unknown domain.
func presetOf(address string) string {
	domain := strings.ToLower(domainOf(address))
	for _, name := range presetNames() {
		if slices.Contains(presets()[name].domains, domain) {
			return name
		}
	}
	return ""
}

func domainOf(address string) string { return address[strings.LastIndexByte(address, '@')+1:] }

// withPort adds a port to a host that lacks one.
func withPort(host, port string) string {
	if _, _, err := net.SplitHostPort(host); err == nil || host == "" {
		return host
	}
	return net.JoinHostPort(strings.Trim(host, "[]"), port)
}

// tlsOf returns the kind of TLS for a port. Ports where a connection begins in clear text need
// STARTTLS.
func tlsOf(hostPort string) string {
	_, port, _ := net.SplitHostPort(hostPort)
	if slices.Contains([]string{"143", "25", "587"}, port) {
		return "starttls"
	}
	return "implicit"
}

// smtpFor guesses the SMTP host from the IMAP host, or returns "".
func smtpFor(imap string) string {
	host, _, _ := net.SplitHostPort(imap)
	if rest, ok := strings.CutPrefix(host, "imap."); ok {
		return "smtp." + rest + ":465"
	}
	return ""
}
