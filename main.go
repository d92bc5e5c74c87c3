// Command agentstateloop lets a command-line AI agent sleep in cron and wake
// for its operator.
//
//go:debug containermaxprocs=0
//go:debug updatemaxprocs=0
package main

import (
	"context"
	"os"
	"os/signal"
	"runtime"
	"syscall"

	"agentstateloop/commands"
)

// maxProcessors is how many processors we use at the same time, at most.
const maxProcessors = 4

func main() { os.Exit(run()) }

func run() int {
	// Before any signal is caught: a process that becomes the agent must die of
	// TERM.
	if code, ok := commands.Become(os.Args, os.Stderr); ok {
		return code
	}
	useFewProcessors()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	// The second signal ends us at once. A crash loses nothing.
	context.AfterFunc(ctx, stop)
	return commands.Run(ctx, os.Args, os.Stdin, os.Stdout, os.Stderr, os.Environ())
}

// useFewProcessors keeps the runtime of a large machine from spreading a poll that waits
// for a server over all processors. It stands in for the limits of a container, for which
// the runtime does not look (docs/decisions/0061-few-processors.md).
func useFewProcessors() { runtime.GOMAXPROCS(min(runtime.GOMAXPROCS(0), maxProcessors)) }
