// Package hook calls the programs and addresses that hear of events
// (docs/design.md, "Hooks"). A call has a time limit, and what comes back is bounded.
// The package keeps nothing: what is called, and when again, is decided by its caller.
package hook
