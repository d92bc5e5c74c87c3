package commands

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"agentstateloop/commands/config"
	"agentstateloop/commands/terminal"
	"agentstateloop/cycle"
	"agentstateloop/internal/plain"
	"agentstateloop/state"
)

func (p *program) statusCommand() *cli.Command {
	return &cli.Command{
		Name:      "status",
		Usage:     "where the agent stands, and what is wrong",
		ArgsUsage: "[FILE|DIR...]",
		Description: `Reads the agent's files and nothing else: no lock, no network. In scripts use
--json, whose fields are always there, null where there is nothing to say.

With --all, a line for each agent whose configuration is named, or lies in a
folder that is named, else in the folder of yours; and, asked of the mesh, the
agents that are online beside them. Exits 3 if the mesh does not answer.

With --watch it goes on until Ctrl-C; with --json, too, a line each time.

Example:
  agentstateloop status --json | jq -r .phase
  agentstateloop status --all`,
		Flags: []cli.Flag{
			switchFlag("all", "all agents, yours and those on the mesh"),
			switchFlag("watch", "go on, and show it again whenever it changes"),
		},
		Action: p.status,
	}
}

func (p *program) status(c *cli.Context) error {
	if c.Bool("all") && c.Bool("watch") {
		return terminal.Usagef("watch one agent, named with --config FILE", "--watch is for one agent, and --all shows all")
	}
	if c.Bool("all") {
		return p.statusAll(c)
	}
	if c.NArg() > 0 {
		return terminal.Usagef("several agents are shown with --all; one of them with --config FILE", "unexpected argument %q", c.Args().First())
	}
	a, err := p.agent(c)
	if err != nil {
		return err
	}
	if c.Bool("watch") {
		return watch(c.Context, a, func(s cycle.Status) error {
			if c.Bool("json") {
				return p.out.JSONLine(s)
			}
			return p.printStatus(a, s)
		})
	}
	s, err := a.Status()
	if err != nil {
		return err
	}
	if c.Bool("json") {
		return p.out.JSON(s)
	}
	return p.printStatus(a, s)
}

// printStatus prints the status of an agent for a person.
func (p *program) printStatus(a *cycle.Agent, s cycle.Status) error {
	text := statusText(s, a.Schedule.Mode, p.loader.Now())
	if config.Unproved(a) {
		text += fmt.Sprintf("  %-10s %s\n", "TRUST", `require = "from" checks nothing: whoever writes your address into From can run your agent`)
	}
	_, err := io.WriteString(p.out.Stdout, text)
	return err
}

// statusText is the status for a person: what is wrong in capitals, what is
// as it should be in few words.
func statusText(s cycle.Status, mode string, now time.Time) string {
	var b strings.Builder
	row := func(label, format string, args ...any) {
		fmt.Fprintf(&b, "  %-10s %s\n", label, plain.Line(fmt.Sprintf(format, args...)))
	}
	fmt.Fprintf(&b, "@%s is %s", s.Agent, s.Phase)
	if s.PhaseSince != nil {
		fmt.Fprintf(&b, " since %s (%s)", terminal.Clock(*s.PhaseSince, now), terminal.Short(max(0, now.Sub(*s.PhaseSince))))
	}
	b.WriteString("\n")
	if s.Halted {
		row("HALTED", "no turns, no mail, until %s", terminal.ResumeCommands(s.HaltedBy))
	}
	if s.Cooldown != nil {
		row("COOL-DOWN", "too many turns failed in a row: none until %s (%s)", terminal.Clock(*s.Cooldown, now), terminal.Distance(*s.Cooldown, now))
	}
	if s.Spend.Remedy != nil && s.Spend.Limit != nil {
		row("BROKE", "%s is used up: no turns %s", *s.Spend.Limit, *s.Spend.Remedy)
	}
	for _, credential := range slices.Sorted(maps.Keys(s.Credentials)) {
		c := s.Credentials[credential]
		row("CREDENTIAL", "%s fails: %s in a row since %s%s%s", credential, terminal.Count(c.Failures, "poll"), terminal.Clock(c.Since, now), whoKnows(c), inBrackets(c.Reason))
	}
	if s.Offline {
		row("OFFLINE", "mail %s: `%s doctor` says why", lastRead(s.LastLook, now), name)
	}
	if s.Outbox.Undeliverable > 0 {
		row("LOST", "%s could not be delivered; see `%s history`", terminal.Count(s.Outbox.Undeliverable, "message"), name)
	}
	statusPoll(row, s, mode, now)
	if s.Deadline != nil {
		row("timer", "IDLE at %s (%s) unless the operator writes", terminal.Clock(*s.Deadline, now), terminal.Distance(*s.Deadline, now))
	}
	row("inbox", "%d waiting, %d deferred, %d quarantined", s.Inbox.Waiting, s.Inbox.Deferred, s.Inbox.Quarantined)
	if s.Outbox.Waiting > 0 {
		row("outbox", "%d waiting", s.Outbox.Waiting)
	}
	statusTurn(row, s, now)
	statusSpend(row, s)
	return b.String()
}

