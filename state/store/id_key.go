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

// IDKeyFile holds the key that makes the Message-IDs of our mail (docs/protocol.md, "Our mail"). It
// is a secret file.
const IDKeyFile = "message-id.key"

// IDKey is the permanent key of an agent.
type IDKey struct {
	Secret []byte    `json:"secret"` // secretLength random bytes
	Made   time.Time `json:"made"`
	Cause  KeyCause  `json:"cause"`
}

// KeyCause is the reason a key was made.
type KeyCause string

// Values of KeyCause.
const (
	KeyOfNew   KeyCause = "first poll" // the directory was new
	KeyLost    KeyCause = "lost"       // the previous key was missing
	KeyDamaged KeyCause = "damaged"    // the previous key could not be read
)

const (
	secretLength = 32      // bytes
	maxKeyFile   = 4 << 10 // bytes
)

// ReadIDKey returns the key. It takes no lock and changes no file. The error wraps fs.ErrNotExist
// if the agent has no key yet. After any other error the key is unusable.
func (st *Store) ReadIDKey() (IDKey, error) {
	path := st.path(IDKeyFile)
	data, err := osfile.ReadFile(path, maxKeyFile)
	if err != nil {
		return IDKey{}, err
	}
	var k IDKey
	// The decoder's error could quote the secret.
	if json.Unmarshal(data, &k) != nil || len(k.Secret) != secretLength || k.Made.IsZero() {
		return IDKey{}, fmt.Errorf("%s is damaged", path)
	}
	return k, nil
}

// IDKey returns the key, and creates it durably if it is missing. IDKey sets an unreadable key
// aside and replaces it; answers to earlier mails then need the callsign or the agent's address.
// Commit makes sure that the key exists, so within a change of Commit, IDKey takes no lock.
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

// PeekIDKey returns the key that IDKey would return. It changes no file, so a new key is discarded.
func (st *Store) PeekIDKey(now time.Time) (IDKey, error) {
	k, err := st.ReadIDKey()
	if err == nil {
		return k, nil
	}
	s, loadErr := st.Read()
	return newIDKey(keyCause(s, err), now), loadErr
}

// ensureIDKey returns the key, and creates it if it is missing. The state s tells whether it was
// lost. The caller holds state.lock.
func (st *Store) ensureIDKey(s state.State, now time.Time) (IDKey, error) {
	k, err := st.ReadIDKey()
	if err == nil {
		return k, nil
	}
	k = newIDKey(keyCause(s, err), now)
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
		return IDKey{}, fmt.Errorf("save %s: %w", IDKeyFile, err)
	}
	if k.Cause == KeyLost || k.Cause == KeyDamaged {
		_ = st.Log(now, fmt.Sprintf("%s was %s and has been replaced: answers to earlier mails need the callsign or the agent's address", IDKeyFile, k.Cause))
	}
	return k, nil
}

// keyCause returns why s needs a key, given the error of reading the old one.
func keyCause(s state.State, err error) KeyCause {
	switch {
	case !errors.Is(err, fs.ErrNotExist):
		return KeyDamaged
	case s.Serial == 0:
		return KeyOfNew
	default:
		return KeyLost
	}
}

func newIDKey(cause KeyCause, now time.Time) IDKey {
	secret := make([]byte, secretLength)
	rand.Read(secret)
	return IDKey{Secret: secret, Made: now.UTC().Round(0), Cause: cause}
}
