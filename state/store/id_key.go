package store

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"agentstateloop/internal/osfile"
	"agentstateloop/state"
)

// IDKeyFile holds the key with which the Message-IDs of our mail are made
// (docs/design.md, "Our mail"). It is a secret file.
const IDKeyFile = "message-id.key"

// IDKey is the key of an agent, which it keeps for good.
type IDKey struct {
	Secret []byte    `json:"secret"` // secretLength random bytes
	Made   time.Time `json:"made"`
	Cause  KeyCause  `json:"cause"`
}

// KeyCause is why a key was made.
type KeyCause string

// The causes of keys.
const (
	KeyOfNew   KeyCause = "first poll" // the directory was new
	KeyLost    KeyCause = "lost"       // the key before it was missing
	KeyDamaged KeyCause = "damaged"    // the key before it could not be read
)

const (
	secretLength = 32      // bytes
	maxKeyFile   = 4 << 10 // bytes
)

// ReadIDKey returns the key. It takes no lock and changes nothing. The error
// wraps fs.ErrNotExist if none was made yet; after any other the key is unusable.
func (st *Store) ReadIDKey() (IDKey, error) {
	path := st.path(IDKeyFile)
	data, err := osfile.ReadFile(path, maxKeyFile)
	if err != nil {
		return IDKey{}, err
	}
	var k IDKey
	// The error of the decoder could quote the secret.
	if json.Unmarshal(data, &k) != nil || len(k.Secret) != secretLength || k.Made.IsZero() {
		return IDKey{}, fmt.Errorf("%s is damaged", path)
	}
	return k, nil
}

// IDKey returns the key, and makes it durably if there is none. A key that cannot
// be read is set aside: the agent goes on with another one, under which answers
// to its earlier mails need the callsign or its address. Commit makes sure that
// there is a key, so this takes no lock in a change of Commit.
func (st *Store) IDKey(now time.Time) (IDKey, error) {
	if k, err := st.ReadIDKey(); err == nil {
		return k, nil
	}
	if err := st.makeDir(); err != nil {
		return IDKey{}, err
	}
	lock, err := st.lockState(context.Background())
	if err != nil {
		return IDKey{}, err
	}
	defer lock.Unlock()
	s, _, err := st.load()
	if err != nil {
		return IDKey{}, err
	}
	return st.ensureIDKey(s, now)
}

// PeekIDKey returns what IDKey would return. It changes nothing, so a key that it
// has to make up is forgotten.
func (st *Store) PeekIDKey(now time.Time) (IDKey, error) {
	k, err := st.ReadIDKey()
	if err == nil {
		return k, nil
	}
	s, loadErr := st.Read()
	return newIDKey(causeOf(s, err), now), loadErr
}

// ensureIDKey returns the key, and makes it if s has none. The caller holds
// state.lock.
func (st *Store) ensureIDKey(s state.State, now time.Time) (IDKey, error) {
	k, err := st.ReadIDKey()
	if err == nil {
		return k, nil
	}
	k = newIDKey(causeOf(s, err), now)
	if k.Cause == KeyDamaged {
		if err := st.setAside(IDKeyFile, "damaged", now); err != nil {
			return IDKey{}, fmt.Errorf("set %s aside: %w", IDKeyFile, err)
		}
	}
	data, err := json.Marshal(k)
	if err != nil {
		return IDKey{}, err
	}
	if err := st.Keep(IDKeyFile, bytes.NewReader(append(data, '\n'))); err != nil {
		return IDKey{}, fmt.Errorf("keep %s: %w", IDKeyFile, err)
	}
	if k.Cause == KeyLost || k.Cause == KeyDamaged {
		_ = st.Log(now, fmt.Sprintf("%s was %s and was made again: an answer to an earlier mail needs the callsign or the agent's address", IDKeyFile, k.Cause))
	}
	return k, nil
}

// causeOf returns why s needs a key, if reading it failed with err.
func causeOf(s state.State, err error) KeyCause {
	switch {
	case !errors.Is(err, fs.ErrNotExist):
		return KeyDamaged
	case s.Serial == 0:
		return KeyOfNew
	default:
		return KeyLost
	}
}

func newIDKey(why KeyCause, now time.Time) IDKey {
	secret := make([]byte, secretLength)
	rand.Read(secret)
	return IDKey{Secret: secret, Made: now.UTC().Round(0), Cause: why}
}
