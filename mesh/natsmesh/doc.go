// Package natsmesh carries the messages of agents over NATS, between machines
// (docs/design.md, "The mesh over NATS"). Its Client keeps the promises of mesh.Client:
// what is sent is taken once the engine has it on disk, and what is not acknowledged
// comes again. Who sent a message is proved by a signature of the sender's key.
package natsmesh
