package fleet

import (
	"errors"
	"strings"

	"github.com/nats-io/nkeys"
)

// NewKey returns the seed, SU…, and the public key, U…, of a new user key.
func NewKey() (seed, public string, err error) {
	pair, err := nkeys.CreateUser()
	if err != nil {
		return "", "", err
	}
	text, err := pair.Seed()
	if err != nil {
		return "", "", err
	}
	public, err = pair.PublicKey()
	return string(text), public, err
}

// PublicKey returns the public key for the seed of a user.
func PublicKey(seed string) (string, error) {
	pair, err := keyPair(seed)
	if err != nil {
		return "", err
	}
	return pair.PublicKey()
}

// ValidPublicKey reports whether s is the public key of a user.
func ValidPublicKey(s string) bool { return nkeys.IsValidPublicUserKey(s) }

var errSeed = errors.New("it is not the seed of a user's nkey, which begins with SU")

// keyPair returns the key of a seed. It ignores blanks around the seed.
func keyPair(seed string) (nkeys.KeyPair, error) {
	seed = strings.TrimSpace(seed)
	kind, _, err := nkeys.DecodeSeed([]byte(seed))
	if err != nil || kind != nkeys.PrefixByteUser {
		return nil, errSeed
	}
	pair, err := nkeys.FromSeed([]byte(seed))
	if err != nil {
		return nil, errSeed // the library's own error might quote it
	}
	return pair, nil
}
