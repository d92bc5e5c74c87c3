package commands

import (
	"fmt"

	"agentstateloop/commands/terminal"
	"agentstateloop/cycle"
	"agentstateloop/internal/memory"
)

// maxMemory limits the memory of a poll, in bytes. A mail of the maximum size and its parts fit
// well.
const maxMemory = 512 << 20

// withinMemory runs work, which polls for a. If the process exceeds limit bytes meanwhile,
// withinMemory logs that and returns an error at once. work may still be running, and ends with
// the process.
//
// Only poll has this limit, because cron runs it unattended. The other commands with a cycle
// have more to do after it. A listener serves many agents, and would end for them all.
func withinMemory(a *cycle.Agent, limit uint64, work func() error) error {
	var err error
	if memory.Guard(limit, a.Secrets, func() { err = work() }) {
		return err
	}
	exceeded := fmt.Errorf("the poll was ended, because it took more than %d MiB of memory", limit>>20)
	_ = a.Store.Log(a.Now(), exceeded.Error()) // a failed write to the log is ignored
	return terminal.WithHint(exceeded, "what was not recorded yet will be read again by the next poll; if that ends the same way, something sends too much")
}
