// Package turn runs the agent on one message: it prepares the boxes of an
// attempt, starts the agent's program, follows what it prints, ends it when it
// must be ended, and says in one Result what came of it (DESIGN 6).
//
// One attempt is one folder, turns/<turn_id>/<epoch>/ (DESIGN 4):
//
//	context/       what the agent may read: the message, attachments, history
//	output/        what the agent leaves
//	prompt         what the agent got on its standard input
//	events.jsonl   how it was started, what it did, how it ended
//	live.json      what it is doing now, for `status` of another process
//	answer.txt     the answer, if it is too long for memory
//	alive          locked as long as the agent or a descendant lives
//
// # The lock
//
// A lock that the runner held would die with the runner and let a second turn
// start beside an orphan (DESIGN 3). So the runner takes the lock on alive and
// hands the descriptor down:
//
//	runner    open alive, flock ──┐
//	          start Self __attempt │ descriptor inherited
//	          close its own copy   ▼
//	child     write pid, start time and boot id into alive, fsync
//	          exec the agent ────▶ agent ────▶ its children
//
// The lock is held without a gap from before the child exists until the last
// process with the descriptor is gone, whatever becomes of the runner. Probe
// asks whether it is held, End ends what holds it.
package turn
