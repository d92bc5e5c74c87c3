package state

import (
	"fmt"
	"slices"
	"time"
)

// The cost of turns. Money counts as soon as any process knows that it is spent. A paid call counts
// even if its turn is over.

// Tokens counts the tokens that a model read and wrote. Input excludes tokens read from or written
// to the cache.
type Tokens struct {
	Input      int64 `json:"input,omitempty"`
	Output     int64 `json:"output,omitempty"`
	CacheRead  int64 `json:"cache_read,omitempty"`
	CacheWrite int64 `json:"cache_write,omitempty"`
}

// The sources of the cost of a spending.
const (
	BasisProvider = "provider" // the figure of the provider or the agent
	BasisTable    = "table"    // the price table
	BasisDearest  = "dearest"  // the highest price of the table, because it does not list the model
)

// Spending is one call to a model, or all calls of one agent process. It counts once under its ID.
type Spending struct {
	ID     string `json:"id"`
	Model  string `json:"model,omitempty"`
	Tokens Tokens `json:"tokens,omitzero"`
	Cost   Micros `json:"micros"`
	Basis  string `json:"basis,omitempty"`
}

// Spent reports the cost of a turn. From is the sender who caused it. Meter is set if the agent
// counts tokens over its whole session.
type Spent struct {
	TurnID   string
	Epoch    uint64
	From     string
	Spending Spending
	Meter    Meter
	Odd      string // the reported figures that were not believed, in words
}

// Credited reports `credit USD`, which tops the credit up.
type Credited struct {
	Amount Micros
	By     string
}

// Meter is an agent's count of one of its sessions so far. Only the increase since the last count
// is new.
type Meter struct {
	Session string `json:"session,omitempty"`
	Tokens  Tokens `json:"tokens,omitzero"`
}

// Purse holds the running totals. Each local day has its own account, and so has each month. A
// clock that jumps over midnight finds the account of the new day. A clock that jumps back finds
// the account of the old day with all its spending. So a budget is never given twice, and never
// stays used up.
type Purse struct {
	Days   []Account `json:"days,omitempty"`   // last used at the end
	Months []Account `json:"months,omitempty"` // last used at the end
	Total  Micros    `json:"total,omitempty"`  // of all time

	// Credit counts from the time when it was first configured. Base is the Total at that time.
	// Granted is the sum of the top-ups.
	Opened  bool   `json:"opened,omitempty"`
	Base    Micros `json:"base,omitempty"`
	Granted Micros `json:"granted,omitempty"`

	Counted []string `json:"counted,omitempty"` // ids of spendings, newest last
	Meter   Meter    `json:"meter,omitzero"`    // of the session billed last
	Meters  []Meter  `json:"meters,omitempty"`  // of other sessions, newest last

	Unpriced  []string `json:"unpriced,omitempty"` // models without a price
	Unbilled  []string `json:"unbilled,omitempty"` // backends that report no cost and no tokens
	Tier      Tier     `json:"tier,omitempty"`     // as last recorded
	DeathTold string   `json:"mourned,omitempty"`  // the death that the operator was told about
}

func (p Purse) clone() Purse {
	p.Days, p.Months = slices.Clone(p.Days), slices.Clone(p.Months)
	p.Counted, p.Meters = slices.Clone(p.Counted), slices.Clone(p.Meters)
	p.Unpriced, p.Unbilled = slices.Clone(p.Unpriced), slices.Clone(p.Unbilled)
	return p
}

// Account is the spending in a period: a local day ("2026-03-02") or a month ("2026-03").
type Account struct {
	Period string `json:"period"`
	Cost   Micros `json:"micros"`
}

// How many entries are kept. An account is dropped only after money was spent in that many other
// periods.
const (
	daysKept      = 8
	monthsKept    = 3
	countedKept   = 256
	countedBefore = 16 // of these, ids of earlier turns
	unpricedKept  = 8
	metersKept    = MaxConversations + MaxThreads + 1
)

