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

// rootFiles are the bundles Go looks for, in its order: the first that can be
// read is the system's (crypto/x509, root_linux.go and its neighbours). A path
// missing here costs time only, since every refusal is decided by Go's own
// pool.
var rootFiles = [...]string{
	"/etc/ssl/certs/ca-certificates.crt",
	"/etc/pki/tls/certs/ca-bundle.crt",
	"/etc/ssl/ca-bundle.pem",
	"/etc/pki/tls/cacert.pem",
	"/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
	"/etc/ssl/cert.pem",
}

// useSystemRoots makes cfg verify against the system's roots without parsing
// all of them, which is three quarters of an empty poll's CPU (DESIGN 7).
//
// Nothing is weakened. InsecureSkipVerify only moves the verification from
// crypto/tls to VerifyConnection, which runs in every handshake and does the
// same with the same call: x509's Certificate.Verify, with chain, dates, host
// name and the server-authentication usage. Only the pool differs: it holds
// those certificates of the system's bundle that the presented chain names as
// subject or issuer, and no others could end that chain. So it is a part of
// the system's pool and accepts nothing that one would refuse; and whatever it
// does not accept is verified again against all of it, so that it refuses
// nothing that one would accept.
func useSystemRoots(cfg *tls.Config) {
	host := cfg.ServerName
	cfg.InsecureSkipVerify = true
	cfg.VerifyConnection = func(cs tls.ConnectionState) error {
		return verifyChain(cs.PeerCertificates, host, readRootBundle())
	}
}

// verifyChain verifies what a server calling itself host presented, first
// against the part of bundle that can matter, then against all system roots.
// An empty host is refused, since x509 would take it for "any name".
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
		// The type crypto/tls itself returns.
		return &tls.CertificateVerificationError{UnverifiedCertificates: chain, Err: err}
	}
	return nil
}

// rootsFor picks the certificates of a PEM bundle that hold the subject or the
// issuer of a presented one, by their bytes; nil if there are none. It may
// pick too many, which are system roots all the same.
func rootsFor(chain []*x509.Certificate, bundle []byte) *x509.CertPool {
	var pool *x509.CertPool
	for der := range certificates(bundle) {
		if !names(der, chain) {
			continue
		}
		root, err := x509.ParseCertificate(bytes.Clone(der)) // it keeps what it is given
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

// certificates yields what stands between the certificate marks of a PEM
// bundle, decoded; each is good until the next. It is encoding/pem for the one
// thing a bundle holds, at a third of its time; what is not plain base64, such
// as a block with headers, is passed over.
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
			n, err := base64.StdEncoding.Decode(der, text) // it passes over line ends
			if err == nil && !yield(der[:n]) {
				return
			}
		}
	}
}

func names(der []byte, chain []*x509.Certificate) bool {
	for _, c := range chain {
		if bytes.Contains(der, c.RawIssuer) || bytes.Contains(der, c.RawSubject) {
			return true
		}
	}
	return false
}

// readRootBundle reads the bundle file Go would read. The directories Go reads
// besides, and SSL_CERT_DIR, are left to the full verification.
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
