package doctor

import (
	"context"
	"maps"
	"path/filepath"
	"slices"
	"time"

	"agentstateloop/commands/terminal"
	"agentstateloop/cycle"
	"agentstateloop/state"
	"agentstateloop/state/store"
)

// lateness is how late a poll may be.
const lateness = 2 * time.Minute

// pollsCheck reports what the state says of polls, HALT, credentials and
// messages.
type pollsCheck struct {
	state state.State
	err   error // of reading it
	mode  string
	dir   string
	now   func() time.Time
}

func (c pollsCheck) run(context.Context) []Finding {
	if c.err != nil {
		return []Finding{skip("polls", "the state could not be read", "see state")}
	}
	s, now := c.state, c.now()
	found := []Finding{c.polls(now)}
	if s.Halted() {
		found = append(found, bad(Warn, "halt", terminal.LiftedBy(cycle.HaltedBy(s))+" lifts it", "HALT is on: no turns, no mail"))
	}
	for _, credential := range slices.Sorted(maps.Keys(s.Credentials)) {
		f := s.Credentials[credential]
		found = append(found, bad(Warn, "credentials", "correct it: each poll reads it again",
			"%s was refused %s in a row, since %s: %s", credential, terminal.Count(f.Failures, "time"), terminal.Clock(f.Since, now), f.Reason))
	}
	if s.Quarantined > 0 {
		found = append(found, bad(Info, "quarantine", "`agentstateloop inbox list --quarantined` shows why", "%s did not pass the gate", terminal.Count(s.Quarantined, "message")))
	}
	if s.Undeliverable > 0 {
		found = append(found, bad(Warn, "outbox", "`agentstateloop history` has the reasons", "%s could not be delivered", terminal.Count(s.Undeliverable, "message")))
	}
	return found
}

func (c pollsCheck) polls(now time.Time) Finding {
	const name = "polls"
	s := c.state
	switch {
	case s.NextDue.IsZero():
		return bad(Info, name, "`agentstateloop poll --dry-run` shows what the first would do: it reads the mail that is unread, and from then on what comes", "none yet")
	case now.Sub(s.NextDue) > lateness:
		hint := terminal.AskForPolls(c.mode == cycle.ModeNone) + " the file log in the state directory has a line for each poll; `fuser -v " +
			filepath.Join(c.dir, store.CycleLock) + "` finds a poll that hangs"
		return bad(Warn, name, hint, "the poll of %s (%s) did not come", terminal.Clock(s.NextDue, now), terminal.Distance(s.NextDue, now))
	}
	return good(name, "the last change was %s, the next poll is due %s", terminal.Distance(s.LastStep, now), terminal.Distance(s.NextDue, now))
}
