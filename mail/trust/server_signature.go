package trust

import (
	"fmt"
	"slices"
	"strings"

	"agentstateloop/internal/plain"
	"agentstateloop/mail/message"
)

// maxNamed is the maximum number of DKIM-Signature fields in a mail of which the server may
// name one. Nobody signs that often.
const maxNamed = 50

// signatureField is one DKIM-Signature field of a mail.
type signatureField struct {
	signature       // as far as it could be read
	err       error // of parseSignature
}

// signatureFields returns the DKIM-Signature fields of a header, from the top.
func signatureFields(fields []message.Field) []signatureField {
	var all []signatureField
	for _, value := range message.Values(fields, "dkim-signature") {
		s, err := parseSignature(value)
		all = append(all, signatureField{s, err})
	}
	return all
}

// namedProofs returns a proof for each dkim=pass of the server that is good enough (RFC 8601
// section 2.7.1, RFC 6008), or the reason if no signature is.
//
// The server names a signature by its domain, and most servers add the selector and the
// beginning of its value. A mail can hold look-alikes of the signature that passed. So every
// signature that the server may mean must be good enough. An unreadable signature may be any.
func (f *Filter) namedProofs(results []authResult, fields []message.Field, from string) (proofs []proof, reason string) {
	domain := message.Domain(from)
	signatures := signatureFields(fields)
	if len(signatures) > maxNamed {
		return nil, fmt.Sprintf("%d DKIM-Signature fields", len(signatures))
	}
	for _, r := range ofMethod(results, "dkim") {
		name, ok := nameIn(r)
		if r.value != "pass" || !ok {
			continue
		}
		group := slices.DeleteFunc(slices.Clone(signatures), func(s signatureField) bool { return !name.mayMean(s.signature) })
		if !slices.ContainsFunc(group, func(s signatureField) bool { return aligned(s.domain, domain) }) {
			if reason == "" && aligned(name.ofDomain(), domain) {
				reason = "the server verified a DKIM signature of " + plain.OneLine(name.ofDomain(), 100) + " that is not in the mail"
			}
			continue
		}
		p, weak := f.strength(group, fields, from)
		if weak == "" {
			proofs = append(proofs, p)
		} else {
			reason = weak
		}
	}
	switch {
	case len(proofs) > 0:
		return proofs, ""
	case reason == "":
		return nil, errNoDKIM + domain
	}
	return nil, reason
}

// errNoDKIM begins the reason for a mail without a signature that the server found valid.
const errNoDKIM = "the server found no valid DKIM signature of "

// strength returns the proof by one of group, or the reason why a member is too weak.
func (f *Filter) strength(group []signatureField, fields []message.Field, from string) (p proof, weak string) {
	for _, s := range group {
		if s.err != nil {
			return proof{}, evidence(s.err.Error(), s.domain)
		}
		if weak := f.weakness(s.signature, fields, from); weak != "" {
			return proof{}, weak
		}
		p.covers = append(p.covers, s.covers())
	}
	return p, ""
}

// signatureName is a server's name for a signature. Missing parts are "".
type signatureName struct {
	domain   string // header.d
	identity string // the domain of header.i
	selector string // header.s
	value    string // header.b: the beginning of b=
}

// nameIn returns the name of a signature in a result. ok is false if the result names no
// domain, or repeats a property.
func nameIn(r authResult) (n signatureName, ok bool) {
	var i string
	for _, p := range []struct {
		name string
		into *string
	}{{"header.d", &n.domain}, {"header.i", &i}, {"header.s", &n.selector}, {"header.b", &n.value}} {
		values := r.prop(p.name)
		if len(values) > 1 {
			return n, false
		}
		if len(values) == 1 {
			*p.into = stripBlanks(values[0])
		}
	}
	n.identity = i[strings.LastIndexByte(i, '@')+1:]
	return n, n.domain != "" || n.identity != ""
}

// ofDomain returns the domain that the server names.
func (n signatureName) ofDomain() string {
	if n.domain != "" {
		return n.domain
	}
	return n.identity
}

// mayMean reports whether the server may mean s: no part of the name contradicts it. An
// unreadable part of s is "", and contradicts no name.
func (n signatureName) mayMean(s signature) bool {
	agree := func(said, is string) bool { return said == "" || is == "" || sameDomain(said, is) }
	return agree(n.domain, s.domain) && agree(n.identity, s.identity) &&
		(n.selector == "" || s.selector == "" || strings.EqualFold(n.selector, s.selector)) &&
		(s.value == "" || strings.HasPrefix(s.value, n.value))
}

func sameDomain(a, b string) bool {
	a, ok := message.ASCIIDomain(a)
	b, okay := message.ASCIIDomain(b)
	return ok && okay && a == b
}
