package commands

import (
	"context"

	"github.com/urfave/cli/v2"

	"agentstateloop/commands/terminal"
	"agentstateloop/cycle"
	"agentstateloop/state"
)

// haltCmd is the commands halt and resume.
type haltCmd struct {
	agents agents
	out    *terminal.Output
}

func haltCommand(p *program) *cli.Command {
	h := haltCmd{p.agents(), &p.out}
	return &cli.Command{
		Name:  "halt",
		Usage: "run no turns and send no mail until resume",
		Description: `Sets HALT: the turn that runs is ended, mail is held back, and messages are
still collected. What was held back is sent after resume.

Example:
  agentstateloop halt --reason "it is spending too much"`,
		Flags:  []cli.Flag{reasonFlag()},
		Action: func(c *cli.Context) error { return h.run(c, (*cycle.Agent).Halt) },
	}
}

// haltOutput is the JSON output of halt and resume.
type haltOutput struct {
	Agent  string `json:"agent"`
	Halted bool   `json:"halted"`
}

func (h haltCmd) run(c *cli.Context, change func(*cycle.Agent, context.Context, string) (state.State, error)) error {
	if err := arguments(c, 0, 0); err != nil {
		return err
	}
	a, err := h.agents.load(c)
	if err != nil {
		return err
	}
	s, err := change(a, c.Context, c.String("reason"))
	if err != nil {
		return err
	}
	pollAfter(c.Context, a, h.out)
	if c.Bool("json") {
		return h.out.JSON(haltOutput{Agent: a.Handle, Halted: s.Halted()})
	}
	switch {
	case s.HaltedHere:
		h.out.Printf("@%s is HALTED: no turns, no mail, until `%s resume`\n", a.Handle, name)
	case s.HaltedMesh:
		h.out.Printf("@%s is still HALTED by the mesh, until `%s mesh resume`\n", a.Handle, name)
	default:
		h.out.Printf("@%s goes on\n", a.Handle)
	}
	return nil
}
