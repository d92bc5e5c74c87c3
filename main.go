// Command agentstateloop lets a command-line AI agent sleep in cron and wake
// for its operator.
package main

import (
	"context"
	_ "embed"
	"os"
	"os/signal"
	"syscall"

	"agentstateloop/commands"
)

// A release sets these with -X (.goreleaser.yaml). They are "" in other builds.
var version, commit, date string

//go:embed agent.toml.example
var example string

func main() { os.Exit(run()) }

func run() int {
	// Before any signal is caught: a process that becomes the agent must die of
	// TERM.
	if code, ok := commands.Become(os.Args, os.Stderr); ok {
		return code
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	// The second signal ends us at once. A crash loses nothing.
	context.AfterFunc(ctx, stop)
	build := commands.Build{Version: version, Commit: commit, Date: date, Example: example}
	return commands.Run(ctx, build, os.Args, os.Stdin, os.Stdout, os.Stderr, os.Environ())
}
