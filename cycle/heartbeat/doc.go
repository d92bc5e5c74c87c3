// Package heartbeat requests an address after each poll, so that a monitor notices a dead
// machine (docs/protocol.md, "The heartbeat"). The address is a secret: the errors of this package
// never contain it. The package keeps no state. Its caller decides when to send a request, and
// whether it reports a failure.
package heartbeat
