package commands

import (
	"fmt"

	"agentstateloop/commands/terminal"
	"agentstateloop/cycle"
	"agentstateloop/internal/memory"
)

// maxMemory is what a poll may take, in bytes. A mail of the largest size and its
// parts fit in well.
const maxMemory = 512 << 20

// withinMemory runs work, which polls for a. If the process takes more than limit
// bytes meanwhile, it writes that into the log and returns an error at once. work
// may still run then, and ends with the process.
//
// Only poll is held to this, which cron runs with nobody there. The other commands
// that make a cycle have more to do after it, and a listener has many agents: it
// would end for them all.
func withinMemory(a *cycle.Agent, limit uint64, work func() error) error {
	var err error
	if memory.Guard(limit, a.Secrets, func() { err = work() }) {
		return err
	}
	exceeded := fmt.Errorf("the poll was ended, because it took more than %d MiB of memory", limit>>20)
	_ = a.Store.Log(a.Now(), exceeded.Error()) // a log that cannot be written changes nothing
	return terminal.WithHint(exceeded, "what was not recorded yet will be read again by the next poll; if that ends the same way, something sends too much")
}
