package fleet

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
)

// errSealed means that a text was not sealed with this key, or was changed.
var errSealed = errors.New("not encrypted with the key of this agent")

// Seal encrypts a secret with the key of the agent (AES-256-GCM), so that it can be stored in the
// servers for the agent's other hosts.
func (c *Conn) Seal(ctx context.Context, plain []byte) (string, error) {
	box, err := c.box(ctx)
	if err != nil {
		return "", err
	}
	nonce := make([]byte, box.NonceSize())
	rand.Read(nonce)
	return base64.RawStdEncoding.EncodeToString(box.Seal(nonce, nonce, plain, nil)), nil
}

// Unseal decrypts what Seal returned.
func (c *Conn) Unseal(ctx context.Context, sealed string) ([]byte, error) {
	box, err := c.box(ctx)
	if err != nil {
		return nil, err
	}
	data, err := base64.RawStdEncoding.DecodeString(sealed)
	if err != nil || len(data) < box.NonceSize() {
		return nil, errSealed
	}
	plain, err := box.Open(nil, data[:box.NonceSize()], data[box.NonceSize():], nil)
	if err != nil {
		return nil, errSealed
	}
	return plain, nil
}

// box returns the cipher of the agent's key.
func (c *Conn) box(ctx context.Context) (cipher.AEAD, error) {
	pair, err := c.key(ctx)
	if err != nil {
		return nil, err
	}
	seed, err := pair.Seed()
	if err != nil {
		return nil, errors.New("the key cannot encrypt")
	}
	key := sha256.Sum256(append([]byte("agentstateloop seal\n"), seed...))
	block, err := aes.NewCipher(key[:])
	if err != nil {
		return nil, err
	}
	return cipher.NewGCM(block)
}
