package fleet

import (
	"strconv"
	"strings"
)

// The streams of the engine. A bucket of NATS is a stream as well, named KV_ and the
// bucket.
const (
	BoxStream   = "ASL_BOX"     // the mailboxes
	BlobStream  = "ASL_BLOB"    // the files of messages
	EventStream = "ASL_EVT"     // what turns have come to
	WhoStream   = "KV_asl-who"  // the registry
	MeshStream  = "KV_asl-mesh" // HALT
)

// haltSubject holds the HALT of the mesh.
const haltSubject = "$KV.asl-mesh.halt"

// boxSubject is the mailbox of an agent, the part that one sender may fill.
func boxSubject(to, from string) string { return "asl.box." + to + "." + from }

// blobSubject is one chunk of a file that an agent sent to another.
func blobSubject(to, from, sum string, chunk int) string {
	return "asl.blob." + to + "." + from + "." + sum + "." + strconv.Itoa(chunk)
}

// wakeupSubject rings an agent. Nothing keeps what is published there.
func wakeupSubject(handle string) string { return "cmd.agent." + handle + ".wakeup" }

// taskSubject takes what the turns of an agent have come to.
func taskSubject(handle string) string { return "evt.agent." + handle + ".task" }

// whoSubject is the registry row of an agent.
func whoSubject(handle string) string { return "$KV.asl-who." + handle }

// lookSubject is the last look of one host of an agent.
func lookSubject(handle, host string) string { return whoSubject(handle) + "." + host }

// inboxPrefix begins the subjects on which an agent is answered. No other agent may
// listen there.
func inboxPrefix(handle string) string { return "_INBOX_" + handle }

// HostToken returns the name of a host as one token of a subject: lower case, with a
// hyphen for each byte that is neither a letter nor a digit, and at most 63 bytes.
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
