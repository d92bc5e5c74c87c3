//go:build unix && !darwin

package mail

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"iter"
	"os"
	"slices"
)

// rootFiles are the bundles that Go looks for, in its order. The first one that
// can be read is the bundle of the system (crypto/x509, root_linux.go and its
// neighbours). A path that is missing here costs only time, because Go's own
// pool decides every refusal.
var rootFiles = [...]string{
	"/etc/ssl/certs/ca-certificates.crt",
	"/etc/pki/tls/certs/ca-bundle.crt",
	"/etc/ssl/ca-bundle.pem",
	"/etc/pki/tls/cacert.pem",
	"/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
	"/etc/ssl/cert.pem",
}

// useSystemRoots makes cfg verify against the roots of the system without
// parsing all of them. Parsing is three quarters of the CPU time of an empty
// poll (docs/design.md, "Round trips").
//
// Nothing is weakened. InsecureSkipVerify only moves the verification from
// crypto/tls to VerifyConnection. That runs in every handshake and makes the
// same call: Certificate.Verify of crypto/x509, with chain, dates, host name
// and server-authentication usage.
//
// Only the pool differs. It holds the certificates of the system's bundle that
// the presented chain names as subject or issuer; no others could end that
// chain. It is a part of the system's pool, so it accepts nothing that the
// whole pool would refuse. Whatever it does not accept is verified again
// against the whole pool, so it refuses nothing that the whole pool would
// accept.
func useSystemRoots(cfg *tls.Config) {
	host := cfg.ServerName
	cfg.InsecureSkipVerify = true
	cfg.VerifyConnection = func(cs tls.ConnectionState) error {
		return verifyChain(cs.PeerCertificates, host, readRootBundle())
	}
}

// verifyChain verifies the chain that a server presented for host. It tries the
// part of bundle that can matter, then all roots of the system. An empty host
// is refused, because x509 would take it for any name.
func verifyChain(chain []*x509.Certificate, host string, bundle []byte) error {
	if len(chain) == 0 || host == "" {
		return x509.HostnameError{Host: host, Certificate: new(x509.Certificate)}
	}
	opts := x509.VerifyOptions{DNSName: host, Intermediates: x509.NewCertPool()}
	for _, c := range chain[1:] {
		opts.Intermediates.AddCert(c)
	}
	if opts.Roots = rootsFor(chain, bundle); opts.Roots != nil {
		if _, err := chain[0].Verify(opts); err == nil {
			return nil
		}
	}
	opts.Roots = nil // the system's, in full
	_, err := chain[0].Verify(opts)
	if err != nil {
		// The type that crypto/tls itself returns.
		return &tls.CertificateVerificationError{UnverifiedCertificates: chain, Err: err}
	}
	return nil
}

// rootsFor returns the certificates of a PEM bundle that hold the subject or
// the issuer of a presented certificate, compared by bytes. It returns nil if
// it finds none. It may pick too many; these are roots of the system all the
// same.
func rootsFor(chain []*x509.Certificate, bundle []byte) *x509.CertPool {
	var pool *x509.CertPool
	for der := range certificates(bundle) {
		if !names(der, chain) {
			continue
		}
		root, err := x509.ParseCertificate(bytes.Clone(der)) // it keeps the slice
		if err != nil {
			continue
		}
		if pool == nil {
			pool = x509.NewCertPool()
		}
		pool.AddCert(root)
	}
	return pool
}

// certificates yields the decoded bytes between the certificate marks of a PEM
// bundle. Each slice is valid until the next one. It does what encoding/pem
// does for a bundle, in a third of the time. It skips what is not plain base64,
// such as a block with headers.
func certificates(bundle []byte) iter.Seq[[]byte] {
	begin, end := []byte("-----BEGIN CERTIFICATE-----"), []byte("-----END CERTIFICATE-----")
	return func(yield func([]byte) bool) {
		var der []byte
		for {
			_, rest, found := bytes.Cut(bundle, begin)
			text, rest, ended := bytes.Cut(rest, end)
			if !found || !ended {
				return
			}
			bundle = rest
			der = slices.Grow(der[:0], base64.StdEncoding.DecodedLen(len(text)))[:base64.StdEncoding.DecodedLen(len(text))]
			n, err := base64.StdEncoding.Decode(der, text) // it skips line ends
			if err == nil && !yield(der[:n]) {
				return
			}
		}
	}
}

// names reports whether der holds the subject or the issuer of a certificate of
// chain.
func names(der []byte, chain []*x509.Certificate) bool {
	for _, c := range chain {
		if bytes.Contains(der, c.RawIssuer) || bytes.Contains(der, c.RawSubject) {
			return true
		}
	}
	return false
}

// readRootBundle reads the bundle file that Go would read. The directories that
// Go reads as well, and SSL_CERT_DIR, are left to the full verification.
func readRootBundle() []byte {
	if f := os.Getenv("SSL_CERT_FILE"); f != "" {
		b, _ := os.ReadFile(f)
		return b
	}
	for _, f := range rootFiles {
		if b, err := os.ReadFile(f); err == nil {
			return b
		}
	}
	return nil
}
