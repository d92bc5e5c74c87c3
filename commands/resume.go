package commands

import (
	"github.com/urfave/cli/v2"

	"agentstateloop/cycle"
)

func resumeCommand(p *program) *cli.Command {
	h := haltCmd{p.agents(), &p.out}
	return &cli.Command{
		Name:  "resume",
		Usage: "lift a halt",
		Description: `Lifts a HALT that was set by halt or by a mail of yours, and sends what was held
back. A HALT that was set on the mesh is lifted with mesh resume.

Example:
  agentstateloop resume`,
		Flags:  []cli.Flag{reasonFlag()},
		Action: func(c *cli.Context) error { return h.run(c, (*cycle.Agent).Resume) },
	}
}
