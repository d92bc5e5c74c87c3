// Package seat lets one agent live on several hosts, of which one acts (docs/fleet.md).
//
// The servers keep the head of the agent: its state, signed, in one message. A commit of the state
// offers the next head as a compare-and-set, before anything is written here; a refused head
// has no effect. So of two hosts at most one can go on. The order is: files before the head
// that names them, history before the head without it, head before state.json, state.json before
// any effect.
//
// The seat is the right to act. A term in the head tells who has it, and a lease how long the
// holder may act after it sent its newest accepted head. Each host measures it on the boot clock
// of its machine ([agentstateloop/internal/boot]), and never compares it with the clock of another
// host. rules.go has these rules, commit.go the commit, look.go the first act of a poll.
package seat