// MaxSpent bounds one spending. A higher figure is not believed.
const MaxSpent = 1_000 * Dollar

// maxTokens bounds each token count of one spending.
const maxTokens = 1_000_000_000

// Day returns the local day of t under which money is counted: "2026-03-02".
func (p Policy) Day(t time.Time) string {
	if p.Location == nil {
		return t.UTC().Format(time.DateOnly)
	}
	return t.In(p.Location).Format(time.DateOnly)
}

// month returns the month of a day.
func month(day string) string { return day[:min(len(day), len("2006-01"))] }

// SpentOn returns the spending on the local day of now, and in its month.
func (s State) SpentOn(p Policy, now time.Time) (today, thisMonth Micros) {
	day := p.Day(now)
	return account(s.Purse.Days, day), account(s.Purse.Months, month(day))
}

func account(in []Account, period string) Micros {
	for _, a := range in {
		if a.Period == period {
			return max(0, a.Cost)
		}
	}
	return 0
}

// charge adds cost to the account of a period.
func charge(in []Account, period string, cost Micros, kept int) []Account {
	i := slices.IndexFunc(in, func(a Account) bool { return a.Period == period })
	a := Account{Period: period}
	if i >= 0 {
		a = in[i]
		in = slices.Delete(in, i, i+1)
	}
	a.Cost = a.Cost.plus(cost)
	in = append(in, a)
	return slices.Delete(in, 0, max(0, len(in)-kept))
}

// apply counts a spending once.
func (e Spent) apply(m *machine) {
	sp, odd := e.Spending.bounded()
	odd = join(e.Odd, odd)
	if sp.ID == "" || slices.Contains(m.Purse.Counted, sp.ID) {
		return
	}
	l := Line{Kind: LineSpend, TurnID: e.TurnID, Epoch: e.Epoch, From: e.From, Day: m.policy.Day(m.now), Spending: &sp, Reason: odd}
	if e.Meter != (Meter{}) {
		l.Meter = &e.Meter
	}
	if sp.Basis == BasisDearest && !slices.Contains(m.Purse.Unpriced, sp.Model) {
		l.Reason = join(l.Reason, fmt.Sprintf("the price of %q is unknown: counted at the highest known price", sp.Model))
	}
	m.enterSpending(l)
	m.line(l)
}

// Redacted implements [Redactable].
func (e Spent) Redacted(redact func(string) string) Event {
	e.Odd = redact(e.Odd)
	return e
}

func join(a, b string) string {
	if a == "" || b == "" {
		return a + b
	}
	return a + "; " + b
}

// bounded returns the spending with its impossible figures replaced. odd describes those figures in
// words.
func (sp Spending) bounded() (_ Spending, odd string) {
	if sp.Cost < 0 || sp.Cost > MaxSpent {
		odd = fmt.Sprintf("a cost of %v is impossible", sp.Cost)
		sp.Cost = min(max(sp.Cost, 0), MaxSpent)
		odd += fmt.Sprintf(": counted as %v", sp.Cost)
	}
	for _, n := range []*int64{&sp.Tokens.Input, &sp.Tokens.Output, &sp.Tokens.CacheRead, &sp.Tokens.CacheWrite} {
		if *n < 0 || *n > maxTokens {
			odd = join(odd, fmt.Sprintf("%d tokens are impossible", *n))
			*n = min(max(*n, 0), maxTokens)
		}
	}
	return sp, odd
}

