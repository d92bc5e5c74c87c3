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

// headerExpected names the number of the last message on the subject of a message. The server
// refuses the message if the last one has another number.
const headerExpected = "Nats-Expected-Last-Subject-Sequence"

// A signed text begins with a line that is unique to its kind, and that repeats all values of
// the subject and the headers.
func mailboxLine(to, from, id, at string) string {
	return "asl1 box " + to + " " + from + " " + id + " " + at + "\n"
}

func whoLine(name, at string) string { return "asl1 who " + name + " " + at + "\n" }

// haltLine is the first line of a signed HALT or GO.
const haltLine = "asl1 halt\n"

func taskLine(handle, at string) string { return "asl1 task " + handle + " " + at + "\n" }

func headLine(handle string) string { return "asl1 head " + handle + "\n" }

func wishLine(handle string) string { return "asl1 wish " + handle + "\n" }

func blockLine(handle string, n uint64) string {
	return "asl1 hist " + handle + " " + strconv.FormatUint(n, 10) + "\n"
}

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
	HeadStream    = "KV_asl-head" // the heads and wishes
	HistoryStream = "ASL_HIST"    // the blocks of histories
	FileStream    = "ASL_FILE"    // the files that the heads name
)

// haltSubject holds the HALT of the mesh.
const haltSubject = "$KV.asl-mesh.halt"

// mailboxSubject returns the subject of one sender's part of a mailbox.
func mailboxSubject(to, from string) string { return "asl.box." + to + "." + from }

// blobPrefix returns the prefix of the subjects of a file that an agent sent to another. The
// number of a chunk follows it.
func blobPrefix(to, from, sum string) string { return "asl.blob." + to + "." + from + "." + sum + "." }

// filePrefix is blobPrefix for a file that the head of an agent names.
func filePrefix(handle, sum string) string { return "asl.file." + handle + "." + sum + "." }

// wakeupSubject returns the subject that rings an agent. Its messages are not stored.
func wakeupSubject(handle string) string { return "cmd.agent." + handle + ".wakeup" }

// taskSubject returns the subject for the results of an agent's turns.
func taskSubject(handle string) string { return "evt.agent." + handle + ".task" }

// whoSubject returns the subject of the registry row of an agent.
func whoSubject(handle string) string { return "$KV.asl-who." + handle }

// lookSubject returns the subject of the last look of one host of an agent.
func lookSubject(handle, host string) string { return whoSubject(handle) + "." + host }

// headSubject returns the subject of the head of an agent.
func headSubject(handle string) string { return "$KV.asl-head." + handle }

// wishSubject returns the subject of the wishes of an agent.
func wishSubject(handle string) string { return headSubject(handle) + ".wish" }

// blockSubject returns the subject of one block of an agent's history.
func blockSubject(handle string, n uint64) string {
	return "asl.hist." + handle + "." + strconv.FormatUint(n, 10)
}

// directGet returns the subject of a request for the last message on a subject of a stream.
func directGet(stream, subject string) string { return "$JS.API.DIRECT.GET." + stream + "." + subject }

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
	rights := meshRights(handle)
	rights.Publish = append(rights.Publish, fleetRights(handle)...)
	return rights
}

// fleetRights returns the rights to publish that an agent needs only with [fleet].
func fleetRights(handle string) []string {
	return []string{
		headSubject(handle),
		wishSubject(handle),
		"asl.hist." + handle + ".*",
		"asl.file." + handle + ".>",
		directGet(HeadStream, headSubject(handle)),
		directGet(HeadStream, wishSubject(handle)),
		directGet(HistoryStream, "asl.hist."+handle+".*"),
		directGet(FileStream, "asl.file."+handle+".>"),
	}
}

// meshRights returns the rights that every agent needs.
func meshRights(handle string) Permissions {
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
			directGet(WhoStream, ">"),
			directGet(MeshStream, ">"),
			directGet(BlobStream, "asl.blob."+handle+".>"),
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
		{subject: headSubject(">")},
		{subject: "asl.hist.>"},
		{subject: "asl.file.>"},
		{subject: directGet(HeadStream, headSubject(">"))},
		{subject: directGet(HistoryStream, "asl.hist.>")},
		{subject: directGet(FileStream, "asl.file.>")},
		{subject: api + "CONSUMER.MSG.NEXT." + MailboxStream + ".*", many: true},
		{subject: api + "CONSUMER.INFO." + MailboxStream + ".*"},
		{subject: "$JS.ACK." + MailboxStream + ".>"},

		// No agent has a right to this one. Without it nats-server adds all of $JS.API to
		// the account of the agents, and answers there that JetStream is off.
		{subject: api + "INFO"},
	}
}
