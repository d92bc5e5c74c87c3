package message

import (
	"io"
	"mime"
	"net/mail"
	"strings"

	"agentstateloop/internal/plain"

	"golang.org/x/net/idna"
)

// addressDecoder returns a decoder that skips display names. Its callers need only the addresses
// of a list, and decoding thousands of names takes seconds.
func addressDecoder() *mime.WordDecoder {
	return &mime.WordDecoder{CharsetReader: func(string, io.Reader) (io.Reader, error) { return strings.NewReader(""), nil }}
}

// senders returns the addresses of a From field. To a field that is too long to be parsed it
// adds an empty address, so that the field never has exactly one sender.
func senders(v string) []string {
	if len(v) <= maxParsed {
		return Addresses(v)
	}
	return append(Addresses(plain.Cut(v, maxParsed)), "")
}

// Addresses returns the bare addresses of an address list, normalised. A list that net/mail
// refuses is read by rule of thumb: if there are addresses in angle brackets, only these count,
// because a display name may contain any text.
func Addresses(list string) []string {
	p := mail.AddressParser{WordDecoder: addressDecoder()}
	var found []string
	if parsed, err := p.ParseList(list); err == nil {
		for _, a := range parsed {
			found = append(found, NormalAddress(a.Address))
		}
		return found
	}
	bare, angled := looseAddresses(list)
	if len(angled) > 0 {
		bare = angled
	}
	for _, a := range bare {
		if at := strings.LastIndexByte(a, '@'); at > 0 && at < len(a)-1 && !strings.ContainsAny(a, " \t\"<>()") {
			found = append(found, NormalAddress(a))
		}
	}
	return found
}

// looseAddresses splits an address list at commas outside quotes, comments and
// brackets.
func looseAddresses(list string) (bare, angled []string) {
	var word, angle strings.Builder
	quoted, inAngle, depth, escaped := false, false, 0, false
	flush := func() {
		if w := strings.TrimSpace(word.String()); w != "" {
			bare = append(bare, w)
		}
		word.Reset()
	}
	for _, r := range list {
		switch {
		case escaped:
			escaped = false
		case r == '\\' && (quoted || depth > 0):
			escaped = true
		case quoted:
			quoted = r != '"'
		case depth > 0:
			if r == '(' {
				depth++
			} else if r == ')' {
				depth--
			}
		case inAngle:
			if r == '>' {
				inAngle = false
				angled = append(angled, strings.TrimSpace(angle.String()))
				angle.Reset()
			} else {
				angle.WriteRune(r)
			}
		case r == '"':
			quoted = true
		case r == '(':
			depth = 1
		case r == '<':
			inAngle = true
		case r == ',' || r == ';':
			flush()
		default:
			word.WriteRune(r)
		}
	}
	flush()
	return bare, angled
}

// maxDomain exceeds the length of any domain in bytes: 253 characters of four bytes (RFC 1035
// section 2.3.4). The time to map a domain to ASCII grows with the square of its length, and a
// From field may be long.
const maxDomain = 1 << 10

// NormalAddress returns an address in the form for comparison: lower case, with the domain in
// its ASCII form.
func NormalAddress(a string) string {
	a = Lower(strings.TrimSpace(a))
	at := strings.LastIndexByte(a, '@')
	if at < 0 || IsASCII(a[at:]) || len(a)-at > maxDomain {
		return a
	}
	domain, err := idna.Lookup.ToASCII(a[at+1:])
	if err != nil {
		return a
	}
	return a[:at+1] + domain
}

// IsASCII reports whether s holds only ASCII bytes.
func IsASCII[S string | []byte](s S) bool {
	for i := range len(s) {
		if s[i] >= 0x80 {
			return false
		}
	}
	return true
}
