package message

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"

	"agentstateloop/internal/plain"

	"golang.org/x/net/idna"
)

// To prove a sender, a header is read strictly. ParseHeader makes the best of a broken header.
// But the server that checked it, the signer and we may each read a broken header differently,
// and a forger can exploit that.

// StrictFields returns the fields of raw, a header with the empty line that
// ends it. Names are in lower case; values are unfolded but otherwise
// unchanged.
//
// Every line must be a field or the continuation of one (RFC 5322 section 2.2).
// All lines must end alike, in CRLF or in LF. A NUL or a bare CR is an error.
func StrictFields(raw []byte) ([]Field, error) {
	if len(raw) >= MaxHeader {
		return nil, fmt.Errorf("the header is longer than %d bytes", MaxHeader)
	}
	if bytes.IndexByte(raw, 0) >= 0 {
		return nil, errors.New("the header contains a NUL byte")
	}
	crlf := bytes.Contains(raw, []byte("\r\n"))
	var fields []Field
	var folded []byte // the value of the last field
	for line := range bytes.Lines(raw) {
		text, ended := bytes.CutSuffix(line, []byte("\n"))
		if crlf && ended {
			var ok bool
			if text, ok = bytes.CutSuffix(text, []byte("\r")); !ok {
				return nil, fmt.Errorf("a header line ends in a bare LF: %s", excerpt(line))
			}
		}
		if bytes.IndexByte(text, '\r') >= 0 {
			return nil, fmt.Errorf("a header line contains a bare CR: %s", excerpt(line))
		}
		if len(text) == 0 {
			return setValue(fields, folded), nil
		}
		if text[0] == ' ' || text[0] == '\t' {
			if len(bytes.TrimSpace(text)) == 0 {
				return nil, errors.New("the header contains a blank line with spaces, which some programs take for its end")
			}
			if len(fields) == 0 {
				return nil, errors.New("the header begins with a continuation line")
			}
			folded = append(folded, text...)
			continue
		}
		name, value, ok := strings.Cut(string(text), ":")
		if !ok || !fieldName(name) {
			return nil, fmt.Errorf("a header line is not a field: %s", excerpt(line))
		}
		fields = append(setValue(fields, folded), Field{Name: Lower(name)})
		folded = append(folded[:0], value...)
	}
	return nil, errors.New("the header does not end with an empty line")
}

// excerpt returns the beginning of a line of a header, fit for an error.
func excerpt(line []byte) string { return plain.Cut(plain.Line(string(line)), 80) }

// fieldName reports whether s is a field name (RFC 5322 section 2.2): printable
// ASCII.
func fieldName(s string) bool {
	for _, r := range s {
		if r <= ' ' || r > '~' {
			return false
		}
	}
	return s != ""
}

// Values returns the values of the fields of that name, from the top.
func Values(fields []Field, name string) []string {
	var values []string
	for _, f := range fields {
		if f.Name == name {
			values = append(values, f.Value)
		}
	}
	return values
}

// SoleSender returns the address of the only From field, normalised. It returns an error unless
// the mail has exactly one plain sender.
func SoleSender(fields []Field) (string, error) {
	from := Values(fields, "from")
	if len(from) != 1 {
		return "", fmt.Errorf("the mail has %d From fields", len(from))
	}
	if len(from[0]) > maxParsed {
		return "", fmt.Errorf("the From field has %d bytes, the limit is %d", len(from[0]), maxParsed)
	}
	address, err := soleAddress(from[0])
	if err != nil {
		return "", fmt.Errorf("the From field is not a single plain address (%w): %s", err, plain.Cut(plain.Line(from[0]), 200))
	}
	return address, nil
}

// soleAddress parses a From field with one address, with or without a display name, and returns
// the address, normalised. It is stricter than RFC 5322 section 3.4: it accepts no group,
// route, quoted local part or address literal, and no blank or comment within the address.
func soleAddress(value string) (string, error) {
	tokens, err := lex(value)
	if err != nil {
		return "", err
	}
	for i, t := range tokens {
		if !t.Is("<") {
			continue
		}
		if err := displayName(tokens[:i]); err != nil {
			return "", err
		}
		last := len(tokens) - 1
		if !tokens[last].Is(">") || tokens[last].Apart {
			return "", errors.New("no single <address> at the end")
		}
		return bareAddress(tokens[i+1 : last])
	}
	return bareAddress(tokens)
}

// displayName returns an error for tokens that would make a list, a group or a second address.
func displayName(tokens []Token) error {
	for _, t := range tokens {
		if !t.Quoted && len(t.Text) == 1 && strings.Contains(`<>@,;:[]`, t.Text) {
			return fmt.Errorf("unexpected %q before the address", t.Text)
		}
	}
	return nil
}

// bareAddress parses local@domain.
func bareAddress(tokens []Token) (string, error) {
	var address strings.Builder
	for i, t := range tokens {
		switch {
		case t.Quoted:
			return "", errors.New("quoted text in the address")
		case i > 0 && t.Apart:
			return "", errors.New("a space or comment in the address")
		case len(t.Text) == 1 && strings.Contains(`<>,;:[]`, t.Text):
			return "", fmt.Errorf("unexpected %q in the address", t.Text)
		}
		address.WriteString(t.Text)
	}
	local, domain, ok := strings.Cut(address.String(), "@")
	switch {
	case !ok || strings.Contains(domain, "@"):
		return "", errors.New("not exactly one @")
	case local == "" || strings.HasPrefix(local, ".") || strings.HasSuffix(local, ".") || strings.Contains(local, ".."):
		return "", errors.New("malformed local part")
	}
	domain, ok = ASCIIDomain(domain)
	if !ok {
		return "", errors.New("malformed domain")
	}
	return NormalAddress(local + "@" + domain), nil
}

// ASCIIDomain returns a domain in the form for comparison: lower case, with A-labels (RFC
// 5890). ok is false if d is not a domain name of at least two labels. It is also false if only
// a mapping makes d a domain, such as one of full-width letters: such domains are meant to
// deceive.
func ASCIIDomain(d string) (ascii string, ok bool) {
	if len(d) > maxDomain {
		return "", false
	}
	ascii, err := idna.Lookup.ToASCII(d)
	labels := strings.Split(ascii, ".")
	if err != nil || len(labels) < 2 || slices.Contains(labels, "") {
		return "", false
	}
	if IsASCII(d) {
		return ascii, true
	}
	unicode, err := idna.Lookup.ToUnicode(ascii)
	return ascii, err == nil && unicode == Lower(d)
}
