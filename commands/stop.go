package commands

import (
	"errors"

	"github.com/urfave/cli/v2"

	"agentstateloop/commands/terminal"
	"agentstateloop/cycle"
)

type stopCmd struct {
	agents agents
	out    *terminal.Output
}

func stopCommand(p *program) *cli.Command {
	return &cli.Command{
		Name:  "stop",
		Usage: "end the turn that runs, and deliver what it has",
		Description: `Ends the agent's process and delivers what it had produced, marked canceled. The
next message is then served; to hold back everything, use halt.

Example:
  agentstateloop stop --reason "wrong repository"`,
		Flags:  []cli.Flag{reasonFlag()},
		Action: stopCmd{p.agents(), &p.out}.run,
	}
}

func (s stopCmd) run(c *cli.Context) error {
	if err := arguments(c, 0, 0); err != nil {
		return err
	}
	a, err := s.agents.load(c)
	if err != nil {
		return err
	}
	err = a.Stop(c.Context, c.String("reason"))
	stopping := err == nil
	if err != nil && !errors.Is(err, cycle.ErrNothing) {
		return err
	}
	if c.Bool("json") {
		return s.out.JSON(struct {
			Agent    string `json:"agent"`
			Stopping bool   `json:"stopping"`
		}{a.Handle, stopping})
	}
	if !stopping {
		s.out.Printf("@%s runs no turn\n", a.Handle)
		return nil
	}
	s.out.Printf("@%s is being stopped\n", a.Handle)
	return nil
}
