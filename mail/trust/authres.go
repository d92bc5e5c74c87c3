package trust

import (
	"fmt"
	"strings"

	"agentstateloop/internal/plain"
	"agentstateloop/mail/message"
)

// authResult is one result of an Authentication-Results field (RFC 8601 section
// 2.2), such as "dmarc=pass header.from=example.com". Names are in lower case.
type authResult struct {
	method  string
	version string // of the method; "" if absent
	value   string // such as "pass", in lower case
	props   []authProp
}

// authProp is a property of a result, such as "header.from=example.com" or
// "reason=...".
type authProp struct{ name, value string }

// prop returns the values of the properties of that name.
func (r authResult) prop(name string) []string {
	var values []string
	for _, p := range r.props {
		if p.name == name {
			values = append(values, p.value)
		}
	}
	return values
}

// authserv returns the authserv-id of an Authentication-Results field, which names the server
// that wrote it. It is never empty. The rest of the field may be malformed.
func authserv(value string) (string, error) {
	p := authParser{Lexer: message.NewLexer(value)}
	p.advance()
	id := p.value()
	if p.err == nil && id == "" {
		p.err = message.ErrField
	}
	return id, p.err
}

// authResults parses a whole Authentication-Results field by RFC 8601 section 2.2. It also
// accepts common deviations: a value with characters that should be quoted ("header.b=a/b+"), a
// property without a type ("action=none"), an empty value, and a ";" at the end.
//
// Quoted text can be a value, but never a result. Comments are ignored.
func authResults(value string) ([]authResult, error) {
	p := authParser{Lexer: message.NewLexer(value)}
	p.advance()
	if id := p.value(); id == "" {
		p.fail()
	}
	if p.more && !p.tok.Is(";") && p.word() != "1" {
		p.fail() // an unknown version of the field
	}
	var results []authResult
	none := false
	for n := 0; p.err == nil; n++ {
		if n == 0 && !p.more {
			p.fail() // the field has no result and no "none"
		}
		if !p.more || !p.accept(";") {
			break
		}
		switch {
		case !p.more && n > 0:
			// A field may end in ";".
		case n == 0 && p.none():
			none = true
		default:
			results = append(results, p.result())
		}
	}
	if p.more || none && len(results) > 0 {
		p.fail()
	}
	return results, p.err
}

// authParser reads a field token by token, with one token of lookahead. After an error it is at
// the end of the field.
type authParser struct {
	message.Lexer
	tok  message.Token
	more bool // false at the end of the field
	err  error
}

func (p *authParser) advance() {
	if p.err != nil {
		return
	}
	p.tok, p.more, p.err = p.Next()
}

func (p *authParser) fail() {
	if p.err == nil {
		p.err = message.ErrField
	}
	p.more = false
}

// accept skips a special character, which must be the next token.
func (p *authParser) accept(special string) bool {
	if !p.more || !p.tok.Is(special) {
		p.fail()
		return false
	}
	p.advance()
	return p.err == nil
}

// word reads a bare word and returns it in lower case.
func (p *authParser) word() string {
	if !p.more || p.tok.Quoted || !keywordText(p.tok.Text) {
		p.fail()
		return ""
	}
	w := message.Lower(p.tok.Text)
	p.advance()
	return w
}

// keywordText reports whether s is a Keyword (RFC 5321 section 4.1.2). It also accepts
// underscores, which some servers use.
func keywordText(s string) bool {
	for _, r := range s {
		if !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '_') {
			return false
		}
	}
	return s != ""
}

// value reads adjacent tokens, quoted or not, up to a blank, a comment or a
// ";". The value may be empty.
func (p *authParser) value() string {
	var b strings.Builder
	for first := true; p.more && !p.tok.Is(";") && (first || !p.tok.Apart); first = false {
		b.WriteString(p.tok.Text)
		p.advance()
	}
	return b.String()
}

// none accepts a "none" in place of all results.
func (p *authParser) none() bool {
	if p.tok.Quoted || message.Lower(p.tok.Text) != "none" {
		return false
	}
	ahead := *p
	ahead.advance()
	if ahead.more && ahead.tok.Is("=") {
		return false
	}
	*p = ahead
	return true
}

// result reads "method/1=value" and its properties.
func (p *authParser) result() authResult {
	r := authResult{method: p.word()}
	if p.more && p.tok.Is("/") {
		p.advance()
		r.version = p.word()
	}
	p.accept("=")
	r.value = p.word()
	for p.more && !p.tok.Is(";") {
		r.props = append(r.props, p.property())
	}
	return r
}

func (p *authParser) property() authProp {
	var name strings.Builder // a hostile name may have a hundred thousand parts
	name.WriteString(p.word())
	for p.more && p.tok.Is(".") {
		p.advance()
		name.WriteString("." + p.word())
	}
	p.accept("=")
	return authProp{name.String(), p.value()}
}

// serverVerdict is the mail server's statement that a mail is the operator's.
type serverVerdict struct {
	results   []authResult
	text      string // of the fields, quoted in reasons
	submitted bool   // the operator logged in to submit the mail
}

