package commands

import (
	"fmt"

	"github.com/urfave/cli/v2"

	"agentstateloop/commands/terminal"
	"agentstateloop/state"
)

type transitionCmd struct {
	agents agents
	out    *terminal.Output
}

func transitionCommand(p *program) *cli.Command {
	return &cli.Command{
		Name:      "transition",
		Usage:     "put the agent into IDLE, PREP or ACTIVE yourself",
		ArgsUsage: "IDLE|PREP|ACTIVE",
		Description: `Does what entering and leaving a phase does (mails, timers, crontab line), then
runs an ordinary cycle. If the agent is in that phase already, nothing changes.

Example:
  agentstateloop transition IDLE --no-mail`,
		Flags: []cli.Flag{
			reasonFlag(),
			switchFlag("no-mail", "send no mail about it"),
			switchFlag("no-poll", "run no cycle afterwards"),
		},
		Action: transitionCmd{p.agents(), &p.out}.run,
	}
}

// transitionOutput is the JSON output of transition.
type transitionOutput struct {
	Agent   string      `json:"agent"`
	Before  state.Phase `json:"before"`
	Phase   state.Phase `json:"phase"`
	Changed bool        `json:"changed"`
}

func (t transitionCmd) run(c *cli.Context) error {
	if err := arguments(c, 1, 1); err != nil {
		return err
	}
	to, err := state.ParsePhase(c.Args().First())
	if err != nil {
		return terminal.Usagef("", "%v", err)
	}
	a, err := t.agents.load(c)
	if err != nil {
		return err
	}
	s, err := a.Order(c.Context, to, c.String("reason"), c.Bool("no-mail"))
	if err != nil {
		return err
	}
	result := transitionOutput{Agent: a.Handle, Before: s.Phase, Phase: s.Phase}
	for _, l := range s.Lines {
		if l.Kind == state.LineTransition {
			result.Changed, result.Before = true, l.Old
		}
	}
	if !c.Bool("no-poll") {
		pollAfter(c.Context, a, t.out)
	}
	if c.Bool("json") {
		return t.out.JSON(result)
	}
	text := fmt.Sprintf("%s → %s", result.Before, result.Phase)
	if !result.Changed {
		text = fmt.Sprintf("is %s already; nothing changed", result.Phase)
	}
	t.out.Printf("@%s %s\n", a.Handle, text)
	return nil
}
