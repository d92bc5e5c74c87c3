// Package simulator tries to break every promise in docs/design.md, "Promises".
//
// A [Story] is generated from a seed. It says what people, peers, robots and
// forgers do to one agent, how time passes, and which [Fault] strikes which
// process of the agent at which point. [Play] plays the story with the real
// cycle, state, mail, mesh and cron, on its own servers and with a clock that
// only the story moves. Then the faults end and the world calms down. Finally
// the checker compares what went in with what came out. It reads only what an
// outsider can read: the mailbox, the sent mails, the mesh, the crontab, the
// prompts, and the history as JSON. It shares no types with the program.
//
//	seed ─▶ generate.go ─▶ Story ─▶ play.go ─▶ calm.go ─▶ check*.go ─▶ Outcome
//	                         ▲          │                                 │
//	                         │          └─ world.go: process.go,          │
//	                         │             network.go, disk.go, agent.go, │
//	                         │             people.go, crontab.go          │
//	                         └───────────── shrink.go ◀───────────────────┘
//
// The mesh of a story is over HTTP or over NATS; the seed says which. Over NATS the program
// speaks with an engine in memory, through nats_link.go.
//
// A process of the agent is a goroutine with its own cycle.Agent. It reaches a
// point before every write, fsync, rename, link, removal and append, before
// every network command and its answer, and around the agent's work. At a point
// the process can be killed, which ends its goroutine and releases its locks.
// The machine can lose power, and with it everything that was not fsynced. The
// step can fail. Other processes can run meanwhile.
package simulator
