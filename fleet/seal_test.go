package fleet

import (
	"bytes"
	"context"
	"testing"
)

// TestSeal checks that only the key of the agent opens what it has sealed, and that a change shows.
func TestSeal(t *testing.T) {
	seedOf := func() *Conn {
		seed, _, err := NewKey()
		if err != nil {
			t.Fatal(err)
		}
		return &Conn{Seed: func(ctx context.Context) (string, error) { return seed, nil }}
	}
	ours, others := seedOf(), seedOf()
	sealed, err := ours.Seal(t.Context(), []byte("a secret"))
	if err != nil {
		t.Fatal(err)
	}
	if plain, err := ours.Unseal(t.Context(), sealed); err != nil || !bytes.Equal(plain, []byte("a secret")) {
		t.Errorf("Unseal: %q, %v", plain, err)
	}
	changed := []byte(sealed)
	changed[len(changed)/2] ^= 1
	for name, open := range map[string]func() ([]byte, error){
		"another key": func() ([]byte, error) { return others.Unseal(t.Context(), sealed) },
		"changed":     func() ([]byte, error) { return ours.Unseal(t.Context(), string(changed)) },
		"short":       func() ([]byte, error) { return ours.Unseal(t.Context(), "YWJj") },
	} {
		if plain, err := open(); err == nil {
			t.Errorf("%s: opened as %q", name, plain)
		}
	}
}
