package state

import (
	"fmt"
	"strings"
	"time"
	"unicode"
)

// Relaying is a relay request of a peer that we carried out.
type Relaying struct {
	From string    `json:"from"`
	At   time.Time `json:"at"`
}

// maxRelay bounds the relayed text of a peer, in bytes.
const maxRelay = 4 << 10

// RelayAsked reports that a listed peer, proven by its token, asks us to mail Text
// to our operator.
type RelayAsked struct {
	Key, From, Text, MeshID string
}

// apply mails the peer's text to our operator, as data (docs/design.md,
// "Credentials"). It causes no turn and wakes nothing.
func (e RelayAsked) apply(m *machine) {
	m.acknowledgeLater(0, e.MeshID)
	if m.seen(e.Key) {
		return
	}
	m.noteSeen(e.Key)
	text := relayed(e.Text)
	why := m.whyNotRelayed(e.From, text)
	if why != "" {
		m.line(Line{Kind: LineNote, Key: e.Key, Source: Mesh, From: e.From, What: "relay", Reason: "not passed on: " + why})
		return
	}
	m.Relays = append(m.Relays, Relaying{From: e.From, At: m.now})
	m.line(Line{Kind: LineNote, Key: e.Key, Source: Mesh, From: e.From, What: "relay", Reason: "passed on to the operator"})
	m.queue(Effect{
		Kind: Relayed, Channel: ByMail, To: m.policy.Operator,
		// Without a callsign, so that an answer is not mistaken for mail to the peer.
		Thread: m.subject("message from " + e.From),
		Text: fmt.Sprintf("The agent %s asks me to pass this on to you. The text is that agent's, not mine, and I have not acted on it. An answer to this mail comes to me.\n\n%s",
			e.From, quote(text)),
	})
}

// Redacted implements [Redactable].
func (e RelayAsked) Redacted(redact func(string) string) Event {
	e.Text = redact(e.Text)
	return e
}

// whyNotRelayed returns why a request is refused, or "".
func (m *machine) whyNotRelayed(from, text string) string {
	lately := 0
	for _, r := range m.Relays {
		if r.From == from {
			lately++
		}
	}
	switch {
	case text == "":
		return "it is empty"
	case !m.policy.HasMail:
		return "no mail is configured"
	case !m.policy.Notices:
		return "notices are switched off"
	case lately >= mailsAnHour:
		return fmt.Sprintf("more than %d within an hour", mailsAnHour)
	}
	return ""
}

// relayed returns a peer's text, cut, and without characters that could play tricks in a mail.
func relayed(text string) string {
	text = strings.ToValidUTF8(text[:min(len(text), maxRelay)], "")
	return strings.TrimSpace(strings.Map(func(r rune) rune {
		if r == '\n' || r == '\t' || unicode.IsPrint(r) {
			return r
		}
		return -1
	}, text))
}

// quote marks each line as quoted.
func quote(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		b.WriteString(strings.TrimRight("> "+line, " \t\n") + "\n")
	}
	return b.String()
}
