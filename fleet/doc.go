// Package fleet speaks with the engine: NATS servers that hold what agents on many
// machines share (docs/design.md, "The mesh over NATS"). It knows subjects, keys,
// signatures and rights, and carries bytes; what these say is the business of package
// mesh/natsmesh.
//
// It uses the core connection of nats.go alone. The calls of JetStream that an agent
// makes are requests to subjects, to which its user has a right each.
package fleet
