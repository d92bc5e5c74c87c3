package fleet

import (
	"context"
	"encoding/json"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"net"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nkeys"
)

// recorder is a key that records the signed texts.
type recorder struct {
	nkeys.KeyPair
	texts []string
}

func (r *recorder) Sign(text []byte) ([]byte, error) {
	r.texts = append(r.texts, string(text))
	return r.KeyPair.Sign(text)
}

// domains are the prefixes of signed texts, one for each kind.
var domains = []string{"asl1 box", "asl1 halt", "asl1 head", "asl1 hist", "asl1 task", "asl1 wakeup", "asl1 who", "asl1 wish"}

// domainOf returns the first two words of a signed text.
func domainOf(text string) string { return strings.Join(strings.Fields(text)[:2], " ") }

// TestDomainsOfSignatures signs one text of each kind with the same key, handle, time and body, and
// checks that each signature is valid only for its own text.
func TestDomainsOfSignatures(t *testing.T) {
	seed, public := newKey(t)
	pair, err := keyPair(seed)
	if err != nil {
		t.Fatal(err)
	}
	key := &recorder{KeyPair: pair}
	c := &Conn{
		URL: "nats://127.0.0.1:1", Handle: "alice", pair: key,
		Dial: func(context.Context, string, string) (net.Conn, error) { return nil, errors.New("no server") },
	}
	ctx, at, halted := t.Context(), time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC), false
	body, err := json.Marshal(haltValue{&halted, "alice", at, 7})
	if err != nil {
		t.Fatal(err)
	}
	signed := at.Format(timeLayout)
	row := func(host, sig string) bool {
		return Row{Handle: "alice", Host: host, At: at, Body: body, at: signed, signature: sig}.SignedBy(public)
	}
	all := []struct {
		domain  string
		sign    func() // its result does not count: no server accepts the text
		accepts func(sig string) bool
	}{
		{"asl1 box", func() { _, _ = c.Post(ctx, "alice", "id", at, body, true) }, func(sig string) bool {
			return Item{To: "alice", From: "alice", ID: "id", At: at, Body: body, at: signed, signature: sig}.SignedBy(public)
		}},
		{"asl1 halt", func() { _, _ = c.halt(ctx, halted, at, 7) }, func(sig string) bool {
			late := Halt{body: string(body), signature: sig, after: 7, sequence: 9} // after another HALT
			if late.SignedBy(public) {
				t.Error("a HALT that came again after another one is accepted")
			}
			return Halt{body: string(body), signature: sig, after: 7, sequence: 8}.SignedBy(public)
		}},
		{"asl1 head", func() { _, _ = c.OfferHead(ctx, 0, body) }, func(sig string) bool {
			return verifies(public, sig, "asl1 head alice\n", body)
		}},
		{"asl1 hist", func() { _ = c.PutBlock(ctx, 7, body) }, func(sig string) bool {
			return verifies(public, sig, "asl1 hist alice 7\n", body)
		}},
		{"asl1 wish", func() { _ = c.SetWish(ctx, body) }, func(sig string) bool {
			return verifies(public, sig, "asl1 wish alice\n", body)
		}},
		{"asl1 task", func() { _ = c.Announce(ctx, at, body) }, func(sig string) bool { // as watchers read it
			return verifies(public, sig, "asl1 task alice "+signed+"\n", body)
		}},
		{"asl1 wakeup", func() { _ = c.Ring(ctx, "alice") }, func(sig string) bool {
			return Ring{From: "alice", to: "alice", signature: sig}.SignedBy(public)
		}},
		{"asl1 who", func() { _ = c.Register(ctx, body, at) }, func(sig string) bool { return row("", sig) }},
		{"asl1 who", func() { _, _ = c.row(ctx, lookSubject("alice", "host"), "alice.host", body, at) }, func(sig string) bool { return row("host", sig) }},
	}
	tried := map[string]bool{}
	for i, signer := range all {
		tried[signer.domain] = true
		key.texts = nil
		signer.sign()
		if len(key.texts) == 0 || domainOf(key.texts[0]) != signer.domain {
			t.Errorf("%s: the signed texts are %q", signer.domain, key.texts)
			continue
		}
		sig, err := signatureOf(pair, key.texts[0], nil)
		if err != nil {
			t.Fatal(err)
		}
		for j, reader := range all {
			if reader.accepts(sig) != (i == j) {
				t.Errorf("a signature of kind %d, %s, is accepted as kind %d, %s: %t", i, signer.domain, j, reader.domain, i != j)
			}
		}
	}
	for _, domain := range domains {
		if !tried[domain] {
			t.Errorf("%s is not tried", domain)
		}
	}
}

// TestSignersAreKnown finds each signed text in the source of the mesh: each kind has its prefix in
// domains, and only sign.go signs and verifies. A new kind must also be added to
// TestDomainsOfSignatures.
func TestSignersAreKnown(t *testing.T) {
	found := map[string]bool{}
	for _, folder := range []string{".", "../mesh", "../mesh/natsmesh"} {
		names, err := filepath.Glob(folder + "/*.go")
		if err != nil || len(names) == 0 {
			t.Fatalf("%s: %v", folder, err)
		}
		for _, name := range names {
			if strings.HasSuffix(name, "_test.go") {
				continue
			}
			file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
			if err != nil {
				t.Fatal(err)
			}
			for n := range ast.Preorder(file) {
				switch n := n.(type) {
				case *ast.BasicLit:
					if text, err := strconv.Unquote(n.Value); n.Kind == token.STRING && err == nil && strings.HasPrefix(text, "asl1 ") {
						found[domainOf(text)] = true
					}
				case *ast.SelectorExpr:
					// A server chooses the text that a connection to it signs.
					if verb := n.Sel.Name; (verb == "Sign" || verb == "Verify") && name != "sign.go" && name != "link.go" {
						t.Errorf("%s: it calls %s", name, verb)
					}
				case *ast.CallExpr:
					if line := signedLine(n); line != nil && !isLine(line) {
						t.Errorf("%s: the signed text begins with %T, which is not one of the lines in sign.go", name, line)
					}
				}
			}
		}
	}
	if got := slices.Sorted(maps.Keys(found)); !slices.Equal(got, domains) {
		t.Errorf("the signed texts begin with %q, want %q", got, domains)
	}
}

// signedLine returns the line that a call signs or verifies, or nil.
func signedLine(call *ast.CallExpr) ast.Expr {
	name := ""
	switch f := call.Fun.(type) {
	case *ast.Ident:
		name = f.Name
	case *ast.SelectorExpr:
		name = f.Sel.Name
	}
	switch name {
	case "sign", "signatureOf":
		return call.Args[1]
	case "verifies":
		return call.Args[2]
	}
	return nil
}

// isLine reports whether an expression is a line from sign.go, or an argument of a function there.
func isLine(e ast.Expr) bool {
	if call, ok := e.(*ast.CallExpr); ok {
		e = call.Fun
	}
	id, ok := e.(*ast.Ident)
	return ok && (id.Name == "line" || strings.HasSuffix(id.Name, "Line"))
}
