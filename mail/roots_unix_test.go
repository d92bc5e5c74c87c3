//go:build unix && !darwin

package mail

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"flag"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"agentstateloop/mail/mailtest"
)

// system is an authority that the process takes for a root of the system. The
// other one is only in a directory, which the fast verification does not read.
var system, systemDir *mailtest.CA

// TestMain gives the process system roots of its own, before crypto/x509 reads
// them once and for all.
func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "roots")
	if err != nil {
		panic(err)
	}
	system, systemDir = must(mailtest.NewCA()), must(mailtest.NewCA())
	bundle := filepath.Join(dir, "bundle.pem")
	certs := filepath.Join(dir, "certs")
	must(0, os.MkdirAll(certs, 0o700))
	must(0, os.WriteFile(bundle, append(otherRoots(), system.PEM...), 0o600))
	must(0, os.WriteFile(filepath.Join(certs, "a.pem"), systemDir.PEM, 0o600))
	os.Setenv("SSL_CERT_FILE", bundle)
	os.Setenv("SSL_CERT_DIR", certs)
	flag.Set("test.parallel", "8") // most of these tests wait for servers
	code := m.Run()
	os.RemoveAll(dir)
	os.Exit(code)
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// otherRoots returns certificates that no chain of a test needs, and other text
// that a bundle may hold.
func otherRoots() []byte {
	b := bytes.NewBufferString("# a comment\n")
	for range 3 {
		b.Write(must(mailtest.NewCA()).PEM)
	}
	pem.Encode(b, &pem.Block{Type: "CERTIFICATE", Bytes: []byte("junk")})
	return b.Bytes()
}

// useSystemRoots accepts what Go accepts.
func TestSystemRoots(t *testing.T) {
	unknown := must(mailtest.NewCA())
	between := must(system.Intermediate())
	leaf := notACA(system)
	withChain := func(c tls.Certificate, more ...*mailtest.CA) tls.Certificate {
		for _, ca := range more {
			c.Certificate = append(c.Certificate, ca.Cert.Raw)
		}
		return c
	}
	for _, tt := range []struct {
		name string
		cert tls.Certificate
		host string
		ok   bool
	}{
		{"in the bundle", must(system.Issue("mail.test")), "mail.test", true},
		{"by address", must(system.Issue("mail.test")), "127.0.0.1", true},
		{"only in the directory", must(systemDir.Issue("mail.test")), "mail.test", true},
		{"with an intermediate", withChain(must(between.Issue("mail.test")), between), "mail.test", true},
		{"with intermediate and root", withChain(must(between.Issue("mail.test")), between, system), "mail.test", true},
		{"intermediate left out", must(between.Issue("mail.test")), "mail.test", false},
		{"unknown authority", must(unknown.Issue("mail.test")), "mail.test", false},
		{"unknown authority sent along", withChain(must(unknown.Issue("mail.test")), unknown), "mail.test", false},
		{"wrong name", must(system.Issue("mail.test")), "other.test", false},
		{"wrong address", must(system.Issue("mail.test")), "127.0.0.2", false},
		{"no name", must(system.Issue("mail.test")), "", false},
		{"expired", must(system.Issue("mail.test", func(c *x509.Certificate) { c.NotAfter = time.Now().Add(-time.Minute) })), "mail.test", false},
		{"not yet valid", must(system.Issue("mail.test", func(c *x509.Certificate) { c.NotBefore = time.Now().Add(time.Minute) })), "mail.test", false},
		{"for clients", must(system.Issue("mail.test", func(c *x509.Certificate) { c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth} })), "mail.test", false},
		{"signed by no authority", withChain(must(leaf.Issue("mail.test")), leaf), "mail.test", false},
	} {
		cfg := &tls.Config{ServerName: tt.host}
		useSystemRoots(cfg)
		if err := shake(t, cfg, tt.cert); (err == nil) != tt.ok {
			t.Errorf("%s: %v, want ok %v", tt.name, err, tt.ok)
		}
		if tt.host == "" {
			continue // crypto/tls refuses before the handshake
		}
		if err := shake(t, &tls.Config{ServerName: tt.host}, tt.cert); (err == nil) != tt.ok {
			t.Errorf("%s: crypto/tls itself says %v, want ok %v", tt.name, err, tt.ok)
		}
	}
}

// notACA returns a leaf that signs.
func notACA(ca *mailtest.CA) *mailtest.CA {
	leaf := must(ca.Issue("leaf.test"))
	return &mailtest.CA{
		Cert: must(x509.ParseCertificate(leaf.Certificate[0])),
		Key:  leaf.PrivateKey.(*ecdsa.PrivateKey),
	}
}

// shake completes a handshake on loopback and returns the error of the client.
func shake(t *testing.T, cfg *tls.Config, cert tls.Certificate) error {
	t.Helper()
	ln := must(tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{cert}}))
	defer ln.Close()
	go func() {
		if there, err := ln.Accept(); err == nil {
			io.Copy(io.Discard, there)
			there.Close()
		}
	}()
	here := must(net.Dial("tcp", ln.Addr().String()))
	defer here.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	return tls.Client(here, cfg).HandshakeContext(ctx)
}

func TestCAFile(t *testing.T) {
	dir := t.TempDir()
	own := must(mailtest.NewCA())
	file := filepath.Join(dir, "ca.pem")
	must(0, os.WriteFile(file, own.PEM, 0o600))
	s := Server{Addr: "mail.test:993", TLS: TLSImplicit, CAFile: file}
	cfg := must(s.tlsConfig())
	if cfg.MinVersion < tls.VersionTLS12 {
		t.Error("TLS below 1.2 is allowed")
	}
	if err := shake(t, cfg, must(own.Issue("mail.test"))); err != nil {
		t.Errorf("its own authority: %v", err)
	}
	if err := shake(t, must(s.tlsConfig()), must(system.Issue("mail.test"))); err == nil {
		t.Error("ca_file does not replace the system's roots")
	}
	for content, want := range map[string]string{"none": "no certificate", "": "no certificate"} {
		must(0, os.WriteFile(file, []byte(content), 0o600))
		if _, err := s.tlsConfig(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("ca_file of %q: %v", content, err)
		}
	}
	s.CAFile = filepath.Join(dir, "missing.pem")
	if _, err := s.tlsConfig(); err == nil {
		t.Error("no error, although ca_file is missing")
	}
}

// BenchmarkRoots uses the bundle of this machine and one more root, which is
// the one that is needed.
func BenchmarkRoots(b *testing.B) {
	var bundle []byte
	for _, f := range rootFiles {
		if raw, err := os.ReadFile(f); err == nil {
			bundle = raw
			break
		}
	}
	for range 100 * (1 - min(1, len(bundle))) {
		bundle = append(bundle, must(mailtest.NewCA()).PEM...)
	}
	bundle = append(bundle, system.PEM...)
	leaf := must(x509.ParseCertificate(must(system.Issue("mail.test")).Certificate[0]))
	b.Run("needed", func(b *testing.B) {
		for b.Loop() {
			if err := verifyChain([]*x509.Certificate{leaf}, "mail.test", bundle); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("full", func(b *testing.B) {
		for b.Loop() {
			pool := x509.NewCertPool()
			pool.AppendCertsFromPEM(bundle)
			if _, err := leaf.Verify(x509.VerifyOptions{DNSName: "mail.test", Roots: pool}); err != nil {
				b.Fatal(err)
			}
		}
	})
}
