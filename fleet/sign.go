package fleet

import (
	"encoding/base64"
	"errors"
	"strconv"
	"strings"

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
func mailboxLine(to, from, id, at string) string {
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

var errSeed = errors.New("not the seed of a user's nkey, which begins with SU")

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

// The streams of the servers. A NATS bucket is also a stream. Its name is KV_ and the name of
// the bucket.
const (
	MailboxStream = "ASL_BOX"     // the mailboxes
	BlobStream    = "ASL_BLOB"    // the files of messages
	EventStream   = "ASL_EVT"     // the results of turns
	WhoStream     = "KV_asl-who"  // the registry
	MeshStream    = "KV_asl-mesh" // HALT
)

// haltSubject holds the HALT of the mesh.
const haltSubject = "$KV.asl-mesh.halt"

// mailboxSubject returns the subject of one sender's part of a mailbox.
func mailboxSubject(to, from string) string { return "asl.box." + to + "." + from }

// blobSubject returns the subject of one chunk of a file that an agent sent to another.
func blobSubject(to, from, sum string, chunk int) string {
	return "asl.blob." + to + "." + from + "." + sum + "." + strconv.Itoa(chunk)
}

// wakeupSubject returns the subject that rings an agent. Its messages are not stored.
func wakeupSubject(handle string) string { return "cmd.agent." + handle + ".wakeup" }

// taskSubject returns the subject for the results of an agent's turns.
func taskSubject(handle string) string { return "evt.agent." + handle + ".task" }

// whoSubject returns the subject of the registry row of an agent.
func whoSubject(handle string) string { return "$KV.asl-who." + handle }

// lookSubject returns the subject of the last look of one host of an agent.
func lookSubject(handle, host string) string { return whoSubject(handle) + "." + host }

// inboxPrefix returns the prefix of the subjects for an agent's answers. No other agent may
// listen there.
func inboxPrefix(handle string) string { return "_INBOX_" + handle }

// HostToken returns the name of a host as one token of a subject: lower case, with a hyphen for
// each character that is not an ASCII letter or digit, and at most 63 bytes.
func HostToken(host string) string {
	const maxToken = 63
	token := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9', r == '-':
			return r
		case r >= 'A' && r <= 'Z':
			return r + 'a' - 'A'
		}
		return '-'
	}, host)
	if token == "" {
		return "host"
	}
	return token[:min(len(token), maxToken)]
}

// Permissions are the only subjects that a user may use.
type Permissions struct {
	Publish, Subscribe []string
}

// Rights returns the rights of an agent's user: to read its own messages, and to write where it
// is the sender. A signature must still prove the sender, because the server has rights of its
// own: it publishes an answer to any subject that a request names as its reply.
//
// An agent cannot make, delete or list streams and consumers. It reads only by subject, because
// an API request with the subject in its body could read messages of others.
func Rights(handle string) Permissions {
	direct := func(stream, subjects string) string { return "$JS.API.DIRECT.GET." + stream + "." + subjects }
	return Permissions{
		Publish: []string{
			wakeupSubject("*"),
			taskSubject(handle),
			mailboxSubject("*", handle),
			"asl.blob.*." + handle + ".>", // the files that it sends
			"asl.blob." + handle + ".>",   // the files that it has read, to remove them
			whoSubject(handle),
			lookSubject(handle, "*"),
			haltSubject,
			"$JS.API.DIRECT.GET." + WhoStream, // the registry is open to all: all rows in one request
			direct(WhoStream, ">"),
			direct(MeshStream, ">"),
			direct(BlobStream, "asl.blob."+handle+".>"),
			"$JS.API.CONSUMER.MSG.NEXT." + MailboxStream + "." + handle,
			"$JS.API.CONSUMER.INFO." + MailboxStream + "." + handle,
			"$JS.ACK." + MailboxStream + "." + handle + ".>",
		},
		Subscribe: []string{
			wakeupSubject(handle),
			haltSubject,
			inboxPrefix(handle) + ".>",
		},
	}
}

// service is a subject that the account of the agents imports from the account of the streams.
type service struct {
	subject string
	many    bool // a request may have more than one answer
}

// services returns all services that agents can reach. In the account of the streams, the
// server obeys its own answers. There, a request could name the subject that deletes a stream
// as its reply. An answer to an agent stays in the account of the agents, where only these
// subjects lead to the streams.
func services() []service {
	const api = "$JS.API."
	return []service{
		{subject: taskSubject("*")},
		{subject: mailboxSubject("*", "*")},
		{subject: "asl.blob.>"},
		{subject: whoSubject(">")},
		{subject: haltSubject},
		{subject: api + "DIRECT.GET." + WhoStream, many: true},
		{subject: api + "DIRECT.GET." + WhoStream + ".>"},
		{subject: api + "DIRECT.GET." + MeshStream + ".>"},
		{subject: api + "DIRECT.GET." + BlobStream + ".>"},
		{subject: api + "CONSUMER.MSG.NEXT." + MailboxStream + ".*", many: true},
		{subject: api + "CONSUMER.INFO." + MailboxStream + ".*"},
		{subject: "$JS.ACK." + MailboxStream + ".>"},

		// No agent has a right to this one. Without it nats-server adds all of $JS.API to
		// the account of the agents, and answers there that JetStream is off.
		{subject: api + "INFO"},
	}
}
