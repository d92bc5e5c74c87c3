// Package turn runs the agent on one message. It prepares the folder of an
// attempt, starts the agent's program, follows what the program prints, ends it
// when it must be ended, and returns one Result (docs/design.md, "Turns").
//
// One attempt is one folder, turns/<turn_id>/<epoch>/
// (docs/design.md, "Files of one agent"):
//
//	context/       what the agent may read: the message, attachments, history
//	output/        what the agent leaves
//	prompt         the agent's standard input
//	events.jsonl   how it was started, what it did, how it ended
//	live.json      what it is doing now, for the status command
//	answer.txt     the answer, if it is too long for memory
//	alive          locked as long as the agent or a descendant lives
//	process        which process the agent is
//
// # The lock
//
// A lock that only the runner held would end with the runner. A second turn could
// then start next to an orphaned agent (docs/design.md, "Locks"). So the runner
// takes the lock on alive and hands the descriptor down:
//
//	runner    open alive for reading, flock ──┐
//	          start Self __attempt             │ descriptor inherited
//	          close its own copy               ▼
//	child                                      ready, wait
//	runner    write pid, start time and boot id into process, fsync, release
//	child                                      exec the agent ────▶ agent ────▶ its children
//
// The lock is held without a gap from before the child exists until the last
// process with the descriptor is gone, whatever happens to the runner. Probe
// reports whether it is held. End ends the recorded process group, if the kernel
// shows that it is the attempt's.
//
// # Where to begin reading
//
// run.go runs an attempt from start to Result. supervisor.go follows the agent,
// with output.go (what it printed), deadlines.go (when to end it) and process.go
// (how it ends). outcome.go makes the Result. agent.go and the files claude.go,
// codex.go, gemini.go and api.go hold what differs between the agents.
package turn
