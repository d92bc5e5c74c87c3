// Package commands is the face of agentStateLoop: one file per subcommand with
// its flags, wiring and printing, and the loading of agent.toml. It decides
// nothing; what happens is decided in package cycle (DESIGN 2, 11, 12).
//
//	arguments ─▶ arrange ─▶ urfave/cli ─▶ a subcommand ─▶ cycle.Agent's verb ─▶ text or JSON
//	                                          │
//	                                     agent.toml
package commands
