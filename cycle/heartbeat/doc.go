// Package heartbeat asks an address after each poll, so that a monitor notices when a
// machine is dead (docs/design.md, "The heartbeat"). The address is a secret: no error
// of this package repeats it. The package keeps nothing: when it asks, and what counts
// as a failure, is decided by its caller.
package heartbeat
