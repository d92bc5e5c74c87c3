package mail

import (
	"fmt"
	"strings"

	"agentstateloop/mail/message"
)

// authResult is one result of an Authentication-Results field (RFC 8601 section
// 2.2), such as "dmarc=pass header.from=example.com". Names are in lower case.
type authResult struct {
	method  string
	version string // of the method; "" where not given
	value   string // "pass" and its like, lower case
	props   []authProp
}

// authProp is "header.from=example.com", or "reason=...".
type authProp struct{ name, value string }

// prop gives the values of the properties of that name.
func (r authResult) prop(name string) []string {
	var values []string
	for _, p := range r.props {
		if p.name == name {
			values = append(values, p.value)
		}
	}
	return values
}

// authserv gives the authserv-id of an Authentication-Results field: who says
// what follows. It is never empty, and needs no more of the field to be well-formed.
func authserv(value string) (string, error) {
	p := authParser{Lexer: message.NewLexer(value)}
	p.advance()
	id := p.value()
	if p.err == nil && id == "" {
		p.err = message.ErrField
	}
	return id, p.err
}

// authResults reads a whole Authentication-Results field. It follows RFC 8601
// section 2.2, and beyond it allows what is in use: a value with characters that
// should be quoted ("header.b=a/b+"), a property without a type
// ("action=none"), an empty value, and a last ";". What comes from quotes or
// comments is a value or nothing, never a result.
func authResults(value string) ([]authResult, error) {
	p := authParser{Lexer: message.NewLexer(value)}
	p.advance()
	if id := p.value(); id == "" {
		p.fail()
	}
	if p.more && !p.tok.Is(";") && p.word() != "1" {
		p.fail() // a version of the field that we do not know
	}
	var results []authResult
	none := false
	for n := 0; p.err == nil; n++ {
		if n == 0 && !p.more {
			p.fail() // neither a result nor "none"
		}
		if !p.more || !p.accept(";") {
			break
		}
		switch {
		case !p.more && n > 0:
			// What ends in ";" is complete.
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

// authParser reads a field token by token, always one ahead. After an error it
// is at the end.
type authParser struct {
	message.Lexer
	tok  message.Token
	more bool // tok is one
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

// accept passes over a special character, which must be there.
func (p *authParser) accept(special string) bool {
	if !p.more || !p.tok.Is(special) {
		p.fail()
		return false
	}
	p.advance()
	return p.err == nil
}

// word reads a bare word, lowered.
func (p *authParser) word() string {
	if !p.more || p.tok.Quoted || !keywordText(p.tok.Text) {
		p.fail()
		return ""
	}
	w := message.Lower(p.tok.Text)
	p.advance()
	return w
}

// keywordText says whether s is a Keyword (RFC 5321 section 4.1.2), or has the
// underscores that some put into one.
func keywordText(s string) bool {
	for _, r := range s {
		if !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '_') {
			return false
		}
	}
	return s != ""
}

// value reads what stands together, quoted or not, up to a blank, a comment or
// a ";". It may be empty.
func (p *authParser) value() string {
	var b strings.Builder
	for first := true; p.more && !p.tok.Is(";") && (first || !p.tok.Apart); first = false {
		b.WriteString(p.tok.Text)
		p.advance()
	}
	return b.String()
}

// none reads a "none" that stands for all results.
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

// result reads "method/1=value" and what belongs to it.
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
	name := p.word()
	for p.more && p.tok.Is(".") {
		p.advance()
		name += "." + p.word()
	}
	p.accept("=")
	return authProp{name, p.value()}
}

// serverProof looks for the word of the mail server authservID that the mail is
// from the address from, as [trust] require = "dmarc" wants it. It gives ""
// for proved mail, else why not, with the evidence.
//
// Believed are the fields of the topmost unbroken block only: the first
// Authentication-Results field of the header, if it bears authservID, and those
// that follow it directly and bear it too. A server puts its fields above all
// that came with the mail, several side by side if need be, and removes those
// which claim to be its own (RFC 8601 section 5); anything in between, another
// name or another field, ends what is surely the server's.
func serverProof(fields []message.Field, from, authservID string, sameProvider bool) string {
	block, reason := authBlock(fields, authservID)
	if reason != "" {
		return reason
	}
	var all []authResult
	for _, value := range block {
		results, err := authResults(value)
		if err != nil {
			return evidence("a malformed Authentication-Results field of the server", value)
		}
		all = append(all, results...)
	}
	said := strings.Join(block, " | ")
	if sameProvider && provesSubmission(all, from) {
		return ""
	}
	dmarc := ofMethod(all, "dmarc")
	if len(dmarc) != 1 {
		return evidence(fmt.Sprintf("%d dmarc results, one is wanted", len(dmarc)), said)
	}
	r := dmarc[0]
	if r.value != "pass" {
		return evidence("dmarc="+r.value, said)
	}
	proved := r.prop("header.from")
	if len(proved) != 1 {
		return evidence(fmt.Sprintf("dmarc=pass with %d header.from, one is wanted", len(proved)), said)
	}
	want, _ := message.ASCIIDomain(message.Domain(from))
	if got, ok := message.ASCIIDomain(proved[0]); !ok || got != want {
		return evidence(fmt.Sprintf("dmarc=pass is for %s, and From is %s", oneLine(proved[0], 100), from), said)
	}
	return ""
}

// authBlock gives the fields that are believed, or why there is none.
func authBlock(fields []message.Field, authservID string) (block []string, reason string) {
	for _, f := range fields {
		if f.Name != "authentication-results" {
			if len(block) > 0 {
				break
			}
			continue
		}
		id, err := authserv(f.Value)
		if err != nil {
			return nil, evidence("a malformed Authentication-Results field", f.Value)
		}
		if message.Lower(id) != message.Lower(authservID) {
			if len(block) == 0 {
				return nil, evidence(fmt.Sprintf("the first Authentication-Results field is not of %q (authserv_id)", authservID), f.Value)
			}
			break
		}
		block = append(block, f.Value)
	}
	if len(block) == 0 {
		return nil, "no Authentication-Results field: the server says nothing of the sender"
	}
	return block, ""
}

// provesSubmission says whether results hold one auth result (RFC 8601 section
// 2.7.4), and it passes, and names from, and no one else, as who logged in.
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

// ofMethod gives the results of a method. One of a version we do not know
// (RFC 8601 section 2.2) is told by its value as no pass.
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
