package archive

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"filippo.io/age"
)

// Recipients returns the recipients of secrets from their public keys, such as "age1…".
func Recipients(keys []string) ([]age.Recipient, error) {
	var all []age.Recipient
	for _, key := range keys {
		// The library's error would quote a private key that was given by mistake.
		if strings.HasPrefix(strings.ToUpper(key), "AGE-SECRET-KEY-") {
			return nil, errors.New("a recipient is the public key, which begins with age1; this is a private key")
		}
		found, err := age.ParseRecipients(strings.NewReader(key))
		if err != nil || len(found) != 1 {
			return nil, fmt.Errorf("%q is not a public key of age, which begins with age1", key)
		}
		all = append(all, found...)
	}
	return all, nil
}

// Identities returns the private keys in the text of an identity file of age-keygen.
func Identities(text string) ([]age.Identity, error) {
	found, err := age.ParseIdentities(strings.NewReader(text))
	if err != nil {
		return nil, errors.New("it is not an identity file of age-keygen")
	}
	return found, nil
}

// Seal encrypts files, by name, to the recipients. Files that OpenSecrets would not read are an error.
func Seal(files map[string][]byte, recipients []age.Recipient) ([]byte, error) {
	text, err := json.Marshal(files)
	if err != nil {
		return nil, err
	}
	if len(text) > maxSecrets {
		return nil, fmt.Errorf("encrypt the secrets: they have %d bytes in base64, and a restore reads at most %d: name smaller files as secrets", len(text), maxSecrets)
	}
	var sealed bytes.Buffer
	w, err := age.Encrypt(&sealed, recipients...)
	if err != nil {
		return nil, fmt.Errorf("encrypt the secrets: %w", err)
	}
	if _, err := w.Write(text); err != nil {
		return nil, fmt.Errorf("encrypt the secrets: %w", err)
	}
	if err := w.Close(); err != nil {
		return nil, fmt.Errorf("encrypt the secrets: %w", err)
	}
	return sealed.Bytes(), nil
}

// ByPassphrase reports whether the secrets of an archive that was unpacked to dir are encrypted with a
// passphrase.
func ByPassphrase(dir string) bool {
	f, err := os.Open(filepath.Join(dir, SecretsName))
	if err != nil {
		return false
	}
	defer f.Close()
	head := make([]byte, maxStanza)
	n, _ := io.ReadFull(f, head)
	return bytes.Contains(head[:n], []byte("\n-> scrypt "))
}

// maxStanza is how many bytes of the secrets are searched for the kind of their key. A passphrase is
// always the first key, and the only one.
const maxStanza = 64

// ErrWrongKey reports that the identities do not decrypt the secrets.
var ErrWrongKey = errors.New("the identity or the passphrase does not decrypt the secrets")

// OpenSecrets decrypts the secrets of an archive that was unpacked to dir.
func OpenSecrets(dir string, identities []age.Identity) (map[string][]byte, error) {
	f, err := os.Open(filepath.Join(dir, SecretsName))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	r, err := age.Decrypt(f, identities...)
	if err != nil {
		return nil, ErrWrongKey
	}
	text, err := io.ReadAll(io.LimitReader(r, maxSecrets))
	if err != nil {
		return nil, fmt.Errorf("%w: %s: %v", ErrNotWhole, SecretsName, err)
	}
	var files map[string][]byte
	if err := json.Unmarshal(text, &files); err != nil {
		return nil, fmt.Errorf("%w: %s: %v", ErrNotWhole, SecretsName, err)
	}
	for name := range files {
		if !ValidName(name) {
			return nil, fmt.Errorf("the archive has a file outside the folders of an agent: %q", name)
		}
	}
	return files, nil
}
