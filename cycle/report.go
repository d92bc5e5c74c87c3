package cycle

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"agentstateloop/cycle/view"
	"agentstateloop/state"
)

// Report describes the results of a poll.
type Report struct {
	Skipped  string          `json:"skipped,omitempty"` // why --if-due did nothing
	Before   state.Phase     `json:"before"`
	After    state.Phase     `json:"after"`
	NextDue  time.Time       `json:"next_due"`
	Arrived  int             `json:"arrived"` // messages accepted
	Rejected int             `json:"refused"` // items put into quarantine
	Nudges   int             `json:"nudges"`
	Sent     int             `json:"sent"`   // mails
	Posted   int             `json:"posted"` // messages to other agents
	Turns    int             `json:"turns"`
	Failed   []SourceFailure `json:"failed"`

	// TurnWaiting is set if a message could run now that this poll did not run.
	TurnWaiting bool `json:"turn_waiting"`

	TwoMachines *view.TwoMachines `json:"two_machines"` // another machine works as this agent

	serial  uint64    // of the last commit of this process
	looked  time.Time // when this process last looked for due work
	damaged int       // damaged messages, found before their turn
}

// Found reports whether the poll found any work.
func (r Report) Found() bool {
	return r.Arrived+r.Rejected+r.Nudges+r.Sent+r.Posted+r.Turns > 0 || r.Before != r.After
}

// Add adds the results of a later poll of the same process.
func (r *Report) Add(later Report) {
	r.After, r.NextDue, r.TurnWaiting, r.TwoMachines = later.After, later.NextDue, later.TurnWaiting, later.TwoMachines
	r.Arrived, r.Rejected, r.Nudges = r.Arrived+later.Arrived, r.Rejected+later.Rejected, r.Nudges+later.Nudges
	r.Sent, r.Posted, r.Turns = r.Sent+later.Sent, r.Posted+later.Posted, r.Turns+later.Turns
	r.fail(later.Failed)
}

// sent counts an effect that was sent.
func (r *Report) sent(by state.Channel) {
	switch by {
	case state.ByMail:
		r.Sent++
	case state.ByMesh:
		r.Posted++
	}
}

// fail adds the sources that failed, each once, with its newest reason.
func (r *Report) fail(failed []SourceFailure) {
	for _, f := range failed {
		r.Failed = slices.DeleteFunc(r.Failed, func(old SourceFailure) bool { return old.Source == f.Source })
		r.Failed = append(r.Failed, f)
	}
}

// addCredentials adds the denied credentials that reading the sources does not show: those for
// sending mail, and for the agent's own program.
func (r *Report) addCredentials(s state.State) {
	for _, name := range slices.Sorted(maps.Keys(s.Credentials)) {
		c := s.Credentials[name]
		source := sourceOf(name)
		listed := slices.ContainsFunc(r.Failed, func(f SourceFailure) bool { return f.Source == source })
		if c.Denied && !listed {
			r.Failed = append(r.Failed, SourceFailure{Source: source, Reason: "credential " + name + ": " + c.Reason})
		}
	}
}

// FromAgent is the source of a failure of the agent's own program.
const FromAgent state.Source = "agent"

// sourceOf returns the source that a credential is for.
func sourceOf(credential string) state.Source {
	switch credential {
	case state.CredentialIMAP, state.CredentialSMTP:
		return state.Mail
	case state.CredentialMesh:
		return state.Mesh
	}
	return FromAgent
}

// count adds the results of the commit of one observation.
func (r *Report) count(s state.State) {
	for _, l := range s.Lines {
		switch l.Kind {
		case state.LineMessage:
			r.Arrived++
		case state.LineGate:
			r.Rejected += max(1, l.Count)
		case state.LineNudge:
			r.Nudges++
		}
	}
}

// line returns the report as a line of the log.
func (r Report) line() string {
	parts := []string{string(r.After)}
	if r.Before != r.After {
		parts[0] = fmt.Sprintf("%s→%s", r.Before, r.After)
	}
	for _, n := range []struct {
		count     int
		one, many string
	}{{r.Arrived, "arrived", "arrived"}, {r.Rejected, "refused", "refused"}, {r.Nudges, "nudge", "nudges"}, {r.Sent, "mail sent", "mails sent"}, {r.Posted, "message sent", "messages sent"}, {r.Turns, "turn", "turns"}} {
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
	if two := r.TwoMachines; two != nil {
		parts = append(parts, "TWO MACHINES: "+two.Other())
	}
	return strings.Join(parts, ", ") + ", next " + r.NextDue.UTC().Format("15:04Z")
}
