package commands

import (
	"errors"
	"os"
	"path/filepath"
	"strings"

	"agentstateloop/commands/config"
	"agentstateloop/commands/terminal"
	"agentstateloop/cycle"
	"agentstateloop/fleet/seat"
)

// checkActs refuses a command that would change the agent on a host that does not act for it. It
// uses no network.
func (c *call) checkActs(a *cycle.Agent) error {
	if c.worksOnStandby() {
		return nil
	}
	return a.Acts()
}

// worksOnStandby reports whether a command works on every host of an agent: it only reads, it sets
// up this host, it is of the mesh as a whole, or it treats a standby itself.
func (c *call) worksOnStandby() bool {
	switch command := strings.TrimPrefix(c.helpName(), name+" "); command {
	case "status", "history", "inbox", "inbox list", "inbox show", "outbox", "outbox list", "outbox show", "prompt", "events", "explain",
		"replay", "doctor", "version", "completion", "man", "demo",
		"init", "login", "backup", "restore", "move", "uninstall",
		"mesh serve", "mesh send", "mesh halt", "mesh resume",
		"mesh inbox", "remind", "poll", "nudge", "tell", "listen": // these check it themselves
		return true
	case "credit":
		return len(c.args) == 0
	default:
		return strings.HasPrefix(command, "fleet")
	}
}

// onStandby reports whether err says that another host acts for the agent.
func onStandby(err error) bool { return is[*seat.StandbyError](err) }

// quietSeat returns the error of a poll of cron, for an error of the seat. A standby has succeeded,
// and a server that does not answer has no text, like any source that fails. A trouble has its text
// once a day, and at once when it is another.
func quietSeat(c *call, a *cycle.Agent, err error) error {
	trouble, stopped := errors.AsType[*seat.TroubleError](err)
	if !stopped {
		forgetTrouble(c.loader, a.Handle)
		if is[*cycle.SeatError](err) {
			return silentError{err}
		}
		return err
	}
	mark, markErr := troubleMark(c.loader, a.Handle)
	if markErr != nil {
		return err
	}
	reported, now := dailyMark{mark, string(trouble.Trouble)}, c.now()
	_, last, known := reported.read(now)
	switch {
	case known && !isDayOld(last, now):
		return silentError{err}
	case reported.write(now, now):
		return terminal.WithHint(err, "cron reports this once a day; `"+name+" poll` reports it each time")
	}
	return err
}

// troubleMark returns the path of the mark that an agent's trouble was reported. It is in the
// folder of all agents.
func troubleMark(l *config.Loader, handle string) (string, error) {
	states, err := l.StateFolder()
	return filepath.Join(states, ".trouble-"+handle), err
}

// forgetTrouble removes the mark of an agent.
func forgetTrouble(l *config.Loader, handle string) {
	if mark, err := troubleMark(l, handle); err == nil {
		_ = os.Remove(mark) // there is rarely one
	}
}
