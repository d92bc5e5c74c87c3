package commands

import (
	"context"
	"fmt"

	"github.com/urfave/cli/v2"

	"agentstateloop/mesh"
)

// meshHaltCmd is the commands mesh halt and mesh resume.
type meshHaltCmd struct{ meshClient }

func meshHaltCommand(p *program) *cli.Command {
	m := meshHaltCmd{meshClient{p.agents(), &p.out}}
	return &cli.Command{
		Name:  "halt",
		Usage: "HALT every agent on the mesh",
		Description: `Until mesh resume, no agent on the mesh runs a turn or sends a mail; messages
are still collected. Agents that listen learn of it at once, the others at their
next poll. The mesh keeps it across a restart.

Example:
  agentstateloop mesh halt`,
		Action: func(c *cli.Context) error {
			return m.run(c, (*mesh.Client).Halt, true, "every agent on the mesh at %s is HALTED, until `"+name+" mesh resume`\n")
		},
	}
}

func (m meshHaltCmd) run(c *cli.Context, change func(*mesh.Client, context.Context) error, halted bool, said string) error {
	if err := arguments(c, 0, 0); err != nil {
		return err
	}
	client, err := m.client(c)
	if err != nil {
		return err
	}
	if err := change(client, c.Context); err != nil {
		return err
	}
	if err := m.check(c.Context, client, halted); err != nil {
		return err
	}
	if c.Bool("json") {
		return m.out.JSON(struct {
			Halted bool `json:"halted"`
		}{halted})
	}
	m.out.Printf(said, client.URL)
	return nil
}

// check returns an error unless the mesh shows that its HALT is as it was asked for, in the
// way in which every agent learns of it. Another service may answer 200 to anything.
func (m meshHaltCmd) check(ctx context.Context, client *mesh.Client, halted bool) error {
	box, err := client.Mailbox(ctx, 0)
	switch {
	case err != nil:
		return fmt.Errorf("nothing shows that the mesh has done it: %w", err)
	case box.Halted && !halted:
		return fmt.Errorf("%s took the call, and shows the agents a HALT nevertheless: is this the mesh?", client.URL)
	case !box.Halted && halted:
		return fmt.Errorf("%s took the call, and shows the agents no HALT: is this the mesh?", client.URL)
	}
	return nil
}
