package trust

import (
	"slices"
	"strings"

	"agentstateloop/mail/message"
)

// MayAnswer reports whether a mail refers to a Message-ID in the form of ours, for an effect of
// that kind. It does not check the MAC.
func (f Filter) MayAnswer(h message.Header, kind string) bool {
	return slices.ContainsFunc(h.Answered(), func(id string) bool {
		return f.ids().HasForm(id) && strings.HasPrefix(message.Lower(id), "<"+kind+".")
	})
}

// Answers returns the ID of the effect of that kind that a mail answers, or "". The MAC in its
// Message-ID proves that the effect's mail is ours. In-Reply-To takes precedence over
// References, and newer references over older ones. A mail that forwards ours is not an answer.
func (f Filter) Answers(h message.Header, kind string) (effect string) {
	if message.Forwarded(h.Subject) {
		return ""
	}
	for _, id := range h.Answered() {
		if effect, ok := f.ids().Effect(id); ok && strings.HasPrefix(effect, kind+".") {
			return effect
		}
	}
	return ""
}
