// Package mail is the operator's mailbox: IMAP in, SMTP out, MIME, the gate,
// and the proof of who sent a mail (DESIGN 7).
//
// Reading: a [Box] is opened, its [Session.Look] finds what is new for this
// agent and hands each mail's raw bytes to the caller, who commits them and
// only then calls [Session.MarkSeen].
//
//	Open     TCP, TLS, then login and SELECT in one flight
//	Look     nothing new: no further round trip
//	         else headers, the gate, and the bodies of our own mail
//	(commit) the caller makes cursor and messages durable, together
//	MarkSeen \Seen, for our own mail only
//	Close    LOGOUT, not awaited
//
// Sending: a [Draft] is rendered once to exact bytes by [Render]; a [Sender]
// sends these bytes and tells what became of them: accepted, refused for now
// or for good, or unknown.
//
// No call outlasts its context or Server.Timeout for a network phase, and no
// error holds a secret.
package mail
