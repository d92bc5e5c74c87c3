// Package hook calls the programs and addresses that receive events (docs/design.md, "Hooks"). A
// call has a time limit, and its output is limited too. The package keeps no state: its caller
// decides which hook to call, and when to try again.
package hook
