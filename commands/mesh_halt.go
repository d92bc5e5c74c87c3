package commands

import (
	"context"
	"fmt"

	"github.com/urfave/cli/v2"

	"agentstateloop/cycle"
)

// meshHaltCmd is the commands mesh halt and mesh resume.
type meshHaltCmd struct{ meshCarrier }

func meshHaltCommand(p *program) *cli.Command {
	m := meshHaltCmd{meshCarrier{p.agents(), &p.out}}
	return &cli.Command{
		Name:  "halt",
		Usage: "HALT every agent on the mesh",
		Description: `Until mesh resume, no agent on the mesh runs a turn or sends a mail; messages
are still collected. Agents that listen learn of it at once, the others at their
next poll. The mesh keeps it across a restart.

Example:
  agentstateloop mesh halt`,
		Action: func(c *cli.Context) error {
			return m.run(c, cycle.Carrier.Halt, true, "every agent on the mesh at %s is HALTED, until `"+name+" mesh resume`\n")
		},
	}
}

func (m meshHaltCmd) run(c *cli.Context, change func(cycle.Carrier, context.Context) error, halted bool, said string) error {
	if err := arguments(c, 0, 0); err != nil {
		return err
	}
	carrier, err := m.carrier(c)
	if err != nil {
		return err
	}
	if err := change(carrier, c.Context); err != nil {
		return err
	}
	if err := m.check(c.Context, carrier, halted); err != nil {
		return err
	}
	if c.Bool("json") {
		return m.out.JSON(struct {
			Halted bool `json:"halted"`
		}{halted})
	}
	m.out.Printf(said, carrier.Address())
	return nil
}

// check returns an error unless the mesh reports the requested state of HALT in the same way as
// to its agents. Another service may answer 200 to anything.
func (m meshHaltCmd) check(ctx context.Context, carrier cycle.Carrier, halted bool) error {
	box, err := carrier.Mailbox(ctx, 0)
	switch {
	case err != nil:
		return fmt.Errorf("nothing shows that the mesh has done it: %w", err)
	case box.Halted && !halted:
		return fmt.Errorf("%s took the call, and shows the agents a HALT nevertheless: is this the mesh?", carrier.Address())
	case !box.Halted && halted:
		return fmt.Errorf("%s took the call, and shows the agents no HALT: is this the mesh?", carrier.Address())
	}
	return nil
}
