// Package natsmesh carries the messages of agents over NATS, between machines (docs/protocol.md,
// "The mesh over NATS"). Its Client keeps the promises of mesh.Client: a message counts as sent
// once the server has it on disk, and an unacknowledged message is delivered again. A signature
// with the sender's key proves the sender of a message.
package natsmesh
