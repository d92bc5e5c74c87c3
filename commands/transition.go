package commands

import (
	"fmt"

	"github.com/urfave/cli/v2"

	"agentstateloop/commands/terminal"
	"agentstateloop/state"
)

func (p *program) transitionCommand() *cli.Command {
	return &cli.Command{
		Name:      "transition",
		Usage:     "put the agent into IDLE, PREP or ACTIVE yourself",
		ArgsUsage: "IDLE|PREP|ACTIVE",
		Description: `The operator's override: does what entering and leaving that state does
(mails, timers, crontab line), then runs an ordinary cycle. To the state it
is in already it changes nothing.

Example:
  agentstateloop transition IDLE --no-mail`,
		Flags: []cli.Flag{
			reasonFlag(),
			switchFlag("no-mail", "without the mail that goes with it"),
			switchFlag("no-poll", "without the cycle that follows"),
		},
		BashComplete: func(*cli.Context) {
			p.out.Printf("%s\n%s\n%s\n", state.IDLE, state.PREP, state.ACTIVE)
		},
		Action: p.transition,
	}
}

func (p *program) transition(c *cli.Context) error {
	if err := arguments(c, 1, 1); err != nil {
		return err
	}
	to, err := state.ParsePhase(c.Args().First())
	if err != nil {
		return terminal.Usagef("", "%v", err)
	}
	a, err := p.agent(c)
	if err != nil {
		return err
	}
	s, err := a.Order(c.Context, to, c.String("reason"), c.Bool("no-mail"))
	if err != nil {
		return err
	}
	result := transitioned{Agent: a.Handle, Phase: s.Phase}
	for _, l := range s.Lines {
		if l.Kind == state.LineTransition {
			result.Changed, result.Before = true, l.Old
		}
	}
	if !result.Changed {
		result.Before = s.Phase
	}
	if !c.Bool("no-poll") {
		p.follow(c.Context, a)
	}
	if c.Bool("json") {
		return p.out.JSON(result)
	}
	text := fmt.Sprintf("%s → %s", result.Before, result.Phase)
	if !result.Changed {
		text = fmt.Sprintf("is %s already; nothing changed", result.Phase)
	}
	p.out.Printf("@%s %s\n", a.Handle, text)
	return nil
}

// transitioned is what transition --json prints.
type transitioned struct {
	Agent   string      `json:"agent"`
	Before  state.Phase `json:"before"`
	Phase   state.Phase `json:"phase"`
	Changed bool        `json:"changed"`
}
