package trust

import (
	"strings"

	"agentstateloop/mail/message"
)

// Signing describes the coverage of the signature that proves a mail. It shows which ways of
// binding a mail to the agent work for its sender (docs/design.md, "The gate").
type Signing struct {
	// Whole is true if the whole mail counts as proved, because it came directly from the
	// operator to the server. The other fields are then empty.
	Whole bool

	Signed   []string // the fields that matter and are covered, in lower case
	Added    []string // those of Signed that are in the mail and named once more: no other can be added
	Unsigned []string // the fields that matter, are in the mail, and are not covered
	To       []string // the addresses in the covered To and Cc
}

// fieldsThatMatter are the fields that decide whether a mail is an order, and how to read it.
var fieldsThatMatter = []string{
	"from", "to", "cc", "subject", "date", "message-id", "in-reply-to", "references", "content-type", "content-transfer-encoding",
}

// signing describes a proof of a mail with these fields.
func (p proof) signing(fields []message.Field) *Signing {
	s := new(Signing)
	for _, c := range p.covers {
		if c.all {
			s.Whole = true
			return s
		}
	}
	for _, name := range fieldsThatMatter {
		switch {
		case p.sealed(fields, name):
			s.Signed = append(s.Signed, name)
			if count(fields, name) > 0 && p.closed(fields, name) {
				s.Added = append(s.Added, name)
			}
		case count(fields, name) > 0:
			s.Unsigned = append(s.Unsigned, name)
		}
	}
	for _, name := range []string{"to", "cc"} {
		if !p.sealed(fields, name) {
			continue
		}
		for _, list := range message.Values(fields, name) {
			s.To = append(s.To, message.Addresses(list)...)
		}
	}
	return s
}

// closed reports whether no field of that name can be added.
func (p proof) closed(fields []message.Field, name string) bool {
	for _, c := range p.covers {
		if c.times[name] <= count(fields, name) {
			return false
		}
	}
	return true
}

// provedBySPFOnly reports whether the server found that the mail came from a server of the domain of
// from, but found no signature of that domain.
func (f *Filter) provedBySPFOnly(fields []message.Field, from string) bool {
	if f.Verify == VerifyDKIM {
		return false
	}
	verdict, reason := f.serverVerdict(fields, from)
	if reason != "" || verdict.submitted {
		return false
	}
	_, reason = f.namedProofs(verdict.results, fields, from)
	return strings.HasPrefix(reason, errNoDKIM) && provesPath(verdict.results, from)
}
