package commands

import (
	"github.com/urfave/cli/v2"

	"agentstateloop/cycle"
)

func meshResumeCommand(p *program) *cli.Command {
	m := meshHaltCmd{meshCarrier{p.agents(), &p.out}}
	return &cli.Command{
		Name:  "resume",
		Usage: "lift the mesh's HALT",
		Description: `To lift a HALT that was set for one agent, by halt or by mail, use resume.

Example:
  agentstateloop mesh resume`,
		Action: func(c *cli.Context) error {
			return m.run(c, cycle.Carrier.Go, false, "the agents on the mesh at %s go on\n")
		},
	}
}
