package fleet

import (
	"strconv"
	"strings"
)

// The streams of the servers. A NATS bucket is also a stream. Its name is KV_ and the name of
// the bucket.
const (
	BoxStream   = "ASL_BOX"     // the mailboxes
	BlobStream  = "ASL_BLOB"    // the files of messages
	EventStream = "ASL_EVT"     // the results of turns
	WhoStream   = "KV_asl-who"  // the registry
	MeshStream  = "KV_asl-mesh" // HALT
)

// haltSubject holds the HALT of the mesh.
const haltSubject = "$KV.asl-mesh.halt"

// boxSubject returns the subject of one sender's part of a mailbox.
func boxSubject(to, from string) string { return "asl.box." + to + "." + from }

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
