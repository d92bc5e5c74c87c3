package mail

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"agentstateloop/internal/testkit"
	"agentstateloop/internal/testkit/limittest"
	"agentstateloop/internal/testkit/mailtest"
)

// system, systemToo and systemDir are authorities that the process trusts as system roots.
// systemToo is in the bundle like system, systemDir only in a directory.
var system, systemToo, systemDir *mailtest.CA

// TestMain sets the system roots before crypto/x509 reads them for good.
func TestMain(m *testing.M) {
	must(0, testkit.InMemory())
	dir, err := os.MkdirTemp("", "roots")
	if err != nil {
		panic(err)
	}
	system, systemToo, systemDir = must(mailtest.NewCA()), must(mailtest.NewCA()), must(mailtest.NewCA())
	bundle := filepath.Join(dir, "bundle.pem")
	certs := filepath.Join(dir, "certs")
	must(0, os.MkdirAll(certs, 0o700))
	must(0, os.WriteFile(bundle, slices.Concat(otherRoots(), systemToo.PEM, system.PEM), 0o600))
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

// otherRoots returns certificates that no test needs, and other text that a bundle may contain.
func otherRoots() []byte {
	b := bytes.NewBufferString("# a comment\n")
	for range 3 {
		b.Write(must(mailtest.NewCA()).PEM)
	}
	pem.Encode(b, &pem.Block{Type: "CERTIFICATE", Bytes: []byte("junk")})
	return b.Bytes()
}

// TestSystemRoots checks that Roots accepts exactly the chains that Go accepts, with any remembered
// roots.
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
		if tt.host != "" { // without a name crypto/tls refuses before the handshake
			if err := handshake(t, &tls.Config{ServerName: tt.host}, tt.cert); (err == nil) != tt.ok {
				t.Errorf("%s: crypto/tls itself says %v, want ok %v", tt.name, err, tt.ok)
			}
		}
		for remembered, root := range map[string]*mailtest.CA{"nothing": nil, "its root": system, "another root": systemToo} {
			roots := NewRoots(filepath.Join(t.TempDir(), "roots"))
			if root != nil && tt.host != "" {
				rememberRoot(t, roots, tt.host, root)
			}
			if err := handshakeTwice(t, roots, tt.host, tt.cert); (err == nil) != tt.ok {
				t.Errorf("%s, %s is remembered: %v, want ok %v", tt.name, remembered, err, tt.ok)
			}
		}
	}
}

// newBundle makes a file the system's bundle of roots until the end of the test.
func newBundle(t testing.TB) (file string) {
	must(x509.SystemCertPool()) // Go reads its roots once, before the bundle changes
	file = filepath.Join(t.TempDir(), "bundle.pem")
	t.Setenv("SSL_CERT_FILE", file)
	return file
}

// rememberRoot makes roots remember root for host.
func rememberRoot(t *testing.T, roots *Roots, host string, root *mailtest.CA) {
	t.Helper()
	byAddress := func(c *x509.Certificate) {
		if ip := net.ParseIP(host); ip != nil {
			c.IPAddresses = []net.IP{ip}
		}
	}
	if err := handshake(t, roots.Config(host), must(root.Issue(host, byAddress))); err != nil {
		t.Fatal(err)
	}
	if !trustsOnly(roots, host, root) {
		t.Fatal("the root is not remembered")
	}
}

// trustsOnly reports whether a process that begins now would trust root alone.
func trustsOnly(roots *Roots, host string, root *mailtest.CA) bool {
	pool := x509.NewCertPool()
	pool.AddCert(root.Cert)
	return NewRoots(roots.file).Config(host).RootCAs.Equal(pool)
}

// handshakeTwice completes a handshake as the callers do: it tries again with all roots.
func handshakeTwice(t *testing.T, roots *Roots, host string, cert tls.Certificate) error {
	t.Helper()
	err := handshake(t, roots.Config(host), cert)
	if roots.Doubted(host, err) {
		err = handshake(t, roots.Config(host), cert)
	}
	return err
}

