// Package commands is the command line of agentStateLoop. Each file noun.go or noun_verb.go is
// one subcommand: its help, its flags and its output. Package cycle makes the decisions.
//
//	arguments ─▶ arrange ─▶ urfave/cli ─▶ a subcommand ─▶ a method of cycle.Agent ─▶ text or JSON
//	                                          │
//	                                     config.Loader ◀─ agent.toml
//
// A file noun_flag.go implements one flag of a subcommand, such as status_watch. The shared
// files are app and args (the command line), run (one run of the program), help, errors (exit
// codes and hints), flags, agents (the agents that a command line names), peer_turn (the
// commands allowed in the turns of other agents), inside (the actions of an agent in its turn,
// by itself or through its runner), input (texts), loopback (HTTP), poll_after (the cycle after
// a record), within_memory (the memory limit of a poll) and status_text (a status in words).
// react is the hidden subcommand behind runner = "api".
package commands
