package trust

import (
	"slices"
	"time"

	"agentstateloop/internal/plain"
	"agentstateloop/mail/message"
)

// Returned is the statement of a delivery report about a mail of ours.
type Returned struct {
	Key     string    // of the report, in the form of Message.Key
	UID     uint32    // of the report
	At      time.Time // INTERNALDATE of the report
	Effect  string    // the effect of the mail, in lower case
	To      string    // the recipient who did not get it
	Reason  string
	Delayed bool // the server keeps trying
}

// ReportsToUs reports whether a header may belong to a delivery report for this agent. likely
// is true if it names one of our Message-IDs.
func (f *Filter) ReportsToUs(raw []byte) (ok, likely bool) {
	fields := message.Fields(raw)
	if !message.LooksLikeReport(fields) {
		return false, false
	}
	addressed, anybody := false, false
	for _, field := range fields {
		switch field.Name {
		case "in-reply-to", "references":
			likely = likely || slices.ContainsFunc(message.ThreadIDs(field.Value), func(id string) bool {
				_, ours := f.ids().Effect(id)
				return ours
			})
		case "to", "cc":
			anybody = true
			addressed = addressed || f.isOwn(field.Value)
		case "delivered-to", "x-original-to", "envelope-to", "x-delivered-to":
			addressed = addressed || f.isOwn(field.Value)
		}
	}
	return likely || addressed || !anybody, likely
}

// isOwn reports whether a list of addresses holds one of this agent's.
func (f *Filter) isOwn(list string) bool {
	return slices.ContainsFunc(message.Addresses(list), func(a string) bool {
		return a == message.NormalAddress(f.Own) || slices.ContainsFunc(f.Aliases, func(alias string) bool { return a == message.NormalAddress(alias) })
	})
}

// ReadReport returns a report's statement about a mail of ours. ok is false if the report makes
// no such statement; forged is true if it names an ID that only looks like ours.
func (f *Filter) ReadReport(raw []byte) (r Returned, ok, forged bool) {
	report := message.ReadReport(raw)
	for _, id := range report.IDs {
		effect, ours := f.ids().Effect(id)
		if !ours {
			forged = forged || f.ids().HasForm(id)
			continue
		}
		r = Returned{Effect: effect, To: f.undeliveredTo(report.Recipients), Reason: report.Reason, Delayed: report.Delayed}
		return r, report.Failed || report.Delayed, false
	}
	return r, false, forged
}

// undeliveredTo returns the recipient who did not get a mail of ours: an operator if the report names
// one, otherwise its first recipient.
func (f *Filter) undeliveredTo(recipients []string) string {
	if i := slices.IndexFunc(recipients, f.Operator); i >= 0 {
		return recipients[i]
	}
	if len(recipients) > 0 {
		return plain.OneLine(recipients[0], 200)
	}
	return ""
}
