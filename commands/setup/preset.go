package setup

import (
	"net"
	"slices"
	"strings"
)

// preset holds the known settings of a mail provider.
type preset struct {
	domains    []string // of addresses that are certainly its own
	imap, smtp string   // host:port
	authservID string   // stamped on mail; "": none, or changing ones, so we verify DKIM signatures
	provider   string   // of OAuth2
	onlyOAuth  bool     // it accepts no passwords
	secret     string   // what to type as the password
}

// Names of presets. presetNone is an agent without mail.
const (
	presetOutlook = "outlook"
	presetGeneric = "generic"
	presetNone    = "none"
)

// presetNames returns what --preset takes, in the order of its help.
func presetNames() []string {
	return []string{"gmail", "fastmail", presetOutlook, presetGeneric, presetNone}
}

// presets holds what the providers document. docs/security.md lists the names
// that they stamp on mail.
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

// presetOf guesses the preset by the address, or returns "".
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

// withPort adds a port to a host that has none.
func withPort(host, port string) string {
	if _, _, err := net.SplitHostPort(host); err == nil || host == "" {
		return host
	}
	return net.JoinHostPort(strings.Trim(host, "[]"), port)
}

// tlsOf returns how a port is protected. The ports on which a connection begins
// in clear text need STARTTLS.
func tlsOf(hostPort string) string {
	_, port, _ := net.SplitHostPort(hostPort)
	if slices.Contains([]string{"143", "25", "587"}, port) {
		return "starttls"
	}
	return "implicit"
}

// smtpFor guesses the SMTP host by the IMAP host, or returns "".
func smtpFor(imap string) string {
	host, _, _ := net.SplitHostPort(imap)
	if rest, ok := strings.CutPrefix(host, "imap."); ok {
		return "smtp." + rest + ":465"
	}
	return ""
}
