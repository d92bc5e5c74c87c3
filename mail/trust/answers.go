package trust

import (
	"slices"
	"strings"

	"agentstateloop/mail/message"
)

// MayAnswer reports whether a mail refers to a Message-ID that has the form of one of
// ours, for an effect of that kind. It proves nothing.
func (f Filter) MayAnswer(h message.Header, kind string) bool {
	return slices.ContainsFunc(h.Answered(), func(id string) bool {
		return f.ids().HasForm(id) && strings.HasPrefix(message.Lower(id), "<"+kind+".")
	})
}

// Answers returns the id of the effect of that kind that a mail answers, or "". The MAC of
// its Message-ID proves that the mail is ours. In-Reply-To counts before References, and of
// these the newest. A mail that forwards ours answers none.
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
