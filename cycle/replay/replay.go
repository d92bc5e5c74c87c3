// Package replay shows what the mails of some time would have caused: phases, acks, turns and their cost.
// It plays them on a clock of its own, from the state of an agent that has never polled.
//
//	mails, by their dates ──▶ Explainer.Admit ──▶ events ──▶ state.Step ──▶ history lines ──▶ entries, summary
//	                                 ▲                            │
//	                                 └─────── state, next times ◀─┘
//
// It has no rules of its own. The gates are those of a poll, the machine is state.Step with the
// policy of the agent, and the state names the times of the next polls. Three things are assumed:
// the time of a turn, its cost, and that all servers and turns work. A replay sends no mail, writes no
// file and takes no lock.
package replay

import (
	"context"
	"time"

	"agentstateloop/cron"
	"agentstateloop/cycle"
	"agentstateloop/mail"
	"agentstateloop/state"
)

// Options describe a replay.
type Options struct {
	Agent    *cycle.Agent // its policy, filter and texts count
	Mails    *Mails
	From, To time.Time // of the mails; To itself is not included
	Listen   bool      // a listener polls as soon as a mail comes
	Offline  bool      // the DNS is not asked
	Assumed  Assumed
	Emit     func(Entry) error // is called for each entry; nil: only the summary is wanted
}

// decided is a mail with the decision about it.
type decided struct {
	mail.Stored
	key      string
	mine     bool  // it is for this agent
	unproven error // nil: it is decided

	from, subject, gate, reason string
}

// Run plays a replay and returns its summary.
func Run(ctx context.Context, o Options) (Summary, error) {
	a := *o.Agent
	p := &player{
		Options: o, ctx: ctx, mails: o.Mails.between(o.From, o.To), lines: map[time.Duration]cron.Times{},
		state: state.New(a.Handle, "replay"), now: o.From,
	}
	a.Now = func() time.Time { return p.now }
	// Hooks, copies of sent mail and the mesh are not part of a replay.
	a.Policy.Hooks, a.Policy.Copies = nil, false
	if a.Step == nil {
		a.Step = state.Step
	}
	p.Agent = &a
	var err error
	if p.judge, err = a.ExplainerAt(p.state, a.Now, o.Offline); err != nil {
		return Summary{}, err
	}
	p.judge.NothingKept = true
	p.story = &story{
		emit: o.Emit, text: a.TextOf, mails: map[string]decided{}, replies: map[string]reply{},
		sum: Summary{
			From: o.From, To: o.To, Assumed: o.Assumed, DayBudget: a.Policy.Budget.Day, Aside: []Aside{}, Days: []Day{},
			Undated: o.Mails.Undated, Future: o.Mails.Future, Unordered: o.Mails.Unordered,
			Sent: map[state.EffectKind]int{}, Phases: map[state.Phase]time.Duration{},
		},
	}
	err = p.play()
	return p.story.sum, err
}
