package commands

import (
	"net"
	"slices"
	"strings"
)

// preset is what is known of a mail provider.
type preset struct {
	domains    []string // of addresses that surely are its
	imap, smtp string   // host:port
	authservID string   // stamped on mail; "": none, or changing ones, and DKIM signatures are verified here
	provider   string   // of OAuth2
	onlyOAuth  bool     // it takes no passwords
	secret     string   // what is to be given as the password
}

// presetNone is an agent without mail.
const presetNone = "none"

// presetNames are what --preset takes, in the order of its help.
func presetNames() []string { return []string{"gmail", "fastmail", "outlook", "generic", presetNone} }

// presets are what the providers document. Which names they stamp on mail
// stands in docs/security.md.
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
		"outlook": {
			domains: []string{"outlook.com", "hotmail.com", "live.com", "msn.com"},
			imap:    "outlook.office365.com:993", smtp: "smtp-mail.outlook.com:587",
			provider: "microsoft", onlyOAuth: true,
		},
		"generic":  {secret: "password"},
		presetNone: {},
	}
}

// presetOf guesses by the address; "" where it tells nothing.
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

// withPort adds the port that is usual where a host has none.
func withPort(host, port string) string {
	if _, _, err := net.SplitHostPort(host); err == nil || host == "" {
		return host
	}
	return net.JoinHostPort(strings.Trim(host, "[]"), port)
}

// tlsOf is how a port is protected: those where the conversation begins in
// clear want STARTTLS.
func tlsOf(hostPort string) string {
	_, port, _ := net.SplitHostPort(hostPort)
	if slices.Contains([]string{"143", "25", "587"}, port) {
		return "starttls"
	}
	return "implicit"
}

// smtpBeside guesses the sending host by the mailbox's; "" where there is no
// guess.
func smtpBeside(imap string) string {
	host, _, _ := net.SplitHostPort(imap)
	if rest, ok := strings.CutPrefix(host, "imap."); ok {
		return "smtp." + rest + ":465"
	}
	return ""
}
