package mailtest

import (
	"bytes"
	"crypto"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"strings"

	"github.com/emersion/go-msgauth/dkim"
)

// Signer signs mail with DKIM (RFC 6376) as a provider does.
type Signer struct {
	Domain, Selector string
	Record           string // the TXT record of Name

	key crypto.Signer
}

// NewSigner returns a signer with a new key.
func NewSigner(domain, selector string) (*Signer, error) {
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, err
	}
	return &Signer{
		Domain: domain, Selector: selector, key: private,
		Record: "v=DKIM1; k=ed25519; p=" + base64.StdEncoding.EncodeToString(public),
	}, nil
}

// Name returns the DNS name of the key.
func (s *Signer) Name() string { return s.Selector + "._domainkey." + s.Domain }

// Sign puts a signature above raw, a whole mail with CRLF line ends. It covers
// From, To, Subject, Date, Message-ID and the fields of an answer, unless
// change says otherwise.
func (s *Signer) Sign(raw []byte, change ...func(*dkim.SignOptions)) ([]byte, error) {
	options := &dkim.SignOptions{
		Domain: s.Domain, Selector: s.Selector, Signer: s.key,
		HeaderCanonicalization: dkim.CanonicalizationRelaxed,
		BodyCanonicalization:   dkim.CanonicalizationRelaxed,
		HeaderKeys:             []string{"From", "To", "Subject", "Date", "Message-ID", "In-Reply-To", "References"},
	}
	for _, c := range change {
		c(options)
	}
	var signed bytes.Buffer
	err := dkim.Sign(&signed, bytes.NewReader(raw), options)
	return signed.Bytes(), err
}

// SignFields puts a signature above raw, a whole mail with CRLF line ends. Its h= is exactly
// fields: a field that is named more often than it occurs cannot be added later. tags are
// additional tags, such as "darn=example.org".
func (s *Signer) SignFields(raw []byte, fields []string, tags ...string) []byte {
	signed, err := s.Sign(raw)
	if err != nil {
		panic(err) // never happens with our mails
	}
	_, after, _ := strings.Cut(string(signed), " bh=")
	bodyHash, _, _ := strings.Cut(after, ";")
	header, _, _ := strings.Cut(string(raw), "\r\n\r\n")
	value := fmt.Sprintf(" v=1; a=ed25519-sha256; c=relaxed/relaxed; d=%s; s=%s;\r\n h=%s;\r\n bh=%s;",
		s.Domain, s.Selector, strings.Join(fields, ":\r\n "), bodyHash)
	for _, tag := range append(tags, "b=") {
		value += "\r\n " + tag
		if tag != "b=" {
			value += ";"
		}
	}
	left := map[string][]string{} // the fields not covered yet, from the top
	for _, f := range unfolded(header) {
		name, _, _ := strings.Cut(f, ":")
		left[name] = append(left[name], f)
	}
	var covered strings.Builder
	for _, name := range fields {
		name = strings.ToLower(name)
		if n := len(left[name]); n > 0 {
			covered.WriteString(left[name][n-1] + "\r\n")
			left[name] = left[name][:n-1]
		}
	}
	covered.WriteString(unfolded("DKIM-Signature:" + value)[0])
	hash := sha256.Sum256([]byte(covered.String()))
	signature, err := s.key.Sign(rand.Reader, hash[:], crypto.Hash(0))
	if err != nil {
		panic(err) // never happens with our keys
	}
	return []byte("DKIM-Signature:" + value + base64.StdEncoding.EncodeToString(signature) + "\r\n" + string(raw))
}

// unfolded returns the fields of a header in relaxed form (RFC 6376 section
// 3.4.2).
func unfolded(header string) []string {
	var fields []string
	for line := range strings.SplitSeq(header, "\r\n") {
		if strings.HasPrefix(line, " ") || strings.HasPrefix(line, "\t") {
			fields[len(fields)-1] += " " + line
		} else {
			fields = append(fields, line)
		}
	}
	for i, f := range fields {
		name, value, _ := strings.Cut(f, ":")
		fields[i] = strings.ToLower(strings.TrimSpace(name)) + ":" + strings.Join(strings.Fields(value), " ")
	}
	return fields
}