// lastRead says since when mail has not been seen.
func lastRead(look *time.Time, now time.Time) string {
	if look == nil {
		return "could not be read yet"
	}
	return fmt.Sprintf("was last read at %s (%s)", terminal.Clock(*look, now), terminal.Distance(*look, now))
}

// inBrackets is a reason behind a sentence.
func inBrackets(reason string) string {
	if reason == "" {
		return ""
	}
	return " (" + reason + ")"
}

// whoKnows says who has been told of a credential that fails.
func whoKnows(c cycle.StatusCredential) string {
	switch {
	case c.OperatorTold:
		return "; you were told"
	case c.KeymasterTold:
		return "; the keymaster was told"
	}
	return "; NOBODY WAS TOLD YET"
}

// statusSpend tells what turns cost, where that is known or limited.
func statusSpend(row func(label, format string, args ...any), s cycle.Status) {
	if s.Spend.MonthUSD > 0 || s.Spend.LeftUSD != nil {
		row("spend", "%v today, %v this month", dollars(s.Spend.DayUSD), dollars(s.Spend.MonthUSD))
	}
	if s.Spend.LeftUSD != nil && s.Spend.Limit != nil {
		row("tier", "%s: %v is left of %s", s.Tier, dollars(*s.Spend.LeftUSD), *s.Spend.Limit)
	}
	for _, model := range s.Spend.Unpriced {
		row("PRICE", "none is known of %q, which is counted as the dearest model there is: set [prices.%q]", model, model)
	}
}

// dollars shows an amount.
func dollars(usd float64) state.Micros {
	amount, _ := state.Dollars(usd)
	return amount
}

// statusPoll tells when the next poll comes, and what fires it.
func statusPoll(row func(label, format string, args ...any), s cycle.Status, mode string, now time.Time) {
	switch {
	case s.NextDue == nil:
		row("next poll", "never polled yet: run `%s poll` once", name)
	case s.NextDue.Before(now.Add(-time.Minute)):
		row("OVERDUE", "the poll of %s (%s) did not come: %s", terminal.Clock(*s.NextDue, now), terminal.Distance(*s.NextDue, now), terminal.OverdueHint(mode == cycle.ModeNone))
	default:
		row("next poll", "%s (%s)", terminal.Clock(*s.NextDue, now), terminal.Distance(*s.NextDue, now))
	}
	if s.Schedule.Error != nil {
		row("CRONTAB", "cannot be set: %s", *s.Schedule.Error)
	}
	installed := "no line"
	if s.Schedule.Installed != nil {
		installed = *s.Schedule.Installed
	}
	switch {
	case mode == cycle.ModeNone:
		row("schedule", "mode none: something else polls")
	case mode != cycle.ModeCrontab:
		row("schedule", "mode %s: the crontab is yours", mode)
	case s.Schedule.Wanted == nil:
		row("schedule", "uninstalled: `%s init` installs the line again", name)
	case *s.Schedule.Wanted == installed:
		row("schedule", "%s", installed)
	default:
		row("schedule", "%s is installed, %s is wanted", installed, *s.Schedule.Wanted)
	}
}

// statusTurn tells what the agent is doing, or that it sleeps.
func statusTurn(row func(label, format string, args ...any), s cycle.Status, now time.Time) {
	t := s.Turn
	switch {
	case t.Status != state.HeadIdle:
		row("turn", "%s", turnText(t, now))
	case s.Asleep:
		row("turn", "asleep")
	}
	if t.LastOutput != nil {
		text := "last output " + terminal.Distance(*t.LastOutput, now)
		if t.KillAt != nil && t.KillFor != nil {
			text += fmt.Sprintf(", is ended %s because it %s", terminal.Distance(*t.KillAt, now), *t.KillFor)
		}
		if t.CostUSD != nil && *t.CostUSD > 0 {
			text += fmt.Sprintf(", $%.2f so far", *t.CostUSD)
		}
		row("agent", "%s", text)
	}
	if s.SleepUntil != nil {
		row("rest", "wishes to be left alone until %s (%s)", terminal.Clock(*s.SleepUntil, now), terminal.Distance(*s.SleepUntil, now))
	}
}

func turnText(t cycle.StatusTurn, now time.Time) string {
	text := string(t.Status)
	if t.Since != nil {
		text += " for " + terminal.Short(max(0, now.Sub(*t.Since)))
	}
	if t.ID != nil && t.Epoch != nil {
		text += fmt.Sprintf(", %s epoch %d", *t.ID, *t.Epoch)
	}
	if t.State != nil {
		text += ", " + *t.State
	}
	if t.Tool != nil {
		text += " " + *t.Tool
	}
	if t.WaitingToolCount != nil && *t.WaitingToolCount > 0 {
		waits := terminal.Count(*t.WaitingToolCount, "tool")
		if t.Status == state.HeadSuspended {
			waits = terminal.Count(*t.WaitingToolCount, "answer")
		}
		text += ", waits for " + waits
	}
	if t.ResumeBy != nil {
		text += " until " + terminal.Clock(*t.ResumeBy, now)
	}
	return text
}
