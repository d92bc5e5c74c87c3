package mailtest

import (
	"bytes"
	"crypto"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/base64"

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
