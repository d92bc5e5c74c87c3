package commands

import (
	"context"
	"fmt"

	"agentstateloop/state"
	"agentstateloop/turn/react"
)

// spent counts what an answer has cost. Its id is that of the request, so that
// it counts once.
func (w *wake) spent(ctx context.Context, e react.Expense) error {
	return w.agent.Spend(ctx, w.in, state.Spending{
		ID:     fmt.Sprintf("%s.%d.%d", w.in.TurnID, w.in.Epoch, e.Number),
		Model:  e.Model,
		Tokens: state.Tokens(e.Usage),
	}, e.CostUSD)
}

// lookAtMoney says, before each request, whether it can be paid, and by which
// model it is better made.
func (w *wake) lookAtMoney(o *react.Outlook) error {
	money, err := w.agent.Allowance(w.in)
	if err != nil || !money.Limited {
		return err
	}
	if money.Left == 0 && o.Over == "" {
		o.Over = money.What + " is used up"
	}
	if money.Tier != state.TierNormal {
		o.Low = true
		o.Notes = append(o.Notes, fmt.Sprintf("Money is short (%s): finish what matters most, and be brief.", money.Tier))
	}
	return nil
}
