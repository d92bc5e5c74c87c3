package mail

import (
	"bytes"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"

	"agentstateloop/internal/osfile"
)

// Roots makes the configuration of a client that trusts the roots of the system, and remembers
// which of them ended the chain of each server. Go parses all roots of the system at the first
// handshake of a process, which costs more than everything else in an empty poll
// (docs/protocol.md, "Round trips").
//
// crypto/tls verifies every chain. Only the pool differs: it contains only the remembered root,
// if the bundle of the system still holds it, and otherwise all roots of the system. So it
// accepts no chain that the whole pool would refuse. If a chain does not end in the remembered
// root, the next configuration for that server uses the whole pool, and a caller for which
// Doubted returns true connects once more.
//
// A nil *Roots remembers nothing. The methods may be called concurrently.
type Roots struct {
	file string

	mu     sync.Mutex
	read   bool
	places []place
	doubts []string // servers whose chain has not yet ended in the remembered root
}

// NewRoots returns Roots that store their memory in file. The content of the file is not
// trusted, and may be lost.
func NewRoots(file string) *Roots { return &Roots{file: file} }

// place is the location of a server's root in the bundle of the system: a whole PEM block, with
// the preceding line end if there is one.
type place struct {
	host   string
	offset int64
	length int
	sum    [sha256.Size]byte
}

const (
	maxPlaces = 16       // remembered servers
	maxBlock  = 16 << 10 // bytes of a remembered block
	maxBundle = 64 << 20 // bytes of a bundle that is searched for a root
)

// Config returns the configuration of a client for a server with this name or address.
func (r *Roots) Config(host string) *tls.Config {
	cfg := &tls.Config{ServerName: host, MinVersion: tls.VersionTLS12}
	if r == nil {
		return cfg
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if slices.Contains(r.doubts, host) {
		cfg.VerifyConnection = r.learner(host)
		return cfg
	}
	pool := r.pool(host)
	if pool == nil {
		cfg.VerifyConnection = r.learner(host)
		return cfg
	}
	r.doubts = append(r.doubts, host)
	cfg.RootCAs = pool
	cfg.VerifyConnection = func(tls.ConnectionState) error { // after the chain was verified
		r.mu.Lock()
		defer r.mu.Unlock()
		r.endDoubt(host)
		return nil
	}
	return cfg
}

// Doubted reports whether err, of a handshake with the server, may be due to its remembered
// root. If so, the next handshake uses the whole pool.
func (r *Roots) Doubted(host string, err error) bool {
	if _, refused := errors.AsType[*tls.CertificateVerificationError](err); r == nil || !refused {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Contains(r.doubts, host)
}

// endDoubt ends the doubt about the server.
func (r *Roots) endDoubt(host string) {
	r.doubts = slices.DeleteFunc(r.doubts, func(h string) bool { return h == host })
}

// pool returns the remembered root of the server, or nil if the bundle of the system does not
// hold it in its place.
//
// The block is compared as a whole, from the end of the line before it to the end of its last
// line. Regardless of the text before and after it, encoding/pem finds such a block, and
// crypto/x509 adds it to its own pool.
func (r *Roots) pool(host string) *x509.CertPool {
	r.readFile()
	i := slices.IndexFunc(r.places, func(p place) bool { return p.host == host })
	if i < 0 {
		return nil
	}
	bundle, err := openBundle()
	if err != nil {
		return nil
	}
	defer bundle.Close()
	p := r.places[i]
	block := make([]byte, p.length)
	if _, err := bundle.ReadAt(block, p.offset); err != nil || sha256.Sum256(block) != p.sum {
		return nil
	}
	root, err := x509.ParseCertificate(certificateBlock(block, p.offset))
	if err != nil {
		return nil
	}
	pool := x509.NewCertPool()
	pool.AddCert(root)
	return pool
}

// certificateBlock returns the content of block, at offset of a bundle, if it is one certificate that
// begins and ends with a line. Otherwise it returns nil.
func certificateBlock(block []byte, offset int64) []byte {
	text, began := block, true
	if offset > 0 {
		text, began = bytes.CutPrefix(block, []byte("\n"))
	}
	if !began || !bytes.HasPrefix(text, []byte("-----BEGIN CERTIFICATE-----\n")) || !bytes.HasSuffix(text, []byte("\n")) {
		return nil
	}
	found, rest := pem.Decode(text)
	if found == nil || len(rest) > 0 || len(found.Headers) > 0 {
		return nil
	}
	return found.Bytes
}

// learner returns a function that remembers the root of a chain that the whole pool has
// verified.
func (r *Roots) learner(host string) func(tls.ConnectionState) error {
	return func(cs tls.ConnectionState) error {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.endDoubt(host)
		for _, chain := range cs.VerifiedChains {
			if p, ok := findRoot(chain[len(chain)-1]); ok {
				p.host = host
				r.remember(p)
				break
			}
		}
		return nil // a root that is not remembered only costs time
	}
}

// findRoot returns the place of root in the bundle of the system.
func findRoot(root *x509.Certificate) (place, bool) {
	bundle, err := openBundle()
	if err != nil {
		return place{}, false
	}
	defer bundle.Close()
	all, err := io.ReadAll(io.LimitReader(bundle, maxBundle))
	if err != nil {
		return place{}, false
	}
	for rest := all; ; {
		found, next := pem.Decode(rest)
		if found == nil {
			return place{}, false
		}
		block := rest[:len(rest)-len(next)] // with the text before it
		end := int64(len(all) - len(next))
		rest = next
		if !bytes.Equal(found.Bytes, root.Raw) {
			continue
		}
		begin := bytes.LastIndex(block, []byte("-----BEGIN "))
		offset := max(end-int64(len(block)-begin)-1, 0)
		block = all[offset:end]
		if len(block) > maxBlock || certificateBlock(block, offset) == nil {
			continue
		}
		return place{offset: offset, length: len(block), sum: sha256.Sum256(block)}, true
	}
}

// remember writes p into the file, replacing the earlier place of the server.
func (r *Roots) remember(p place) {
	r.read = false
	r.readFile() // another process may have written it
	r.places = slices.DeleteFunc(r.places, func(old place) bool { return old.host == p.host })
	r.places = append(r.places, p)
	r.places = r.places[max(0, len(r.places)-maxPlaces):]
	var text strings.Builder
	for _, p := range r.places {
		fmt.Fprintf(&text, "%s %d %d %x\n", p.host, p.offset, p.length, p.sum)
	}
	f, err := osfile.OpenFile(r.file, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return
	}
	defer f.Close()
	_, _ = f.WriteString(text.String())
}

// readFile reads the file, once. It skips malformed lines.
func (r *Roots) readFile() {
	if r.read {
		return
	}
	r.read, r.places = true, nil
	text, err := osfile.ReadFile(r.file, maxPlaces*1024)
	if err != nil {
		return
	}
	for line := range strings.Lines(string(text)) {
		if p, ok := parsePlace(strings.Fields(line)); ok {
			r.places = append(r.places, p)
		}
	}
}

func parsePlace(fields []string) (p place, ok bool) {
	if len(fields) != 4 {
		return p, false
	}
	offset, err1 := strconv.ParseInt(fields[1], 10, 64)
	length, err2 := strconv.Atoi(fields[2])
	sum, err3 := hex.DecodeString(fields[3])
	if err1 != nil || err2 != nil || err3 != nil || offset < 0 || length < 1 || length > maxBlock || len(sum) != sha256.Size {
		return p, false
	}
	return place{host: fields[0], offset: offset, length: length, sum: [sha256.Size]byte(sum)}, true
}
