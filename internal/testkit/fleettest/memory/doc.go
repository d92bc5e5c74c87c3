// Package memory is an engine in memory: it speaks the protocol of NATS with what package
// fleet uses of JetStream, by a clock that its owner sets. TestConformance holds it to the
// real nats-server.
package memory
