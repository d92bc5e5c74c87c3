package commands

import (
	"github.com/urfave/cli/v2"

	"agentstateloop/commands/terminal"
	"agentstateloop/state"
)

type askCmd struct {
	agents agents
	input  input
	out    *terminal.Output
}

func askCommand(p *program) *cli.Command {
	return &cli.Command{
		Name:      "ask",
		Usage:     "for the agent: ask another agent, and wake for its answer",
		ArgsUsage: "HANDLE TEXT",
		Description: `Sends a question via the mesh and prints its id. Then let the turn end: it goes
on, as the same turn, when every answer has come or is late. With - as TEXT the
question is read from standard input.

Example:
  agentstateloop ask dorlange3120 "which commit is live?" --deadline 10m`,
		Flags: []cli.Flag{
			durationFlag("deadline", "give up waiting after `DURATION`", state.DefaultPatience),
		},
		Action: askCmd{p.agents(), p.input(), &p.out}.run,
	}
}

func (a askCmd) run(c *cli.Context) error {
	to, text, err := a.input.handleAndText(c)
	if err != nil {
		return err
	}
	turn, err := a.agents.turn(c)
	if err != nil {
		return err
	}
	id, err := turn.ask(c.Context, to, text, durationOf(c, "deadline"))
	if err != nil {
		return err
	}
	if c.Bool("json") {
		return a.out.JSON(struct {
			ID string `json:"tool_call_id"`
		}{id})
	}
	a.out.Printf("%s\n", id)
	return nil
}
