// Package turn runs the agent on one message. It prepares the attempt's folder, starts the
// agent's program, follows its output, ends it at a deadline or on request, and returns one
// Result (docs/design.md, "Turns").
//
// Each attempt has one folder, turns/<turn_id>/<epoch>/ (docs/protocol.md, "Files of one agent"):
//
//	context/       files for the agent to read: the message, attachments, history
//	output/        files that the agent leaves
//	prompt         the agent's standard input
//	events.jsonl   the agent's start, events and end
//	live.json      the agent's current state, for the status command
//	answer.txt     the answer, if it is too long for memory
//	alive          locked while the agent or a descendant lives
//	process        the record of the agent's process
//
// # The lock
//
// A lock held only by the runner would end with the runner. A second turn could then start next
// to an orphaned agent (docs/design.md, "Locks"). So the runner locks alive and passes the
// descriptor down:
//
//	runner    open alive for reading, flock ──┐
//	          start Self __attempt             │ descriptor inherited
//	          close its own copy               ▼
//	child                                      ready, wait
//	runner    write pid, start time and boot id into process, fsync, release
//	child                                      exec the agent ────▶ agent ────▶ its children
//
// The lock is held without a gap from before the child exists until the last process with the
// descriptor exits, even if the runner dies. Probe reports whether it is held. End ends the
// recorded process group if the kernel shows that the group belongs to the attempt.
//
// # Where to begin reading
//
// run.go runs an attempt from start to Result. supervisor.go follows the agent and applies the
// deadlines, with output.go (its output) and process.go (how it ends). outcome.go makes the
// Result. agent.go, claude.go, codex.go, gemini.go and acp.go hold the differences
// between the agents.
package turn
