// Package commands is the command line of agentStateLoop. A command has a constructor with its
// help, an options struct that its flags set, and a function for its work and its output. Package
// cycle makes the decisions, and package present writes the longer texts.
//
//	arguments ─▶ arrange ─▶ urfave/cli ─▶ action ─▶ a method of cycle.Agent ─▶ text or JSON
//	                                        │
//	                                   config.Loader ◀─ agent.toml
//
// A file has one command, or the commands of one subject; noun_part.go is a part of a larger
// command. The shared files are app and args (the command line), run (one run of the program),
// action (one call of a command), flags and input (its flags and texts), agents (the agents that a
// command line names), peer_turn (the commands allowed in the turns of other agents), inside (the
// actions of an agent in its turn, by itself or through its runner), poll_after (the cycle after a
// record, and the memory limit of a poll), errors (exit codes, hints and error documents), help,
// completion and loopback (HTTP). react has the hidden subcommands behind runner = "api" and "acp".
package commands
