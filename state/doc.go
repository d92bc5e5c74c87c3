// Package state is the machine of agentStateLoop, as one pure function: [Step]
// takes state, events, policy and time, and returns the new state. It does no
// I/O and reads no clock. Package state/store keeps the state on disk.
//
//	        operator message, mesh message, nudge
//	      ┌──────────────── ack ────────────────┐
//	      │                                     ▼
//	┌───────────┐   5 min without one     ┌───────────┐
//	│   IDLE    │◀────── going quiet ─────│   PREP    │
//	│ every 30m │                         │ every 1m  │
//	└───────────┘                         └───────────┘
//	      ▲                                     │
//	      │                                     │ operator message
//	      │   10 min without one          ┌─────▼─────┐
//	      └──────── going quiet ──────────│  ACTIVE   │──┐ operator message:
//	                                      │ every 1m  │◀─┘ timer restarts
//	                                      └───────────┘
//
// Package cycle drives it (docs/design.md, "One cycle"):
//
//	load ─▶ observe mail, mesh, nudges ─▶ commit: Step, write, fsync, rename
//	                                         │
//	             ┌───────────────────────────┘
//	             ▼
//	project: crontab line, \Seen, mesh acks ─▶ perform: the outbox ─▶ scan once more ─▶ turns
//	                                              │
//	                                              └─ each result is an Event for the next commit
//
// A commit writes state.json whole under flock, fsyncs and renames it, keeps the
// last good one as state.json.prev, and records every change in the history.
// Every change to the world outside is a row of the outbox before it happens.
package state
