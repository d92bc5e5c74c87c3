// Package commands is the face of agentStateLoop. Each file noun.go or
// noun_verb.go is one subcommand: its help, its flags, and what it prints. What
// happens is decided in package cycle.
//
//	arguments ─▶ arrange ─▶ urfave/cli ─▶ a subcommand ─▶ a method of cycle.Agent ─▶ text or JSON
//	                                          │
//	                                     config.Loader ◀─ agent.toml
//
// A file noun_flag.go has what one flag of a subcommand does, such as
// status_watch. The files that belong to all of them are app and args (the
// command line), run (one run of the program), help, errors (exit codes and
// hints), flags, agents (which agents a command line names), peer_turn (what the
// turns of other agents may call), inside (what an agent does in its turn, by
// itself or through its runner), input (texts), loopback (HTTP), poll_after (the
// cycle after something was recorded), within_memory (the limit of a poll) and
// status_text (a status in words). react is the hidden subcommand behind
// runner = "api".
package commands
