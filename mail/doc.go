// Package mail reads the operator's mailbox over IMAP and sends mail over SMTP (docs/design.md,
// "Mail"). Package trust decides which mail to accept, package message parses the bytes.
//
// A [Mailbox] is opened for reading. [Session.Scan] finds the new mail for this agent and hands
// the raw bytes of each mail to the caller. The caller commits them, and only then calls
// [Session.Mark].
//
//	Open      TCP, TLS, then login, SELECT and the headers that may be new in one flight
//	Scan      needs no further round trip if nothing is new; else it fetches
//	          headers, asks the gate, and fetches the bodies of our own mail
//	(commit)  the caller makes the cursor and the messages durable, together
//	Mark      sets \Seen and \Answered, for our own mail only, and does not wait for
//	          the answer
//	Close     sends LOGOUT and does not wait for the answer
//
// A [Sender] sends the exact bytes of a rendered message.Draft. Its error reports the fate of
// the mail: rejected for now, rejected for good, or unknown.
//
// No call outlasts its context, or Server.Timeout for each network phase. No
// error holds a secret.
package mail
