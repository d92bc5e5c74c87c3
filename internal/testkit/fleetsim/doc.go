// Package fleetsim tries to break the promises of an agent that lives on several hosts
// (docs/fleet.md, docs/protocol.md "The seat").
//
// A [Story] is generated from a seed. It has two or three hosts, and lists the faults that strike
// them: a cut network, lost and late answers, stale reads, a process that is killed or stopped
// between two steps, a machine that sleeps or loses power, clocks that jump, a copied or an old
// directory. [Play] plays it with the real cycle.Agent and the real seat.Seat of each host, in real
// directories, against the servers in memory of package memfleet. Then the faults end, and the
// checker compares the messages that went in with the effects that came out.
//
// Play must run in a bubble of testing/synctest: all waiting is in virtual time. A process is a
// goroutine, or several. It can be stopped or killed at its points: each step of its store, each
// call of a server and its answer, each look at the boot clock.
package fleetsim