// enterSpending enters the spending of a line, now or when the state is rebuilt.
func (m *machine) enterSpending(l Line) {
	p, sp := &m.Purse, l.Spending
	p.Days = charge(p.Days, l.Day, sp.Cost, daysKept)
	p.Months = charge(p.Months, month(l.Day), sp.Cost, monthsKept)
	p.Total = p.Total.plus(sp.Cost)
	p.Counted = append(p.Counted, sp.ID)
	p.Counted = slices.Delete(p.Counted, 0, max(0, len(p.Counted)-countedKept))
	if l.Meter != nil {
		p.enterMeter(*l.Meter)
	}
	p.Unpriced = slices.DeleteFunc(p.Unpriced, func(model string) bool { return model == sp.Model })
	if sp.Basis == BasisDearest {
		p.Unpriced = append(p.Unpriced, sp.Model)
		p.Unpriced = slices.Delete(p.Unpriced, 0, max(0, len(p.Unpriced)-unpricedKept))
	}
	m.noteLateCost(l)
	for i := range m.Inbox { // all that share the turn
		if row := &m.Inbox[i]; row.TurnID == l.TurnID && l.TurnID != "" {
			row.Cost = row.Cost.plus(sp.Cost)
		}
	}
}

// enterMeter enters the meter of a session. Sessions alternate when several principals have one, so
// the other meters are kept.
func (p *Purse) enterMeter(now Meter) {
	if p.Meter.Session != now.Session && p.Meter.Session != "" {
		p.Meters = append(p.Meters, p.Meter)
	}
	p.Meters = slices.DeleteFunc(p.Meters, func(m Meter) bool { return m.Session == now.Session })
	p.Meters = slices.Delete(p.Meters, 0, max(0, len(p.Meters)-metersKept))
	p.Meter = now
}

// MeterOf returns the last meter of a session. It is empty if the meter is unknown.
func (p Purse) MeterOf(session string) Meter {
	if p.Meter.Session == session {
		return p.Meter
	}
	for _, m := range p.Meters {
		if m.Session == session {
			return m
		}
	}
	return Meter{}
}

// forgetCounted drops most spending ids of earlier turns.
func (m *machine) forgetCounted() {
	p := &m.Purse
	p.Counted = slices.Delete(p.Counted, 0, max(0, len(p.Counted)-countedBefore))
}

// openCredit starts to count credit when a credit is configured for the first time. It does not
// start again later, even if the setting goes away and comes back.
func (m *machine) openCredit() {
	if !m.policy.Budget.HasCredit || m.Purse.Opened {
		return
	}
	m.Purse.Opened, m.Purse.Base = true, m.Purse.Total
	m.line(Line{Kind: LineCredit, What: WordOpened, Amount: m.policy.Budget.Credit})
}

func (e Credited) apply(m *machine) {
	if e.Amount <= 0 || e.Amount > maxMoney {
		return
	}
	m.Purse.Granted = m.Purse.Granted.plus(e.Amount)
	m.line(Line{Kind: LineCredit, What: WordToppedUp, From: e.By, Amount: e.Amount})
}

// applyCreditLine restores the credit of a rebuilt state, as applySpendLine restores its spending.
func (m *machine) applyCreditLine(l Line) {
	switch l.What {
	case WordOpened:
		m.Purse.Opened, m.Purse.Base = true, m.Purse.Total
	case WordToppedUp:
		m.Purse.Granted = m.Purse.Granted.plus(l.Amount)
	}
}

func (m *machine) applySpendLine(l Line) {
	if l.Spending != nil && !slices.Contains(m.Purse.Counted, l.Spending.ID) {
		m.enterSpending(l)
	}
}

// Billed reports whether the last turn of a backend gave its cost, in dollars or in tokens. Without
// that a budget cannot count it.
type Billed struct {
	Backend string
	Known   bool
}

// apply remembers the backends that cannot be counted.
func (e Billed) apply(m *machine) {
	i := slices.Index(m.Purse.Unbilled, e.Backend)
	switch {
	case e.Known && i >= 0:
		m.Purse.Unbilled = slices.Delete(m.Purse.Unbilled, i, i+1)
	case !e.Known && i < 0:
		m.Purse.Unbilled = append(m.Purse.Unbilled, e.Backend)
	}
}

// Uncounted returns the backends whose turns a budget cannot count, if a budget is set.
func (s State) Uncounted(p Policy) []string {
	if b := p.Budget; !b.HasCredit && b.Day == 0 && b.Turn == 0 {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(s.Purse.Unbilled), func(name string) bool { return !slices.Contains(p.BackendNames(), name) })
}