// TestRootMustBeInBundle checks that a remembered root counts only while the system's bundle has
// exactly its block.
func TestRootMustBeInBundle(t *testing.T) {
	block := string(system.PEM)
	other := string(systemToo.PEM)
	line, _, _ := strings.Cut(block, "\n")
	for name, tt := range map[string]struct {
		before, after string
		counts        bool
	}{
		"as it was":              {other + block + other, other + block + other, true},
		"at the beginning":       {block + other, block + other, true},
		"at the end":             {other + block, other + block, true},
		"behind a comment":       {"# one\n" + block, "# one\n" + block, true},
		"others are new":         {block + other, block + string(systemDir.PEM), true},
		"removed":                {other + block + other, other + other, false},
		"all removed":            {other + block, "", false},
		"another in its place":   {other + block, other + other, false},
		"moved":                  {other + block, "#\n" + other + block, false},
		"commented out":          {"#\n" + block, "##" + block, false},
		"not at a line's start":  {"#\n" + block, "#" + block + " ", false},
		"its first line":         {block + other, strings.Replace(block, line, strings.ToLower(line), 1) + other, false},
		"cut short":              {other + block, (other + block)[:len(other+block)-40], false},
		"its last line goes on":  {other + block, other + strings.TrimSuffix(block, "\n") + "x\n", false},
		"one letter was changed": {other + block, other + strings.Replace(block, "M", "N", 1), false},
	} {
		roots := NewRoots(filepath.Join(t.TempDir(), "roots"))
		bundle := newBundle(t)
		must(0, os.WriteFile(bundle, []byte(tt.before), 0o600))
		rememberRoot(t, roots, "mail.test", system)
		must(0, os.WriteFile(bundle, []byte(tt.after), 0o600))
		if got := trustsOnly(roots, "mail.test", system); got != tt.counts {
			t.Errorf("%s: counts %v", name, got)
		}
		if cfg := NewRoots(roots.file).Config("mail.test"); !tt.counts && cfg.RootCAs != nil {
			t.Errorf("%s: another root is trusted alone", name)
		}
	}
}

// TestRootWithoutNewline checks that a block at the end of the bundle without a newline is not
// remembered.
func TestRootWithoutNewline(t *testing.T) {
	must(0, os.WriteFile(newBundle(t), bytes.TrimSpace(system.PEM), 0o600))
	roots := NewRoots(filepath.Join(t.TempDir(), "roots"))
	if err := handshake(t, roots.Config("mail.test"), must(system.Issue("mail.test"))); err != nil {
		t.Fatal(err)
	}
	if trustsOnly(roots, "mail.test", system) {
		t.Error("it is remembered")
	}
}

// TestRootsOfTwoProcesses checks that two processes that write the same file keep each other's roots.
func TestRootsOfTwoProcesses(t *testing.T) {
	one := NewRoots(filepath.Join(t.TempDir(), "roots"))
	other := NewRoots(one.file)
	one.Config("mail.test") // which reads the file
	rememberRoot(t, other, "other.test", systemToo)
	rememberRoot(t, one, "mail.test", system)
	if !trustsOnly(one, "other.test", systemToo) {
		t.Error("the root of the other process is lost")
	}
}

// TestRootsFileIsUntrusted checks that the file of the Roots cannot make a certificate a root.
func TestRootsFileIsUntrusted(t *testing.T) {
	bundle := newBundle(t)
	key := pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: system.Cert.RawSubjectPublicKeyInfo})
	headers := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Headers: map[string]string{"a": "b"}, Bytes: system.Cert.Raw})
	must(0, os.WriteFile(bundle, slices.Concat(system.PEM, key, headers, system.PEM), 0o600))
	all := must(os.ReadFile(bundle))
	entry := func(from, to int) string {
		return fmt.Sprintf("mail.test %d %d %x\n", from, to-from, sha256.Sum256(all[from:to]))
	}
	n := len(system.PEM)
	whole := entry(0, n)
	for name, tt := range map[string]struct {
		text string
		ok   bool
	}{
		"whole":            {whole, true},
		"among others":     {"other.test 1 2 3\n" + whole, true},
		"another host":     {strings.Replace(whole, "mail", "other", 1), false},
		"empty":            {"", false},
		"cut":              {whole[:40], false},
		"nonsense":         {strings.Repeat("\x00", 5000), false},
		"too long":         {whole + strings.Repeat("#", 1<<20), false},
		"two blocks":       {entry(0, n+len(key)), false},
		"of a key":         {entry(n-1, n+len(key)), false},
		"with headers":     {entry(n+len(key)-1, n+len(key)+len(headers)), false},
		"not from a line":  {entry(n+len(key)+len(headers), len(all)), false},
		"a part":           {entry(5, n), false},
		"beyond the end":   {strings.Replace(whole, fmt.Sprint(n), fmt.Sprint(n+1<<13), 1), false},
		"before the start": {strings.Replace(whole, " 0 ", " -1 ", 1), false},
		"of huge length":   {strings.Replace(whole, fmt.Sprint(n), "4611686018427387904", 1), false},
	} {
		file := filepath.Join(t.TempDir(), "roots")
		must(0, os.WriteFile(file, []byte(tt.text), 0o600))
		if got := NewRoots(file).Config("mail.test").RootCAs != nil; got != tt.ok {
			t.Errorf("%s: counts %v, want %v", name, got, tt.ok)
		}
	}
}

