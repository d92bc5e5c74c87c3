package commands

import (
	"github.com/urfave/cli/v2"
)

func (p *program) haltCommand() *cli.Command {
	return &cli.Command{
		Name:  "halt",
		Usage: "run no turns and send no mail until resume",
		Description: `Sets HALT: turns end, mail is held back, messages go on being collected.
What was held goes out after resume.

Example:
  agentstateloop halt --reason "it is spending too much"`,
		Flags:  []cli.Flag{reasonFlag()},
		Action: func(c *cli.Context) error { return p.switchHalt(c, true) },
	}
}

func (p *program) resumeCommand() *cli.Command {
	return &cli.Command{
		Name:  "resume",
		Usage: "lift a halt",
		Description: `Lifts the HALT that halt or a mail of yours has set, and lets go what was
held. A HALT set on the mesh is lifted there.

Example:
  agentstateloop resume`,
		Flags:  []cli.Flag{reasonFlag()},
		Action: func(c *cli.Context) error { return p.switchHalt(c, false) },
	}
}

func (p *program) switchHalt(c *cli.Context, on bool) error {
	if err := arguments(c, 0, 0); err != nil {
		return err
	}
	a, err := p.agent(c)
	if err != nil {
		return err
	}
	change := a.Resume
	if on {
		change = a.Halt
	}
	s, err := change(c.Context, c.String("reason"))
	if err != nil {
		return err
	}
	p.follow(c.Context, a)
	if c.Bool("json") {
		return p.out.JSON(halted{Agent: a.Handle, Halted: s.Halted()})
	}
	switch {
	case s.HaltedHere:
		p.out.Printf("@%s is HALTED: no turns, no mail, until `%s resume`\n", a.Handle, name)
	case s.HaltedMesh:
		p.out.Printf("@%s is still HALTED by the mesh, until `%s mesh resume`\n", a.Handle, name)
	default:
		p.out.Printf("@%s goes on\n", a.Handle)
	}
	return nil
}

// halted is what halt --json and resume --json print.
type halted struct {
	Agent  string `json:"agent"`
	Halted bool   `json:"halted"`
}
