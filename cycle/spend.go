package cycle

import (
	"cmp"
	"context"
	"fmt"

	"agentstateloop/cycle/view"
	"agentstateloop/state"
	"agentstateloop/state/store"
	"agentstateloop/turn"
)

// The cost of turns: an attempt's bill, the calls that a turn reports one by one, and the money
// that is left.

// Allowance is the money that a turn may still spend: the rest of the credit, of the day's
// budget or of the turn's own budget, whichever is least. What names that limit. In tier
// critical a turn that the operator did not cause may not spend money. Left is meaningless
// without a limit.
type Allowance struct {
	Tier    state.Tier
	Left    state.Micros
	Limited bool
	What    string // "the credit of $5.00"
}

// Allowance returns the allowance of the calling turn.
func (a *Agent) Allowance(in Inside) (Allowance, error) {
	s, err := in.state(a.core())
	if err != nil {
		return Allowance{}, err
	}
	msg, _ := s.TurnMessage()
	return a.biller(a.mainBackend()).allowance(s, msg), nil
}

// biller computes the cost of turns.
type biller struct {
	core
	turn   *turn.Config // nil: no turn is run here
	prices turn.Prices
}

// allowance returns the money that the turn of a message may still spend.
func (b *biller) allowance(s state.State, msg state.Message) Allowance {
	now := b.now()
	least, limited := s.Tightest(*b.policy, now)
	w := Allowance{Tier: s.Tier(*b.policy, now), Left: max(0, least.Left), Limited: limited}
	if limited {
		w.What = least.What()
	}
	if w.Tier == state.TierCritical && !msg.Operator {
		w.Left, w.What = 0, "the money that is not reserved for the operator's messages"
	}
	limit := b.policy.Budget.Turn
	if left := max(0, limit-msg.Cost); limit > 0 && (!limited || left < w.Left) {
		w.Left, w.Limited, w.What = left, true, b.turnBudget()
	}
	return w
}

// affords reports whether the tier lets the turn of a message run (docs/design.md,
// "Phases").
func (b *biller) affords(s state.State, msg state.Message) bool {
	tier := s.Tier(*b.policy, b.now())
	return tier != state.TierDead && (tier != state.TierCritical || msg.Operator)
}

// turnBudget returns the budget of one turn, in words.
func (b *biller) turnBudget() string {
	return fmt.Sprintf("the budget of one turn, %v,", b.policy.Budget.Turn)
}

// Spend counts the cost of a call, durable when it returns nil. usd is the
// provider's own figure; if it is 0, the price table gives the cost. Each spending
// counts once, under its id, even if the turn is over; Spend then returns
// ErrStale.
func (a *Agent) Spend(ctx context.Context, in Inside, sp state.Spending, usd float64) error {
	s, err := a.Store.Read()
	if err != nil {
		return err
	}
	e := state.Spent{TurnID: in.TurnID, Epoch: in.Epoch, From: senderOf(s, in.TurnID)}
	e.Spending, e.Odd = a.biller(a.mainBackend()).price(sp, usd)
	if s, err = a.journal().commit(ctx, e); err != nil {
		return err
	}
	return in.check(s)
}

// senderOf returns the sender that caused a turn, while its message is in the
// inbox.
func senderOf(s state.State, turnID string) string {
	msg, _ := s.MessageOfTurn(turnID)
	return msg.From
}

// price returns the spending with its cost: the provider's own figure if it is plausible, or
// else that of the price table. odd describes an implausible figure.
func (b *biller) price(sp state.Spending, usd float64) (_ state.Spending, odd string) {
	own, ok := state.Dollars(usd)
	if ok && own > 0 && own <= state.MaxSpent {
		sp.Cost, sp.Basis = own, state.BasisProvider
		return sp, ""
	}
	if own != 0 || !ok {
		odd = fmt.Sprintf("the reported cost of $%g is not plausible: priced by its tokens", usd)
	}
	cost, known := b.prices.Cost(sp.Model, sp.Tokens)
	sp.Cost, sp.Basis = cost, state.BasisTable
	if !known {
		sp.Basis = state.BasisDearest
	}
	return sp, odd
}

// bill returns the cost of an attempt as events for the commit that ends it. It returns no
// events if the agent reported no cost, or has reported it already. The cost counts once, under
// the attempt's own id, however often it is committed.
func (b *biller) bill(s state.State, h state.Head, reported turn.Bill) []state.Event {
	if b.turn == nil || reported.Settled {
		return nil
	}
	e := state.Spent{TurnID: h.TurnID, Epoch: h.Epoch, From: senderOf(s, h.TurnID)}
	tokens := state.Tokens(reported.Usage)
	if reported.Meter != "" && tokens != (state.Tokens{}) {
		e.Meter = state.Meter{Session: reported.Meter, Tokens: tokens}
		tokens = meterRise(tokens, s.Purse.MeterOf(reported.Meter))
	}
	if reported.CostUSD == 0 && tokens == (state.Tokens{}) {
		return nil
	}
	e.Spending, e.Odd = b.price(state.Spending{
		ID:     fmt.Sprintf("%s.%d", h.TurnID, h.Epoch),
		Model:  cmp.Or(reported.Model, b.turn.Runner),
		Tokens: tokens,
	}, reported.CostUSD)
	return []state.Event{e}
}

// meterRise returns the rise of a session's meter since it was last read. A meter that shows less
// has started again.
func meterRise(now state.Tokens, last state.Meter) state.Tokens {
	was := last.Tokens
	if now.Input < was.Input || now.Output < was.Output || now.CacheRead < was.CacheRead || now.CacheWrite < was.CacheWrite {
		return now
	}
	return state.Tokens{
		Input: now.Input - was.Input, Output: now.Output - was.Output,
		CacheRead: now.CacheRead - was.CacheRead, CacheWrite: now.CacheWrite - was.CacheWrite,
	}
}

// orphanBill returns the bill of an attempt whose runner died before it committed
// one.
func (b *biller) orphanBill(s state.State, h state.Head) []state.Event {
	if h.Pulled || h.TurnID == "" {
		return nil
	}
	return b.bill(s, h, b.replayBill(b.store.Path(store.AttemptDir(h.TurnID, h.Epoch))))
}

// replayBill returns the bill of the attempt in dir, whose runner died.
func (b *biller) replayBill(dir string) turn.Bill {
	if b.turn == nil {
		return turn.Bill{}
	}
	return turn.ReplayBill(dir, b.turn.Runner)
}

// overspent reports whether a turn has used up its own budget, this bill
// included.
func (b *biller) overspent(s state.State, h state.Head, bill []state.Event) bool {
	limit := b.policy.Budget.Turn
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

// OutOfMoney returns the reason why no turn runs for lack of money, and until when, or "" if the
// agent has money.
func (a *Agent) OutOfMoney(s state.State) string { return view.OutOfMoney(s, a.Policy, a.Now()) }

// Credit adds to the credit, durable when it returns.
func (a *Agent) Credit(ctx context.Context, amount state.Micros, by string) (state.State, error) {
	return a.journal().commit(ctx, state.Credited{Amount: amount, By: by})
}
