package cycle

import (
	"cmp"
	"context"
	"fmt"

	"agentstateloop/state"
	"agentstateloop/turn"
)

// What turns cost: an attempt's bill, the calls that a turn tells one by one,
// and what may still be spent.

// Allowance is what a turn may still spend: the least of what is left of the
// credit, of the day's budget and of the turn's own, which What names. In tier
// critical that is nothing for a turn that another agent has caused. Without
// a limit nothing is known of a balance, and Left means nothing.
type Allowance struct {
	Tier    state.Tier
	Left    state.Micros
	Limited bool
	What    string // "the credit of $5.00"
}

// Allowance says what the turn that asks may still spend. It reads the state
// and costs nothing.
func (a *Agent) Allowance(in Inside) (Allowance, error) {
	s, err := a.mine(in)
	if err != nil {
		return Allowance{}, err
	}
	msg, _ := s.TurnMessage()
	return a.allowance(s, msg), nil
}

func (a *Agent) allowance(s state.State, msg state.Message) Allowance {
	now := a.Now()
	least, limited := s.Tightest(a.Policy, now)
	w := Allowance{Tier: s.Tier(a.Policy, now), Left: max(0, least.Left), Limited: limited}
	if limited {
		w.What = least.What()
	}
	if w.Tier == state.TierCritical && !msg.Operator {
		w.Left, w.What = 0, "what is not kept for the operator's messages"
	}
	limit := a.Policy.Budget.Turn
	if left := max(0, limit-msg.Cost); limit > 0 && (!limited || left < w.Left) {
		w.Left, w.Limited, w.What = left, true, a.turnBudget()
	}
	return w
}

// affords says whether the tier lets the turn of a message run (DESIGN 5).
func (a *Agent) affords(s state.State, msg state.Message) bool {
	tier := s.Tier(a.Policy, a.Now())
	return tier != state.TierDead && (tier != state.TierCritical || msg.Operator)
}

// turnBudget names the budget of a turn.
func (a *Agent) turnBudget() string {
	return fmt.Sprintf("what one turn may cost, %v,", a.Policy.Budget.Turn)
}

// Spend counts what a call has cost, durable when it returns nil. usd is the
// provider's own figure; without one the call is priced by the table. It counts,
// once under the id of the spending, even if the turn is over; then the error
// is ErrStale.
func (a *Agent) Spend(ctx context.Context, in Inside, sp state.Spending, usd float64) error {
	s, err := a.Store.Read()
	if err != nil {
		return err
	}
	e := state.Spent{TurnID: in.TurnID, Epoch: in.Epoch, From: senderOf(s, in.TurnID)}
	e.Spending, e.Odd = a.priced(sp, usd)
	if s, err = a.commit(ctx, e); err != nil {
		return err
	}
	return in.check(s)
}

// senderOf is who caused a turn, while its message is in the inbox.
func senderOf(s state.State, turnID string) string {
	msg, _ := s.MessageOfTurn(turnID)
	return msg.From
}

// priced gives a spending its cost: the provider's own figure where that is one,
// else what the price table has for it. odd says which figure was not believed.
func (a *Agent) priced(sp state.Spending, usd float64) (_ state.Spending, odd string) {
	own, ok := state.Dollars(usd)
	if ok && own > 0 && own <= state.MostSpent {
		sp.Cost, sp.Basis = own, state.BasisProvider
		return sp, ""
	}
	if own != 0 || !ok {
		odd = fmt.Sprintf("a cost of $%g was reported, which cannot be: priced by its tokens", usd)
	}
	cost, known := a.Prices.Cost(sp.Model, sp.Tokens)
	sp.Cost, sp.Basis = cost, state.BasisTable
	if !known {
		sp.Basis = state.BasisDearest
	}
	return sp, odd
}

// bill is what an attempt has cost, as events for the commit that tells its
// end: none where its agent says nothing, or has told it already. It counts
// under the attempt's own id, so that it may come twice.
func (a *Agent) bill(s state.State, h state.Head, b turn.Bill) []state.Event {
	if a.Turn == nil || b.Settled {
		return nil
	}
	e := state.Spent{TurnID: h.TurnID, Epoch: h.Epoch, From: senderOf(s, h.TurnID)}
	tokens := state.Tokens(b.Usage)
	if b.Meter != "" && tokens != (state.Tokens{}) {
		e.Meter = state.Meter{Session: b.Meter, Tokens: tokens}
		tokens = onTop(tokens, b.Meter, s.Purse.Meter)
	}
	if b.CostUSD == 0 && tokens == (state.Tokens{}) {
		return nil
	}
	e.Spending, e.Odd = a.priced(state.Spending{
		ID:     fmt.Sprintf("%s.%d", h.TurnID, h.Epoch),
		Model:  cmp.Or(b.Model, a.Turn.Runner),
		Tokens: tokens,
	}, b.CostUSD)
	return []state.Event{e}
}

// onTop is what a session's meter shows on top of what it showed last. One that
// shows less has begun anew.
func onTop(now state.Tokens, session string, last state.Meter) state.Tokens {
	was := last.Tokens
	if session != last.Session || now.Input < was.Input || now.Output < was.Output || now.CacheRead < was.CacheRead || now.CacheWrite < was.CacheWrite {
		return now
	}
	return state.Tokens{
		Input: now.Input - was.Input, Output: now.Output - was.Output,
		CacheRead: now.CacheRead - was.CacheRead, CacheWrite: now.CacheWrite - was.CacheWrite,
	}
}

// billed is the bill of an attempt whose runner did not come to tell it.
func (a *Agent) billed(s state.State, h state.Head) []state.Event {
	if h.Pulled || h.TurnID == "" {
		return nil
	}
	return a.bill(s, h, turn.ReplayBill(a.Store.Path(attemptDir(h.TurnID, h.Epoch))))
}

// overspent says whether a turn has used up its own budget, what the bill says
// included.
func (a *Agent) overspent(s state.State, h state.Head, bill []state.Event) bool {
	limit := a.Policy.Budget.Turn
	msg, ok := s.Message(h.Key)
	if limit <= 0 || !ok {
		return false
	}
	cost := msg.Cost
	for _, e := range bill {
		if spent, ok := e.(state.Spent); ok {
			cost += spent.Spending.Cost
		}
	}
	return cost >= limit
}

// Broke says why no turn runs for want of money, and until when; "" where there
// is some.
func (a *Agent) Broke(s state.State) string {
	if s.Tier(a.Policy, a.Now()) != state.TierDead {
		return ""
	}
	limit, _ := s.Tightest(a.Policy, a.Now())
	return fmt.Sprintf("%s is used up, and what you write waits %s", limit.What(), limit.Remedy())
}

// Credit tops the credit up, durable when it returns.
func (a *Agent) Credit(ctx context.Context, amount state.Micros, by string) (state.State, error) {
	return a.commit(ctx, state.Credited{Amount: amount, By: by})
}