// serverVerdict looks for the statement of the mail server f.AuthservID that the mail is from
// the address from, as [trust] require = "dmarc" demands. If the statement is missing, it
// returns the reason with the evidence.
//
// Only the topmost unbroken block of fields is trusted: the first Authentication-Results field
// of the header, if its authserv-id is f.AuthservID, and the fields directly below it with the
// same ID. A server puts its fields, possibly several, above everything that came with the
// mail, and removes fields that claim to be from it (RFC 8601 section 5). Any other field, or
// another ID, ends the block that is certainly from the server.
func (f *Filter) serverVerdict(fields []message.Field, from string) (v serverVerdict, reason string) {
	block, reason := authBlock(fields, f.AuthservID)
	if reason != "" {
		return v, reason
	}
	for _, value := range block {
		results, err := authResults(value)
		if err != nil {
			return v, evidence("malformed Authentication-Results field of the server", value)
		}
		v.results = append(v.results, results...)
	}
	v.text = strings.Join(block, " | ")
	if f.SameProvider && provesSubmission(v.results, from) {
		v.submitted = true
		return v, ""
	}
	if reason := dmarcFault(v.results, from); reason != "" {
		return v, evidence(reason, v.text)
	}
	return v, ""
}

// serverProofs returns the proofs that follow from the server's verdict: the signatures that it
// found valid. If the server received the mail directly from the operator, or from a server of
// the operator's domain and f.AllowSPF is set, the whole mail counts as proved.
func (f *Filter) serverProofs(v serverVerdict, fields []message.Field, from string) (proofs []proof, reason string) {
	untouched := []proof{{covers: []coverage{{all: true}}}}
	if v.submitted {
		return untouched, ""
	}
	proofs, reason = f.namedProofs(v.results, fields, from)
	switch {
	case reason == "":
		return proofs, ""
	case f.AllowSPF && strings.HasPrefix(reason, errNoDKIM) && provesPath(v.results, from):
		return untouched, ""
	}
	return nil, evidence(reason, v.text)
}

// dmarcFault returns the reason why results do not show that the domain of from vouches for the
// mail, or "".
func dmarcFault(results []authResult, from string) string {
	dmarc := ofMethod(results, "dmarc")
	if len(dmarc) == 0 {
		return "the server gave no DMARC result"
	}
	if len(dmarc) != 1 {
		return fmt.Sprintf("%d dmarc results instead of one", len(dmarc))
	}
	r := dmarc[0]
	if r.value != "pass" {
		return "dmarc=" + r.value
	}
	proved := r.prop("header.from")
	if len(proved) != 1 {
		return fmt.Sprintf("dmarc=pass with %d header.from instead of one", len(proved))
	}
	if !sameDomain(proved[0], message.Domain(from)) {
		return fmt.Sprintf("dmarc=pass is for %s, but From is %s", plain.OneLine(proved[0], 100), from)
	}
	return ""
}

// provesPath reports whether results hold exactly one spf result, which passes and is for the
// domain of from or a parent domain. The mail then came from a server of that domain, but its
// content is not proved.
func provesPath(results []authResult, from string) bool {
	spf := ofMethod(results, "spf")
	if len(spf) != 1 || spf[0].value != "pass" {
		return false
	}
	sender := spf[0].prop("smtp.mailfrom")
	if len(sender) != 1 {
		return false
	}
	return aligned(sender[0][strings.LastIndexByte(sender[0], '@')+1:], message.Domain(from))
}

// filterField is a field that OpenDKIM writes above its own results. Those are below the
// results of OpenDMARC.
const filterField = "dkim-filter"

// authBlock returns the trusted fields, or the reason if no field is trusted.
func authBlock(fields []message.Field, authservID string) (block []string, reason string) {
	for _, f := range fields {
		if f.Name == filterField && len(block) > 0 {
			continue
		}
		if f.Name != "authentication-results" {
			if len(block) > 0 {
				break
			}
			continue
		}
		id, err := authserv(f.Value)
		if err != nil {
			return nil, evidence("malformed Authentication-Results field", f.Value)
		}
		if message.Lower(id) != message.Lower(authservID) {
			if len(block) == 0 {
				return nil, evidence(fmt.Sprintf("the first Authentication-Results field is not from %q (authserv_id)", authservID), f.Value)
			}
			break
		}
		block = append(block, f.Value)
	}
	if len(block) == 0 {
		return nil, "no Authentication-Results field: the server did not authenticate the sender"
	}
	return block, ""
}

// provesSubmission reports whether results hold exactly one auth result (RFC 8601 section
// 2.7.4), which passes and names only from as the account that logged in.
func provesSubmission(results []authResult, from string) bool {
	auth := ofMethod(results, "auth")
	if len(auth) != 1 || auth[0].value != "pass" {
		return false
	}
	names := append(auth[0].prop("smtp.auth"), auth[0].prop("header.from")...)
	for _, name := range names {
		if message.NormalAddress(name) != from {
			return false
		}
	}
	return len(names) > 0
}

// ofMethod returns the results of a method. A result of an unknown version (RFC
// 8601 section 2.2) gets a value that is not "pass".
func ofMethod(results []authResult, method string) []authResult {
	var found []authResult
	for _, r := range results {
		if r.method != method {
			continue
		}
		if r.version != "" && r.version != "1" {
			r.value = "version-" + r.version
		}
		found = append(found, r)
	}
	return found
}
