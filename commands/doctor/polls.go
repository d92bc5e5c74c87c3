package doctor

import (
	"context"
	"maps"
	"path/filepath"
	"slices"
	"time"

	"agentstateloop/commands/config"
	"agentstateloop/commands/terminal"
	"agentstateloop/cycle"
	"agentstateloop/cycle/view"
	"agentstateloop/state"
	"agentstateloop/state/store"
)

// latePoll is the largest delay of a poll without a warning.
const latePoll = 2 * time.Minute

// pollsCheck reports the polls, HALT, credentials and messages recorded in the state.
type pollsCheck struct {
	config  *config.Config
	state   state.State
	err     error  // of reading the state
	mode    string // of [schedule]
	hasMail bool
	standby bool   // the polls of another host
	dir     string // the state directory
	now     func() time.Time
}

func (c pollsCheck) run(context.Context) []Finding {
	if c.err != nil {
		return []Finding{skip("polls", "the state could not be read", "see state")}
	}
	s, now := c.state, c.now()
	found := []Finding{c.polls(now)}
	if s.Halted() {
		found = append(found, bad(Warn, "halt", "run "+terminal.ResumeCommands(view.HaltedBy(s))+" to lift it", "HALT is on: no turns, no mail"))
	}
	if sign, two := s.TwoMachines(now); two {
		found = append(found, bad(Warn, "machines", state.TwoMachinesHint, "TWO MACHINES work as @%s: this one, and another one (%s), last at %s",
			s.Agent, sign.Other(), terminal.Clock(sign.At, now)))
	}
	for _, credential := range slices.Sorted(maps.Keys(s.Credentials)) {
		f := s.Credentials[credential]
		found = append(found, bad(Warn, "credentials", c.credentialHint(credential),
			"%s was refused %s in a row since %s: %s", credential, terminal.Count(f.Failures, "time"), terminal.Clock(f.Since, now), f.Reason))
	}
	if s.Quarantined > 0 {
		found = append(found, bad(Info, "quarantine", "run `agentstateloop inbox list --quarantined` to see why", "%s in quarantine", terminal.Count(s.Quarantined, "message")))
	}
	if n := len(s.Undelivered); n > 0 {
		found = append(found, bad(Warn, "outbox", "run `agentstateloop outbox list` to see why", "%s could not be delivered", terminal.Count(n, "message")))
	}
	return found
}

// credentialHint returns the hint for a denied credential.
func (c pollsCheck) credentialHint(name string) string {
	switch name {
	case state.CredentialIMAP, state.CredentialSMTP:
		return c.config.LoginHint("mail." + name)
	case state.CredentialMesh:
		return c.config.MeshSecretHint(c.config.File.Agent.Handle)
	}
	return "fix it; the next poll reads it again"
}

func (c pollsCheck) polls(now time.Time) Finding {
	const name = "polls"
	s := c.state
	switch {
	case c.standby:
		return skip(name, "another host acts", "see fleet")
	case s.NextDue.IsZero():
		hint := "run `agentstateloop poll --dry-run` to see what the first poll would do"
		if c.hasMail {
			hint += ": it reads all unread mail; later polls read new mail"
		}
		return bad(Info, name, hint, "no polls yet")
	case now.Sub(s.NextDue) > latePoll:
		hint := terminal.OverdueHint(cycle.Starter(c.mode)) + " the file log in the state directory has a line for each poll; `fuser -v " +
			filepath.Join(c.dir, store.CycleLock) + "` shows a poll that hangs"
		return bad(Warn, name, hint, "the poll due at %s (%s) did not run", terminal.Clock(s.NextDue, now), terminal.Distance(s.NextDue, now))
	}
	return good(name, "the last change was %s, the next poll is due %s", terminal.Distance(s.LastStep, now), terminal.Distance(s.NextDue, now))
}
