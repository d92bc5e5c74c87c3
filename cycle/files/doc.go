// Package files handles the files that come with messages and go with answers (docs/protocol.md,
// "Files between agents"): their names, their copies in the store with sums, and the lists of
// them in a prompt.
//
// Incoming files are fetched once, before the commit that accepts their message; Outgoing files
// are copied before the commit that names them, and leave the outbox with their row.
package files
