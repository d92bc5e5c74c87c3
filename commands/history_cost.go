package commands

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"

	"agentstateloop/commands/terminal"
	"agentstateloop/internal/order"
	"agentstateloop/internal/plain"
	"agentstateloop/state"
)

// The values of --by.
const (
	byTurn   = "turn"
	byDay    = "day"
	byMonth  = "month"
	bySender = "sender"
)

// costRow is the sum of the spendings of one turn, day, month or sender. Calls counts the calls
// to a model, or the attempts of a runner without a count of calls.
type costRow struct {
	Key    string     `json:"key"`
	From   string     `json:"from"` // of a turn: the sender of its message
	Calls  int        `json:"calls"`
	Tokens costTokens `json:"tokens"`
	USD    float64    `json:"usd"`

	cost state.Micros
}

// costTokens holds the token counts in the JSON output.
type costTokens struct {
	Input      int64 `json:"input"`
	Output     int64 `json:"output"`
	CacheRead  int64 `json:"cache_read"`
	CacheWrite int64 `json:"cache_write"`
}

// costs is the output of history --cost.
type costs struct {
	By       string     `json:"by"`
	Rows     []*costRow `json:"rows"`
	Total    costRow    `json:"total"`
	Unpriced []string   `json:"unpriced"` // models without a price, billed like the most expensive one

	rows map[string]*costRow
}

// printCost shows the cost of turns.
func (o *historyOptions) printCost(c *call) error {
	by := cmp.Or(o.by, byDay)
	if !slices.Contains([]string{byTurn, byDay, byMonth, bySender}, by) {
		return terminal.Usagef("", "--by %q is not one of: turn, day, month, sender", by)
	}
	if flag := c.given(&o.n, &o.follow, &o.all); flag != "" {
		return terminal.Usagef("", "--cost covers the whole history: --%s does not work with it", flag)
	}
	a, err := c.load()
	if err != nil {
		return err
	}
	sum := costs{By: by, Rows: []*costRow{}, Unpriced: []string{}, rows: map[string]*costRow{}}
	tail := historyTail{store: a.Store}
	if err := tail.walk(sum.add); err != nil {
		return err
	}
	if by == bySender { // the other rows are in order of time
		order.Stable(sum.Rows, func(a, b *costRow) int { return cmp.Compare(b.cost, a.cost) })
	}
	if c.json {
		return c.out.JSON(sum)
	}
	return c.printCosts(sum)
}

// add counts a history line.
func (s *costs) add(l state.Line) {
	if l.Kind != state.LineSpend || l.Spending == nil {
		return
	}
	key, from := l.Day, ""
	switch s.By {
	case byTurn:
		key, from = l.TurnID, l.From
	case byMonth:
		key = l.Day[:min(len(l.Day), len("2006-01"))]
	case bySender:
		key = l.From
	}
	row := s.rows[key]
	if row == nil {
		row = &costRow{Key: key, From: from}
		s.rows[key] = row
		s.Rows = append(s.Rows, row)
	}
	row.add(*l.Spending)
	s.Total.add(*l.Spending)
	if l.Spending.Basis == state.BasisDearest && !slices.Contains(s.Unpriced, l.Spending.Model) {
		s.Unpriced = append(s.Unpriced, l.Spending.Model)
	}
}

func (r *costRow) add(sp state.Spending) {
	r.Calls++
	r.Tokens.Input += sp.Tokens.Input
	r.Tokens.Output += sp.Tokens.Output
	r.Tokens.CacheRead += sp.Tokens.CacheRead
	r.Tokens.CacheWrite += sp.Tokens.CacheWrite
	r.cost += sp.Cost
	r.USD = r.cost.USD()
}

func (c *call) printCosts(s costs) error {
	if len(s.Rows) == 0 {
		c.out.Printf("no costs are recorded\n")
		return nil
	}
	w := tabwriter.NewWriter(c.out.Stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	row := func(r costRow) {
		fmt.Fprintf(w, "%s\t%d\t%d\t%d\t%d\t%d\t%v\t", cmp.Or(plain.Line(r.Key), "unknown"),
			r.Calls, r.Tokens.Input, r.Tokens.Output, r.Tokens.CacheRead, r.Tokens.CacheWrite, r.cost)
		if r.From != "" {
			fmt.Fprintf(w, " %s", plain.Line(r.From))
		}
		fmt.Fprintln(w)
	}
	fmt.Fprintf(w, "%s\tcalls\tinput\toutput\tcache read\tcache write\tcost\t\n", s.By)
	for _, r := range s.Rows {
		row(*r)
	}
	s.Total.Key = "total"
	row(s.Total)
	if err := w.Flush(); err != nil {
		return err
	}
	if len(s.Unpriced) > 0 {
		c.out.Warn("the price of %s is unknown: its turns count as the most expensive model; set [prices.%q]", strings.Join(s.Unpriced, ", "), s.Unpriced[0])
	}
	return nil
}
