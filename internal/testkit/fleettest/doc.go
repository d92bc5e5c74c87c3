// Package fleettest starts the real nats-server for tests: one, or three that are a
// cluster, with the configuration that fleet plan prints.
package fleettest
