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
	for _, credential := range slices.Sorted(maps.Keys(s.Credentials)) {
		f := s.Credentials[credential]
		found = append(found, bad(Warn, "credentials", c.credentialHint(credential),
			"%s was denied %s in a row since %s: %s", credential, terminal.Count(f.Failures, "time"), terminal.Clock(f.Since, now), f.Reason))
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
	case s.NextDue.IsZero():
		hint := "run `agentstateloop poll --dry-run` to see what the first poll would do"
		if c.hasMail {
			hint += ": it reads all unread mail; later polls read new mail"
		}
		return bad(Info, name, hint, "no polls yet")
	case now.Sub(s.NextDue) > latePoll:
		hint := terminal.OverdueHint(c.mode == cycle.ModeNone) + " the file log in the state directory has a line for each poll; `fuser -v " +
			filepath.Join(c.dir, store.CycleLock) + "` shows a poll that hangs"
		return bad(Warn, name, hint, "the poll due at %s (%s) did not run", terminal.Clock(s.NextDue, now), terminal.Distance(s.NextDue, now))
	}
	return good(name, "the last change was %s, the next poll is due %s", terminal.Distance(s.LastStep, now), terminal.Distance(s.NextDue, now))
}

// budgetCheck looks for backends whose turns [budget] cannot count.
type budgetCheck struct {
	agent *cycle.Agent
	state state.State
}

func (c budgetCheck) run(context.Context) []Finding {
	var found []Finding
	for _, backend := range c.state.Uncounted(c.agent.Policy) {
		found = append(found, bad(Warn, "budget", "set a limit at the provider, or use a runner that reports its cost",
			"%s reports neither a cost nor tokens, so [budget] does not limit its turns", state.BackendName(backend)))
	}
	return found
}

// maxSkew is the largest difference between two clocks without a warning.
const maxSkew = 5 * time.Minute

const clockHint = "set this machine's clock, and use NTP to keep it right"

// clockCheck compares the clock with the time of the last commit. The checks of mail and mesh
// compare it with the clocks of their servers.
type clockCheck struct {
	lastStep time.Time
	now      func() time.Time
}

func (c clockCheck) run(context.Context) []Finding {
	const name = "clock"
	now := c.now()
	if ahead := c.lastStep.Sub(now); ahead > maxSkew {
		return []Finding{bad(Warn, name, clockHint, "this machine's clock is %s behind the last poll: it was set back now, or it was ahead then", terminal.Short(ahead))}
	}
	return []Finding{good(name, "%s", now.Local().Format("2006-01-02 15:04:05 -0700 MST"))}
}
