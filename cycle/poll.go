package cycle

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"agentstateloop/state"
	"agentstateloop/state/store"
)

// ErrBusy: another process holds cycle.lock. It looks once more before it
// goes, so that whatever was durable before this poll began is seen.
var ErrBusy = errors.New("another poll of this agent is under way")

// mostRounds is how often a poll goes round again for what came meanwhile,
// before it leaves the rest to a detached one.
const mostRounds = 3

// PollOptions say what kind of poll it is.
type PollOptions struct {
	IfDue  bool // do nothing unless something is due
	NoTurn bool // leave the turns to a detached poll
	Stay   bool // may stay on where the crontab line is stuck; see stay
}

// Report is what a poll did.
type Report struct {
	Skipped  string          `json:"skipped,omitempty"` // why --if-due did nothing
	Before   state.Phase     `json:"before"`
	After    state.Phase     `json:"after"`
	NextDue  time.Time       `json:"next_due"`
	Arrived  int             `json:"arrived"` // messages accepted
	Rejected int             `json:"refused"` // into quarantine
	Nudges   int             `json:"nudges"`
	Sent     int             `json:"sent"`
	Turns    int             `json:"turns"`
	Failed   []SourceFailure `json:"failed"`

	// TurnWaiting: a message could run now, and this poll was not to run it.
	TurnWaiting bool `json:"turn_waiting"`

	serial uint64 // of the last commit of this process
}

// Found says whether the poll had anything to do.
func (r Report) Found() bool {
	return r.Arrived+r.Rejected+r.Nudges+r.Sent+r.Turns > 0 || r.Before != r.After
}

// Poll is one cycle (DESIGN 3): load, observe, commit, project, perform, look
// once more, and the turns. ErrBusy means that another process is at it. A
// source that failed is in the report and no error; an error means that the
// cycle could not be done, and that nothing was consumed.
func (a *Agent) Poll(ctx context.Context, o PollOptions) (Report, error) {
	if o.IfDue {
		skip, err := a.notDue()
		if err != nil || skip != "" {
			return Report{Skipped: skip}, err
		}
	}
	var r Report
	busy, err := a.rounds(ctx, &r)
	if err != nil {
		a.log("poll: %v", err)
		return r, err
	}
	if busy {
		return r, ErrBusy
	}
	if !o.NoTurn {
		err = a.turns(ctx, &r)
	}
	s, readErr := a.Store.Read()
	if err = errors.Join(err, readErr); err != nil {
		a.log("poll: %v", err)
		return r, err
	}
	r.addCredentials(s)
	r.After, r.NextDue = s.Phase, s.NextDue
	r.TurnWaiting = s.CanRun(a.Policy, a.Now())
	a.log("poll: %s", r.line())
	if o.Stay {
		return r, a.pollWhileStuck(ctx, s)
	}
	return r, nil
}

// notDue says why --if-due has nothing to do; "" when something is due.
func (a *Agent) notDue() (string, error) {
	s, err := a.Store.Read()
	if err != nil {
		return "", err
	}
	rung, err := a.Store.Rung()
	if err != nil {
		return "", err
	}
	if len(rung) > 0 || s.Due(a.Policy, a.Now()) != "" {
		return "", nil
	}
	return "next poll is due at " + s.NextDue.Format(time.RFC3339), nil
}

// rounds runs steps 1 to 6 until nothing new is seen.
func (a *Agent) rounds(ctx context.Context, r *Report) (busy bool, err error) {
	for round := range mostRounds {
		held, err := a.withLock(store.CycleLock, func() error { return a.round(ctx, r, round > 0) })
		if err != nil {
			return false, err
		}
		if !held {
			return round == 0, nil // later rounds: its holder sees what we saw
		}
		again, err := a.unseen(r)
		if err != nil || !again {
			return false, err
		}
	}
	return false, a.Detach()
}

// round is steps 1 to 5; again in a further round of the same poll.
func (a *Agent) round(ctx context.Context, r *Report, again bool) error {
	s, err := a.Store.Read()
	if err != nil {
		return err
	}
	if r.Before == "" {
		r.Before = s.Phase
	}
	if s, err = a.watch(ctx, s); err != nil {
		return fmt.Errorf("watchdog: %w", err)
	}
	obs := a.observe(ctx, a.Store, s, again)
	defer a.closeBox(obs)
	if s, err = a.commit(ctx, obs.events...); err != nil {
		return err
	}
	r.count(s)
	if s, err = a.clearLeft(ctx, s); err != nil {
		return err
	}
	if s, err = a.project(ctx, s, obs); err != nil {
		return err
	}
	r.fail(obs.failed)
	if s, err = a.challenge(ctx, s); err != nil {
		return fmt.Errorf("challenge: %w", err)
	}
	s, sent, err := a.perform(ctx, s)
	r.Sent += sent
	r.serial = s.Serial
	if err != nil {
		return err
	}
	if s, err = a.prune(ctx, s); err != nil {
		a.log("prune: %v", err) // old things that stay stop nothing
		return nil
	}
	r.serial = s.Serial
	return nil
}

