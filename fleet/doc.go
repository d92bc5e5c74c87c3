// Package fleet talks to the NATS servers that agents on many machines share (docs/protocol.md,
// "The mesh over NATS"). It knows subjects, keys, signatures and rights, and carries bytes.
// Package mesh/natsmesh interprets the bytes.
//
// It uses only the core connection of nats.go. An agent calls JetStream by requests to
// subjects. Its user has a right to each of them.
package fleet
