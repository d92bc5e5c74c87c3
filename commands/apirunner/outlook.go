package apirunner

import (
	"context"
	"fmt"
	"time"

	"agentstateloop/cycle"
	"agentstateloop/state"
	"agentstateloop/turn/react"
)

// outlook watches the agent's state while the turn runs.
type outlook struct {
	agent *cycle.Agent
	turn  cycle.Inside
	now   func() time.Time
	slept bool // the agent has requested a rest of a given duration

	folders react.Folders // the folders the model may see

	missing []string // notes for the model about granted tools that are unavailable
}

// check reports whether the turn is still ours and may continue, with notes for the model's next
// request.
func (l *outlook) check(context.Context) (react.Outlook, error) {
	s, err := l.agent.Store.Read()
	if err != nil {
		return react.Outlook{}, err
	}
	if !s.Turn.Owns(l.turn.TurnID, l.turn.Epoch) {
		return react.Outlook{}, cycle.ErrStale
	}
	var o react.Outlook
	if s.Turn.Stop != "" {
		o.Over = "stopped"
	}
	if err := l.checkMoney(&o); err != nil {
		return o, err
	}
	o.Notes = append(o.Notes, l.missing...)
	if n := waiting(s); n > 0 {
		o.Notes = append(o.Notes, fmt.Sprintf("Messages that wait in your inbox until this turn ends: %d.", n))
	}
	if l.slept && s.SleepUntil.After(l.now()) {
		o.Notes = append(o.Notes, "You have asked to rest: end this turn as soon as its work is done.")
	}
	return o, nil
}

// waiting counts the messages queued behind the one of this turn. It does not count turns that the
// agent planned, or prompts of the clock.
func waiting(s state.State) int {
	n := 0
	for _, m := range s.Inbox {
		if m.ByItself() {
			continue
		}
		if m.Status == state.Queued || m.Status == state.Deferred {
			n++
		}
	}
	return n
}

// checkMoney ends the turn when the money is used up, and selects the cheaper model when money is
// short.
func (l *outlook) checkMoney(o *react.Outlook) error {
	money, err := l.agent.Allowance(l.turn)
	if err != nil || !money.Limited {
		return err
	}
	if money.Left == 0 && o.Over == "" {
		o.Over = money.What + " is used up"
	}
	if money.Tier != state.TierNormal {
		o.Low = true
		o.Notes = append(o.Notes, fmt.Sprintf("Money is short (%s): you have half as many calls, and half as much room for each answer. Finish what matters most, and be brief.", money.Tier))
	}
	return nil
}

// recordSpending records the cost of a request under the id of the request, so that it counts once.
func (l *outlook) recordSpending(ctx context.Context, e react.Expense) error {
	return l.agent.Spend(ctx, l.turn, state.Spending{
		ID:     fmt.Sprintf("%s.%d.%d", l.turn.TurnID, l.turn.Epoch, e.Number),
		Model:  e.Model,
		Tokens: state.Tokens(e.Usage),
	}, e.CostUSD)
}