// TestServerChangesRoot checks that a server whose chain ends in another root is trusted at the
// second connection, and later at the first.
func TestServerChangesRoot(t *testing.T) {
	roots := NewRoots(filepath.Join(t.TempDir(), "roots"))
	rememberRoot(t, roots, "mail.test", systemToo)
	rememberRoot(t, roots, "other.test", systemToo)
	cert := must(system.Issue("mail.test"))
	err := handshake(t, roots.Config("mail.test"), cert)
	if err == nil || !roots.Doubted("mail.test", err) {
		t.Fatalf("%v", err)
	}
	if roots.Doubted("other.test", err) || roots.Doubted("mail.test", io.EOF) {
		t.Error("another host or another error is doubted")
	}
	if err := handshake(t, roots.Config("mail.test"), cert); err != nil {
		t.Fatal(err)
	}
	if !trustsOnly(roots, "mail.test", system) || !trustsOnly(roots, "other.test", systemToo) {
		t.Error("the roots are not remembered")
	}
	if err := handshake(t, roots.Config("mail.test"), cert); err != nil {
		t.Error(err)
	}
}

// TestRootsAreCapped checks that the roots of the last maxPlaces servers are remembered.
func TestRootsAreCapped(t *testing.T) {
	roots := NewRoots(filepath.Join(t.TempDir(), "roots"))
	for i := range maxPlaces + 3 {
		rememberRoot(t, roots, fmt.Sprintf("mail%d.test", i), system)
	}
	if n := strings.Count(string(must(os.ReadFile(roots.file))), "\n"); n != maxPlaces {
		t.Errorf("%d lines", n)
	}
	if !trustsOnly(roots, "mail10.test", system) || trustsOnly(roots, "mail2.test", system) {
		t.Error("not the first ones are forgotten")
	}
}

// TestLimitsOfRoots checks the limits on the system bundle and on the remembered roots.
func TestLimitsOfRoots(t *testing.T) {
	bundle := newBundle(t)
	at := func(n int64) place { return place{host: fmt.Sprint(n), length: 1} }
	remembered := func(file string) int {
		roots := NewRoots(file)
		roots.readFile()
		return len(roots.places)
	}
	limittest.Run(t, []limittest.Limit{
		{Const: "maxPlaces", Max: 16, Within: func(t *testing.T, n int64) bool {
			roots := NewRoots(filepath.Join(t.TempDir(), "roots"))
			for i := range n {
				roots.remember(at(i))
			}
			return remembered(roots.file) == int(n)
		}},
		{Const: "maxPlaces", Max: 16 << 10, Within: func(t *testing.T, n int64) bool { // bytes of the file
			roots := NewRoots(filepath.Join(t.TempDir(), "roots"))
			roots.remember(at(0))
			must(0, os.Truncate(roots.file, n))
			return remembered(roots.file) == 1
		}},
		{Const: "maxBlock", Max: 16 << 10, Within: func(t *testing.T, n int64) bool {
			block := bytes.Replace(system.PEM, []byte("\n"), []byte("\n"+strings.Repeat("\n", int(n)-len(system.PEM))), 1)
			must(0, os.WriteFile(bundle, block, 0o600))
			p, found := findRoot(system.Cert)
			return found && p.length == int(n)
		}},
		{Const: "maxBlock", Max: 16 << 10, Within: func(t *testing.T, n int64) bool { // the position in the file
			_, ok := parsePlace(strings.Fields(fmt.Sprintf("mail.test 0 %d %x", n, sha256.Sum256(nil))))
			return ok
		}},
		{Const: "maxBundle", Max: 64 << 20, Within: func(t *testing.T, n int64) bool {
			f := must(os.Create(bundle))
			defer f.Close()
			must(f.WriteAt(append([]byte("\n"), system.PEM...), n-int64(len(system.PEM))-1))
			_, found := findRoot(system.Cert)
			return found
		}},
	})
}

