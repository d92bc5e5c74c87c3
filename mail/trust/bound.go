package trust

import (
	"fmt"
	"slices"
	"strings"

	"agentstateloop/internal/plain"
	"agentstateloop/mail/message"
)

// A proof of the sender shows that the operator wrote a mail, but not to whom. Anyone who holds
// a mail of the operator can send it on and change its unsigned parts. A mail is an order only
// if its signed parts show that it is for this agent (docs/design.md, "The gate").

// unbound returns the reason why the coverage c does not bind a mail with header h to this
// agent, or "". Any of these binds it:
//
//   - The agent's address, or one of its aliases, in To or Cc.
//   - The callsign in Subject.
//   - A Message-ID of ours in In-Reply-To or References, unless the mail is a forward: programs
//     put such an ID into forwards too, and somebody else gets them.
//
// Some providers sign neither the fields of an answer nor its recipients. In such a mail, an ID
// of ours still binds an answer whose subject is that of its thread and is signed: only a
// holder of our mail knows the ID.
func (f *Filter) unbound(c coverage, fields []message.Field, h message.Header) string {
	if f.calledIn(h.Subject) && c.covered(fields, "subject") || f.addressed(c, fields) {
		return ""
	}
	whole := "Subject does not name @" + f.Handle + ", no signed To or Cc names " + f.Own
	if message.Forwarded(h.Subject) {
		return whole + ", and it is a forward, not an answer"
	}
	answers := false // by an unsigned field
	for _, name := range []string{"in-reply-to", "references"} {
		ours := f.ownIDsIn(fields, name)
		switch {
		case len(ours) == 0:
		case c.covered(fields, name):
			return ""
		case c.sealed(fields, "to") || c.sealed(fields, "cc"):
			answers = true
		case slices.ContainsFunc(ours, func(id string) bool { return f.ids().OfThread(id, h.Subject) }):
			return ""
		default:
			return whole + ", and only unsigned fields make it an answer, with another subject"
		}
	}
	if answers {
		return whole + ", and only unsigned fields make it an answer"
	}
	return whole + ", and it is not an answer to a mail of ours"
}

// addressed reports whether a To or Cc that c covers names the agent.
func (f *Filter) addressed(c coverage, fields []message.Field) bool {
	for _, name := range []string{"to", "cc"} {
		if !c.covered(fields, name) {
			continue
		}
		for _, list := range message.Values(fields, name) {
			if slices.ContainsFunc(message.Addresses(list), f.isOurs) {
				return true
			}
		}
	}
	return false
}

// isOurs reports whether address, normalised, is one of the agent's.
func (f *Filter) isOurs(address string) bool {
	return slices.ContainsFunc(f.addresses(), func(own string) bool { return message.NormalAddress(own) == address })
}

// addresses returns the addresses at which the agent gets mail.
func (f *Filter) addresses() []string { return append([]string{f.Own}, f.Aliases...) }

// ownIDsIn returns the Message-IDs of this agent in the fields of that name.
func (f *Filter) ownIDsIn(fields []message.Field, name string) []string {
	var ours []string
	for _, value := range message.Values(fields, name) {
		for _, id := range message.ThreadIDs(value) {
			if f.ids().Ours(id) {
				ours = append(ours, id)
			}
		}
	}
	return ours
}

// boundElsewhere returns the reason if s shows that the mail was sent only to domains other
// than the agent's, or "". Gmail signs a mail once for each domain of its recipients and names
// the domain in the tag darn=.
func (f *Filter) boundElsewhere(s signature) string {
	if !s.binds {
		return ""
	}
	for _, domain := range s.bound {
		if slices.ContainsFunc(f.addresses(), func(own string) bool { return sameDomain(domain, message.Domain(own)) }) {
			return ""
		}
	}
	return fmt.Sprintf("it was sent to %q (darn= of the signature), not to the domain of %s",
		plain.OneLine(strings.Join(s.bound, ", "), 100), f.Own)
}
