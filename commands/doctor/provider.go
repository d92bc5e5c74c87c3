package doctor

import (
	"fmt"
	"slices"
	"strings"

	"agentstateloop/mail/trust"
)

// providerCheck reports which fields the operator's provider signs, as seen in the last mails, and
// so which fields can bind a mail to the agent (docs/design.md, "The gate"). An unsigned field is
// not a fault of the setup, but the operator should know its consequences.
type providerCheck struct {
	trials []trust.Trial
	handle string
}

func (c providerCheck) findings() []Finding {
	const name = "provider"
	var signed []*trust.Signing
	whole := 0
	for _, t := range c.trials {
		switch {
		case t.Signing == nil:
		case t.Signing.Whole:
			whole++
		default:
			signed = append(signed, t.Signing)
		}
	}
	var found []Finding
	if len(signed) > 0 {
		found = c.signing(newProvider(signed))
	}
	if whole > 0 {
		found = append(found, bad(Info, name, "",
			"%d of your last %d mails are accepted without a signature, because of allow_spf or same_provider in [trust]", whole, len(c.trials)))
	}
	return found
}

// signing returns the findings about a provider that signs.
func (c providerCheck) signing(p provider) []Finding {
	const name = "provider"
	ways := []string{"@" + c.handle + " in the subject"}
	addressed := p.signsAny("to", "cc")
	if addressed {
		ways = append([]string{"its address in " + p.signedAmong("to", "cc")}, ways...)
	}
	note := ""
	switch {
	case p.signsAny("in-reply-to", "references"):
		ways = append(ways, "a reply to its mail")
	case !addressed:
		ways = append(ways, "a reply to its mail with the subject of the thread")
	case !p.leavesOut("in-reply-to", "references"):
		note = "; none of these mails is a reply"
	}
	found := []Finding{good(name, "your provider signs %s; to address the agent, use %s%s", p.signedFields(), orList(ways), note)}
	if p.leavesOut("to", "cc") {
		found = append(found, bad(Info, name, "put @"+c.handle+" in the subject, or reply to a mail of the agent and keep its subject",
			"it does not sign %s: the agent's address there does not count", p.unsignedAmong("to", "cc")))
	}
	if p.leavesOut("in-reply-to", "references") && addressed {
		found = append(found, bad(Info, name, "",
			"it does not sign %s: a reply needs the agent's address in To, or @%s in the subject", p.unsignedAmong("in-reply-to", "references"), c.handle))
	}
	if p.leavesOut("content-type", "content-transfer-encoding") {
		found = append(found, bad(Warn, name, signBodyFields,
			"it does not sign %s: a mail whose text can be read in two ways waits until you confirm it with YES", p.unsignedAmong("content-type", "content-transfer-encoding")))
	}
	return found
}

// signBodyFields explains how to sign the fields that define how to decode a body, or how to make
// them irrelevant.
const signBodyFields = `if the mail server is yours, sign these fields: in opendkim.conf "SignHeaders *,+content-type,+content-transfer-encoding", ` +
	`or in rspamd's local.d/dkim_signing.conf sign_headers = "from:sender:to:cc:subject:date:message-id:in-reply-to:references:mime-version:content-type:content-transfer-encoding"; ` +
	`in mutt, write in UTF-8: set send_charset = "us-ascii:utf-8"`

// provider summarizes the fields covered by the signatures of several mails.
type provider struct {
	signed, added, unsigned map[string]bool // by field name
}

func newProvider(signed []*trust.Signing) provider {
	p := provider{signed: map[string]bool{}, added: map[string]bool{}, unsigned: map[string]bool{}}
	for _, s := range signed {
		addAll(p.signed, s.Signed)
		addAll(p.added, s.Added)
		addAll(p.unsigned, s.Unsigned)
	}
	return p
}

func addAll(set map[string]bool, names []string) {
	for _, name := range names {
		set[name] = true
	}
}

// signs reports whether at least one signature names the field and no mail has the field unsigned.
func (p provider) signs(field string) bool { return p.signed[field] && !p.unsigned[field] }

func (p provider) signsAny(fields ...string) bool { return slices.ContainsFunc(fields, p.signs) }

// leavesOut reports whether a mail has one of the fields unsigned.
func (p provider) leavesOut(fields ...string) bool {
	return slices.ContainsFunc(fields, func(f string) bool { return p.unsigned[f] })
}

// fieldNames are the fields of mail.Signing, in display order.
var fieldNames = []struct{ field, name string }{
	{"from", "From"}, {"to", "To"}, {"cc", "Cc"}, {"subject", "Subject"}, {"date", "Date"}, {"message-id", "Message-ID"},
	{"in-reply-to", "In-Reply-To"}, {"references", "References"},
	{"content-type", "Content-Type"}, {"content-transfer-encoding", "Content-Transfer-Encoding"},
}

// signedFields lists the signed fields, and those to which a second field cannot be added.
func (p provider) signedFields() string {
	text := strings.Join(namesOf(p.signs), ", ")
	closed := namesOf(func(f string) bool { return p.signs(f) && p.added[f] })
	if len(closed) == 0 {
		return text
	}
	return text + fmt.Sprintf(" (adding a second %s would break the signature)", orList(closed))
}

// signedAmong joins the signed fields.
func (p provider) signedAmong(fields ...string) string {
	return orList(namesOf(func(f string) bool { return slices.Contains(fields, f) && p.signs(f) }))
}

// unsignedAmong joins the unsigned fields.
func (p provider) unsignedAmong(fields ...string) string {
	return orList(namesOf(func(f string) bool { return slices.Contains(fields, f) && p.unsigned[f] }))
}

func namesOf(wanted func(field string) bool) []string {
	var names []string
	for _, f := range fieldNames {
		if wanted(f.field) {
			names = append(names, f.name)
		}
	}
	return names
}

// orList joins names as a choice.
func orList(names []string) string {
	if len(names) < 2 {
		return strings.Join(names, "")
	}
	last := len(names) - 1
	return strings.Join(names[:last], ", ") + " or " + names[last]
}