// TestReconnectsForNewRoot checks that each kind of connection is made once more for a new root.
func TestReconnectsForNewRoot(t *testing.T) {
	s := must(mailtest.Start(t.TempDir(), mailtest.Options{CA: system}))
	t.Cleanup(func() { s.Close() })
	for _, tt := range []struct {
		name, addr, tls string
		open            func(Server) error
	}{
		{"IMAP", s.IMAPTLS, TLSImplicit, func(s Server) error { return Mailbox{Server: s}.TryLogin(t.Context()) }},
		{"IMAP by STARTTLS", s.IMAP, TLSStart, func(s Server) error { return Mailbox{Server: s}.TryLogin(t.Context()) }},
		{"SMTP", s.SMTPTLS, TLSImplicit, func(s Server) error { return s.TryLogin(t.Context()) }},
		{"SMTP by STARTTLS", s.SMTP, TLSStart, func(s Server) error { return s.TryLogin(t.Context()) }},
		{"a greeting", s.IMAPTLS, TLSImplicit, func(s Server) error { return s.GreetIMAP(t.Context()) }},
		{"a greeting by STARTTLS", s.IMAP, TLSStart, func(s Server) error { return s.GreetIMAP(t.Context()) }},
	} {
		server := Server{Addr: tt.addr, TLS: tt.tls, Username: s.Username,
			Secret: func(context.Context) (string, error) { return s.Password, nil },
			Roots:  NewRoots(filepath.Join(t.TempDir(), "roots"))}
		host, _, _ := net.SplitHostPort(tt.addr)
		rememberRoot(t, server.Roots, host, systemToo)
		if err := tt.open(server); err != nil {
			t.Errorf("%s: %v", tt.name, err)
		}
		if !trustsOnly(server.Roots, host, system) {
			t.Errorf("%s: the new root is not remembered", tt.name)
		}
	}
}

// notACA returns a leaf certificate that issues certificates.
func notACA(ca *mailtest.CA) *mailtest.CA {
	leaf := must(ca.Issue("leaf.test"))
	return &mailtest.CA{
		Cert: must(x509.ParseCertificate(leaf.Certificate[0])),
		Key:  leaf.PrivateKey.(*ecdsa.PrivateKey),
	}
}

// handshake completes a handshake on loopback and returns the error of the client.
func handshake(t *testing.T, cfg *tls.Config, cert tls.Certificate) error {
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
	if err := handshake(t, cfg, must(own.Issue("mail.test"))); err != nil {
		t.Errorf("its own authority: %v", err)
	}
	if err := handshake(t, must(s.tlsConfig()), must(system.Issue("mail.test"))); err == nil {
		t.Error("ca_file does not replace the system's roots")
	}
	for _, content := range []string{"none", ""} {
		must(0, os.WriteFile(file, []byte(content), 0o600))
		if _, err := s.tlsConfig(); err == nil || !strings.Contains(err.Error(), "no certificate") {
			t.Errorf("ca_file of %q: %v", content, err)
		}
	}
	s.CAFile = filepath.Join(dir, "missing.pem")
	if _, err := s.tlsConfig(); err == nil {
		t.Error("no error, although ca_file is missing")
	}
}

// BenchmarkRoots makes the pool for a handshake from the bundle of this machine and one more root,
// the one that is needed.
func BenchmarkRoots(b *testing.B) {
	bundle := newBundle(b)
	var all []byte
	for _, f := range rootFiles {
		if raw, err := os.ReadFile(f); err == nil {
			all = raw
			break
		}
	}
	for range 100 * (1 - min(1, len(all))) {
		all = append(all, must(mailtest.NewCA()).PEM...)
	}
	must(0, os.WriteFile(bundle, append(all, system.PEM...), 0o600))
	file := filepath.Join(b.TempDir(), "roots")
	p, ok := findRoot(system.Cert)
	if !ok {
		b.Fatal("the bundle does not hold the root")
	}
	p.host = "mail.test"
	NewRoots(file).remember(p)
	b.Run("remembered", func(b *testing.B) {
		for b.Loop() {
			if NewRoots(file).Config("mail.test").RootCAs == nil {
				b.Fatal("the root is not remembered")
			}
		}
	})
	b.Run("all", func(b *testing.B) {
		for b.Loop() {
			pool := x509.NewCertPool()
			pool.AppendCertsFromPEM(must(os.ReadFile(bundle)))
		}
	})
}
