package commands

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/urfave/cli/v2"

	"agentstateloop/commands/terminal"
	"agentstateloop/cycle"
	"agentstateloop/internal/lazy"
	"agentstateloop/state"
)

func creditCommand(p *program) *cli.Command {
	return &cli.Command{
		Name:      "credit",
		Usage:     "show the remaining credit, or top it up",
		ArgsUsage: "[USD]",
		Description: `Without an amount, shows the remaining credit. With an amount, adds that many
dollars permanently; an agent that was out of money resumes immediately.

The remaining credit is credit_usd of [budget] plus all top-ups, minus all
spending since credit_usd was first set. A change of credit_usd changes it by
the difference.

Example:
  agentstateloop credit 5`,
		Action: p.action(0, 1, credit),
	}
}

func credit(c *call) error {
	var amount state.Micros
	if len(c.args) == 1 {
		var err error
		if amount, err = parseUSD(c.arg(0)); err != nil {
			return terminal.Usagef(`use an amount such as "5" or "0.50"`, "%v", err)
		}
	}
	a, err := c.load()
	if err != nil {
		return err
	}
	var s state.State
	if amount == 0 {
		s, err = a.Store.Read()
	} else {
		s, err = topUp(c, a, amount)
	}
	if err != nil {
		return err
	}
	return printCredit(c, a, s)
}

func topUp(c *call, a *cycle.Agent, amount state.Micros) (state.State, error) {
	if !a.Policy.Budget.HasCredit {
		return state.State{}, terminal.Usagef("set credit_usd in [budget] of "+a.Config+"; with 0 only top-ups count",
			"cannot top up: no credit is configured")
	}
	s, err := a.Credit(c.ctx, amount, userName())
	if err != nil {
		return s, err
	}
	c.pollAfter(a)
	return s, nil
}

// usd matches an amount in the form that a person types.
var usd = lazy.NewRegexp(`^\$?([0-9]{1,6}(?:\.[0-9]{1,6})?)$`)

// parseUSD reads an amount above zero and below a million dollars.
func parseUSD(text string) (state.Micros, error) {
	parts := usd.Get().FindStringSubmatch(strings.TrimSpace(text))
	if parts == nil {
		return 0, fmt.Errorf("%q is not an amount in dollars", text)
	}
	n, err := strconv.ParseFloat(parts[1], 64)
	amount, ok := state.Dollars(n)
	if err != nil || !ok || amount == 0 {
		return 0, fmt.Errorf("%q is not greater than zero", text)
	}
	return amount, nil
}

// creditOutput is the JSON output of credit. credit_usd is null if no credit is configured.
type creditOutput struct {
	Agent     string     `json:"agent"`
	CreditUSD *float64   `json:"credit_usd"`
	DayUSD    float64    `json:"day_usd"`
	MonthUSD  float64    `json:"month_usd"`
	Tier      state.Tier `json:"tier"`
}

func printCredit(c *call, a *cycle.Agent, s state.State) error {
	today, month := s.SpentOn(a.Policy, c.now())
	left, known := s.Balance(a.Policy)
	result := creditOutput{Agent: a.Handle, DayUSD: today.USD(), MonthUSD: month.USD(), Tier: s.Tier(a.Policy, c.now())}
	if known {
		n := left.USD()
		result.CreditUSD = &n
	}
	if !known {
		return c.print(result, "@%s has no credit configured: %v spent today, %v this month\n", a.Handle, today, month)
	}
	return c.print(result, "@%s has %v of credit left (%s): %v spent today, %v this month\n", a.Handle, left, result.Tier, today, month)
}
