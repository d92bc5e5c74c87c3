// Package state is the machine of agentStateLoop and the store that keeps it.
//
// The machine is one pure function, [Step]: state, events, policy and time in,
// state out. It does no I/O and reads no clock.
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
// The cycle that drives it lives in package cycle (DESIGN 3):
//
//	load ─▶ observe mail, mesh, nudges ─▶ commit: Step, write, fsync, rename
//	                                         │
//	             ┌───────────────────────────┘
//	             ▼
//	project: crontab line, \Seen, mesh acks ─▶ perform: the outbox ─▶ look once more ─▶ turns
//	                                              │
//	                                              └─ each result is an Event for the next commit
//
// The [Store] keeps State in state.json under flock: written whole, fsynced,
// renamed, the last good one beside it, every change told in the history.
// Whatever changes the world outside is a row of the outbox before it happens.
package state
