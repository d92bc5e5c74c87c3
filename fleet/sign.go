package fleet

import (
	"encoding/base64"

	"github.com/nats-io/nkeys"
)

// The headers of signed messages.
const (
	headerID        = "Asl-Id"
	headerAt        = "Asl-At"
	headerSignature = "Asl-Sig"
)

// A signed text begins with a line that is unique to its kind, and that repeats all values of
// the subject and the headers.
func boxLine(to, from, id, at string) string {
	return "asl1 box " + to + " " + from + " " + id + " " + at + "\n"
}

func whoLine(name, at string) string { return "asl1 who " + name + " " + at + "\n" }

// haltLine is the first line of a signed HALT or GO.
const haltLine = "asl1 halt\n"

func taskLine(handle, at string) string { return "asl1 task " + handle + " " + at + "\n" }

func ringLine(to, from string) string { return "asl1 wakeup " + to + " " + from + "\n" }

// signatureOf signs a line and the body after it.
func signatureOf(pair nkeys.KeyPair, line string, body []byte) (string, error) {
	sig, err := pair.Sign(append([]byte(line), body...))
	if err != nil {
		return "", err
	}
	return base64.RawStdEncoding.EncodeToString(sig), nil
}

// verifies reports whether the key of a user made the signature.
func verifies(public, signature, line string, body []byte) bool {
	sig, err := base64.RawStdEncoding.Strict().DecodeString(signature)
	if err != nil || !ValidPublicKey(public) {
		return false
	}
	pair, err := nkeys.FromPublicKey(public)
	return err == nil && pair.Verify(append([]byte(line), body...), sig) == nil
}
