package trust

import (
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"agentstateloop/internal/plain"
	"agentstateloop/mail/message"
)

// signature is the content of a DKIM-Signature field (RFC 6376 section 3.5). Other code checks
// whether the signature is valid.
type signature struct {
	domain   string   // d=, as written, without blanks
	identity string   // the domain of i=, or d=
	selector string   // s=
	value    string   // b=, without blanks
	fields   []string // h=, in lower case, in its order
	part     bool     // l= is present: only a part of the body may be signed
	length   string   // l=
	binds    bool     // darn= is present
	bound    []string // the domains in darn=, to which the mail was sent
}

// errSignature is the error for a DKIM-Signature field that others may read
// differently.
var errSignature = errors.New("malformed DKIM-Signature field")

// parseSignature parses the value of a DKIM-Signature field strictly. A repeated tag is an
// error, and so is a tag that breaks the rules of the RFC. With an error, the signature has
// only the domain and the selector, if these can be read.
func parseSignature(value string) (signature, error) {
	tags, err := signatureTags(value)
	if err != nil {
		return signature{}, err
	}
	s := signature{domain: stripBlanks(tags["d"]), selector: stripBlanks(tags["s"])}
	for _, required := range []string{"a", "b", "bh", "d", "h", "s"} {
		if stripBlanks(tags[required]) == "" {
			return s, errSignature
		}
	}
	if _, err := base64.StdEncoding.Strict().DecodeString(stripBlanks(tags["b"])); err != nil || stripBlanks(tags["v"]) != "1" {
		return s, errSignature
	}
	identity := stripBlanks(tags["i"])
	if _, ok := tags["i"]; !ok {
		identity = "@" + s.domain
	}
	at := strings.LastIndexByte(identity, '@')
	fields := strings.Split(message.Lower(stripBlanks(tags["h"])), ":")
	if at < 0 || slices.Contains(fields, "") {
		return s, errSignature
	}
	s.value, s.identity, s.fields = stripBlanks(tags["b"]), identity[at+1:], fields
	_, s.part = tags["l"]
	s.length = stripBlanks(tags["l"])
	_, s.binds = tags["darn"]
	s.bound = strings.FieldsFunc(stripBlanks(tags["darn"]), func(r rune) bool { return r == ':' || r == ',' })
	return s, nil
}

// signatureTags splits a tag list (RFC 6376 section 3.2).
func signatureTags(value string) (map[string]string, error) {
	tags := map[string]string{}
	specs := strings.Split(value, ";")
	if strings.TrimSpace(specs[len(specs)-1]) == "" {
		specs = specs[:len(specs)-1]
	}
	for _, spec := range specs {
		name, text, ok := strings.Cut(spec, "=")
		name = strings.Trim(name, " \t")
		_, twice := tags[name]
		if !ok || twice || !tagName(name) || strings.ContainsFunc(text, notTagText) {
			return nil, errSignature
		}
		tags[name] = text
	}
	return tags, nil
}

func tagName(s string) bool {
	for i, r := range s {
		letter := r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z'
		if !letter && (i == 0 || r != '_' && (r < '0' || r > '9')) {
			return false
		}
	}
	return s != ""
}

func notTagText(r rune) bool {
	return r != ' ' && r != '\t' && (r < '!' || r == 0x7f || r == utf8.RuneError)
}

// stripBlanks returns s without its blanks, which have no meaning in most tags.
func stripBlanks(s string) string { return strings.NewReplacer(" ", "", "\t", "").Replace(s) }

// speaksFor returns the reason why s cannot prove that the domain from wrote a mail, or "". The
// domain of i= must be that of d= or one below it.
func (s signature) speaksFor(from string) (reason string) {
	d, ok := message.ASCIIDomain(s.domain)
	i, okay := message.ASCIIDomain(s.identity)
	switch {
	case !aligned(s.domain, from):
		return fmt.Sprintf("the DKIM signature is of %s, but From is of %s", plain.OneLine(s.domain, 100), from)
	case !ok || !okay || i != d && !strings.HasSuffix(i, "."+d):
		return fmt.Sprintf("the DKIM signature has i= of %s, but d= of %s", plain.OneLine(s.identity, 100), plain.OneLine(s.domain, 100))
	case s.part:
		return fmt.Sprintf("the DKIM signature of %s covers only a part of the body (l=)", plain.OneLine(s.domain, 100))
	}
	return ""
}

// coverage is the part of a mail that is known to be unchanged since it left the sender's
// provider.
type coverage struct {
	all   bool           // every field
	times map[string]int // how often h= names a field, in lower case
}

// covers returns the coverage of s, if s is valid.
func (s signature) covers() coverage {
	c := coverage{times: map[string]int{}}
	for _, name := range s.fields {
		c.times[name]++
	}
	return c
}

// sealed reports whether the fields of that name are unchanged, and none was added or removed.
// A field that is named n times in h= is covered n times from the bottom up. Naming it once
// more than it occurs means that no other can be added (RFC 6376 section 5.4.2).
func (c coverage) sealed(fields []message.Field, name string) bool {
	return c.all || c.times[name] >= max(1, count(fields, name))
}

// covered reports whether the fields of that name exist and are sealed.
func (c coverage) covered(fields []message.Field, name string) bool {
	return count(fields, name) > 0 && c.sealed(fields, name)
}

func count(fields []message.Field, name string) int {
	n := 0
	for _, f := range fields {
		if f.Name == name {
			n++
		}
	}
	return n
}

// uncovered returns the name of a required field that c does not cover, or "".
func (c coverage) uncovered(fields []message.Field) string {
	i := slices.IndexFunc(signedFields, func(name string) bool { return !c.covered(fields, name) })
	if i < 0 {
		return ""
	}
	return signedFields[i]
}