// fail adds the sources that failed, each once, with its newest reason.
func (r *Report) fail(failed []SourceFailure) {
	for _, f := range failed {
		r.Failed = slices.DeleteFunc(r.Failed, func(old SourceFailure) bool { return old.Source == f.Source })
		r.Failed = append(r.Failed, f)
	}
}

// addCredentials adds what no source's reading shows: that sending, or the agent, was
// addCredentials in this cycle.
func (r *Report) addCredentials(s state.State) {
	for _, name := range slices.Sorted(maps.Keys(s.Credentials)) {
		c := s.Credentials[name]
		source := sourceOf(name)
		told := slices.ContainsFunc(r.Failed, func(f SourceFailure) bool { return f.Source == source })
		if c.Denied && !told {
			r.Failed = append(r.Failed, SourceFailure{Source: source, Reason: "credential " + name + ": " + c.Reason})
		}
	}
}

// FromAgent stands for the agent's own program where a source has failed.
const FromAgent state.Source = "agent"

// sourceOf is what a credential belongs to.
func sourceOf(credential string) state.Source {
	switch credential {
	case state.CredentialIMAP, state.CredentialSMTP:
		return state.Mail
	case state.CredentialMesh:
		return state.Mesh
	}
	return FromAgent
}

// count adds what one observation brought, as the history tells it.
func (r *Report) count(s state.State) {
	for _, l := range s.Lines {
		switch l.Kind {
		case state.LineMessage:
			r.Arrived++
		case state.LineGate:
			r.Rejected++
		case state.LineNudge:
			r.Nudges++
		}
	}
}

// unseen looks once more, with cycle.lock released: a nudge that came since, or
// a commit of another process that left something for a cycle to do.
func (a *Agent) unseen(r *Report) (bool, error) {
	s, err := a.Store.Read()
	if err != nil {
		return false, err
	}
	rung, err := a.Store.Rung()
	if err != nil {
		return false, err
	}
	for _, n := range rung {
		if !s.TookNudge(n.Key) {
			return true, nil
		}
	}
	// What a cycle cannot do now (a server that is down) is owed as well, and is
	// left to the next: only what another process committed is new.
	return a.misplaced(s) || s.Serial != r.serial && len(s.DueEffects(a.Now())) > 0, nil
}

// misplaced says whether the crontab line is another than the state asks for,
// though it could be written: the phase changed while it was.
func (a *Agent) misplaced(s state.State) bool {
	if a.Schedule.Mode != ModeCrontab || s.Schedule.Removed || s.Schedule.Error != "" {
		return false
	}
	line, err := a.Job(s).Line()
	return err == nil && line != s.Schedule.Installed
}

// line is the report as the log has it.
func (r Report) line() string {
	parts := []string{string(r.After)}
	if r.Before != r.After {
		parts[0] = fmt.Sprintf("%s→%s", r.Before, r.After)
	}
	for _, n := range []struct {
		count     int
		one, many string
	}{{r.Arrived, "arrived", "arrived"}, {r.Rejected, "refused", "refused"}, {r.Nudges, "nudge", "nudges"}, {r.Sent, "sent", "sent"}, {r.Turns, "turn", "turns"}} {
		switch {
		case n.count == 1:
			parts = append(parts, "1 "+n.one)
		case n.count > 1:
			parts = append(parts, fmt.Sprintf("%d %s", n.count, n.many))
		}
	}
	for _, f := range r.Failed {
		parts = append(parts, fmt.Sprintf("%s failed: %s", f.Source, f.Reason))
	}
	return strings.Join(parts, ", ") + ", next " + r.NextDue.UTC().Format("15:04Z")
}

// log adds a line to the agent's log. A log that cannot be written stops
// nothing.
func (a *Agent) log(format string, args ...any) {
	_ = a.Store.Log(a.Now(), a.Secrets.Redact(fmt.Sprintf(format, args...)))
}
