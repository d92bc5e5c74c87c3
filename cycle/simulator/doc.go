// Package simulator tries to break every promise of DESIGN 13.
//
// A [Story] is made from a seed: what people, peers, robots and forgers do to
// one agent, how time passes, and which [Fault] strikes each process of the
// agent at which of its points. [Play] lets it happen to the real cycle, with
// the real state, mail, mesh and cron, on servers of its own and a clock that
// only the story moves. Then the faults end, the world calms down, and the
// checker holds what went in against what came out. It reads what any outsider
// could read: the mailbox, the mails that were sent, the mesh, the crontab,
// the prompts that the agent was given, the history as data. It knows nothing
// of the code.
//
//	seed ─▶ generate.go ─▶ Story ─▶ play.go ─▶ calm.go ─▶ check*.go ─▶ Outcome
//	                         ▲          │                                 │
//	                         │          └─ world.go: process.go, wire.go, │
//	                         │             disk.go, agent.go, people.go   │
//	                         └───────────── shrink.go ◀───────────────────┘
//
// A process of the agent is a goroutine with a cycle.Agent of its own. It has a
// point before every write, fsync, rename, link, removal and append, before
// every network command and its answer, and around the agent's work. At a point
// it can die (its goroutine ends, and its locks with it, as the kernel would
// have it), the machine can lose power (what was not fsynced is lost, too), the
// step can fail, or other processes can run meanwhile.
package simulator
