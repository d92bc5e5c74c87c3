package commands

import (
	"context"
	"fmt"
	"strings"
	"time"

	"agentstateloop/commands/terminal"
	"agentstateloop/state/store"
)

// longestCycle is more than a cycle's network work takes (DESIGN 7: nothing is
// begun after 20 s, and each step has network_timeout).
const longestCycle = 5 * time.Minute

// holder is a process that holds a lock.
type holder struct {
	pid     int
	command string        // its arguments, in one line
	stopped bool          // by a signal, or a debugger
	age     time.Duration // of the process; the lock's is not known
}

func (h holder) String() string {
	text := fmt.Sprintf("process %d (%s)", h.pid, h.command)
	if h.age > 0 {
		text += ", which has run for " + terminal.Short(h.age)
	}
	return text
}

// checkLocks says who holds the agent's locks, and which hold is longer than it
// can rightly be. It takes none: to try one would make a poll find it busy.
func (d *patient) checkLocks(context.Context) []finding {
	const check = "locks"
	if d.agent == nil {
		return unknown(check)
	}
	var found []finding
	var held []string
	for _, name := range []string{"state.lock", store.CycleLock, store.TurnLock, store.LingerLock, "listen.lock"} {
		h, holds, err := lockHolder(d.proc, d.agent.Store.Path(name))
		if err != nil {
			return skipped(check, err.Error(), "see state")
		}
		if !holds {
			continue
		}
		held = append(held, fmt.Sprintf("%s by process %d", name, h.pid))
		if hint, long := d.heldTooLong(name, h); long {
			found = append(found, finds(levelError, check, hint, "%s is held by %s", name, h))
		}
	}
	if len(found) > 0 {
		return found
	}
	if len(held) == 0 {
		return []finding{good(check, "none is held")}
	}
	return []finding{good(check, "held by those who should: %s", strings.Join(held, ", "))}
}

// heldTooLong judges by the process: a lock dies with it, and the kernel does
// not say since when it is held.
func (d *patient) heldTooLong(lock string, h holder) (hint string, long bool) {
	kill := fmt.Sprintf("`kill %d`; nothing recorded is lost", h.pid)
	if h.stopped {
		return fmt.Sprintf("it was stopped: `kill -CONT %d` lets it go on, %s", h.pid, kill), true
	}
	stays := strings.Contains(h.command, " listen") || strings.Contains(h.command, "--linger")
	turns := d.config != nil && d.agent.Turn != nil && h.age < d.agent.Turn.Timeout*time.Duration(d.agent.Policy.MaxAttempts)+longestCycle
	switch lock {
	case store.CycleLock, "state.lock":
		// A runner takes them for a moment at the end of a turn.
		return kill, !stays && !turns && h.age > longestCycle
	case store.TurnLock:
		return kill, !stays && !turns && d.state.CanRun(d.agent.Policy, d.loader.Now())
	}
	return "", false
}
