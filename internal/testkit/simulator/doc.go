// Package simulator tries to break every promise in docs/design.md, "Promises".
//
// A [Story] is generated from a seed. It says how people, peers, robots and forgers write to one
// agent, how time passes, and which [Fault] strikes which process of the agent at which point.
// [Play] plays the story with the real cycle, state, mail, mesh and cron, on its own servers and
// with a clock that only the story moves. Then the faults end and the world calms down. Finally the
// checker compares the messages that went in with the effects that came out. It reads the mailbox,
// the sent mails, the mesh, the crontab, the prompts, the history and the state. It uses the types
// of package state and calls none of its rules.
//
//	seed ─▶ generate.go ─▶ Story ─▶ play.go ─▶ calm.go ─▶ check*.go ─▶ Outcome
//	                         ▲          │                                 │
//	                         │          └─ world.go: process.go,          │
//	                         │             network.go, disk.go, agent.go, │
//	                         │             people.go, crontab.go          │
//	                         └───────────── Shrink ◀──────────────────────┘
//
// In the stories of [MakeRollbacks] the state directory is replaced by an earlier one, as a restore
// does. Then the history and the state forget what happened, and check_rollback.go compares only what
// outsiders saw.
//
// The mesh of a story is over HTTP, or has the promises of one over NATS; the seed decides. Over
// NATS the agent has a carrier in memory, and each call of it is a point.
//
// A process of the agent is a goroutine with its own cycle.Agent. It reaches a point before every
// write, fsync, rename, link, removal and append, before every network command and its answer, and
// around the agent's work. At a point the process can be killed, which ends its goroutine and
// releases its locks. The machine can lose power, and with it everything that was not fsynced. The
// step can fail. Other processes can run meanwhile.
package simulator
