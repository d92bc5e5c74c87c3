package fleet

import (
	"strings"
	"testing"
)

// TestInvalidSignatures checks that a signature is valid only for its own text, key and kind.
func TestInvalidSignatures(t *testing.T) {
	seed, public := newKey(t)
	_, other := newKey(t)
	pair, err := keyPair(" " + seed + "\n")
	if err != nil {
		t.Fatal(err)
	}
	line, body := mailboxLine("goulard", "dorlange", "id-1", "2026-01-02T03:04:05Z"), []byte("text")
	sig, err := signatureOf(pair, line, body)
	if err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		public, sig, line, body string
		want                    bool
	}{
		"as signed":      {public, sig, line, "text", true},
		"another key":    {other, sig, line, "text", false},
		"no key":         {"", sig, line, "text", false},
		"a seed as key":  {seed, sig, line, "text", false},
		"another body":   {public, sig, line, "text.", false},
		"another to":     {public, sig, mailboxLine("x", "dorlange", "id-1", "2026-01-02T03:04:05Z"), "text", false},
		"another from":   {public, sig, mailboxLine("goulard", "x", "id-1", "2026-01-02T03:04:05Z"), "text", false},
		"another id":     {public, sig, mailboxLine("goulard", "dorlange", "id-2", "2026-01-02T03:04:05Z"), "text", false},
		"another time":   {public, sig, mailboxLine("goulard", "dorlange", "id-1", "2026-01-02T03:04:06Z"), "text", false},
		"another kind":   {public, sig, ringLine("goulard", "dorlange"), "text", false},
		"no signature":   {public, "", line, "text", false},
		"half of it":     {public, sig[:40], line, "text", false},
		"padded":         {public, sig + "==", line, "text", false},
		"with a newline": {public, sig[:40] + "\n" + sig[40:], line, "text", true}, // base64 skips the newline, so it is the same signature
	} {
		if got := verifies(tt.public, tt.sig, tt.line, []byte(tt.body)); got != tt.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// TestUserKeys checks which texts are accepted as the key of a user, and that no error quotes a
// seed.
func TestUserKeys(t *testing.T) {
	seed, public := newKey(t)
	if got, err := PublicKey(seed); err != nil || got != public || !ValidPublicKey(public) {
		t.Errorf("%s, %v, want %s", got, err, public)
	}
	for _, bad := range []string{"", public, seed[:len(seed)-1], seed + "A", "SA" + seed[2:], strings.ToLower(seed)} {
		if _, err := PublicKey(bad); err == nil || strings.Contains(err.Error(), seed[5:20]) {
			t.Errorf("PublicKey: %v", err)
		}
	}
	for _, bad := range []string{"", seed, public[:55], "A" + public[1:]} {
		if ValidPublicKey(bad) {
			t.Errorf("%s is not a public key", bad)
		}
	}
}
