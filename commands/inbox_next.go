package commands

import (
	"strings"

	"github.com/urfave/cli/v2"

	"agentstateloop/commands/terminal"
	"agentstateloop/cycle"
	"agentstateloop/internal/plain"
)

// inboxWork are the subcommands of inbox that change something.
func (p *program) inboxWork() []*cli.Command {
	return []*cli.Command{
		{
			Name:  "next",
			Usage: "take the next message, to work on it yourself",
			Description: `For runner = "none". Prints the message and its turn; exits 1 if nothing
waits. End the turn with inbox done, within turn.timeout.

Example:
  agentstateloop inbox next --json`,
			Action: p.inboxNext,
		},
		{
			Name:      "done",
			Usage:     "end the turn of inbox next with the answer",
			ArgsUsage: "TURN EPOCH TEXT",
			Description: `TURN and EPOCH are those that inbox next printed; TEXT is sent to who wrote.
With - as TEXT it is read from standard input.

Example:
  agentstateloop inbox done t4c1f 7 "deployed"`,
			Action: p.inboxDone,
		},
		{
			Name:      "retry",
			Usage:     "queue a message again",
			ArgsUsage: "NUMBER|KEY",
			Description: `For a message that waits for a later time or was given up.

Example:
  agentstateloop inbox retry 12`,
			Action: p.inboxRetry,
		},
		{
			Name:      "drop",
			Usage:     "take a waiting message out; it gets no turn",
			ArgsUsage: "NUMBER|KEY",
			Description: `Removes for good what is in quarantine, by its key.

Example:
  agentstateloop inbox drop 12 --reason "answered by hand"`,
			Flags:  []cli.Flag{reasonFlag()},
			Action: p.inboxDrop,
		},
		p.releaseCommand(),
	}
}

func (p *program) inboxNext(c *cli.Context) error {
	if err := arguments(c, 0, 0); err != nil {
		return err
	}
	a, err := p.agent(c)
	if err != nil {
		return err
	}
	m, err := a.Next(c.Context)
	if err != nil {
		return err
	}
	if c.Bool("json") {
		return p.out.JSON(m)
	}
	p.out.Printf("turn:  %s\nepoch: %d\nfrom:  %s (%s)\n", m.TurnID, m.Epoch, plain.Line(m.From), m.Source)
	if m.Note != "" {
		p.out.Printf("note:  %s\n", plain.Line(m.Note))
	}
	p.out.Printf("\n%s\n", strings.TrimSuffix(terminal.Text(m.Text), "\n"))
	return nil
}

func (p *program) inboxDone(c *cli.Context) error {
	if err := arguments(c, 3, 3); err != nil {
		return err
	}
	in, err := turnOf(c.Args().Get(0), c.Args().Get(1))
	if err != nil {
		return err
	}
	text, err := p.message(c.Args().Get(2))
	if err != nil {
		return err
	}
	a, err := p.agent(c)
	if err != nil {
		return err
	}
	return a.Done(c.Context, in, text)
}

func (p *program) inboxRetry(c *cli.Context) error {
	return p.withMessage(c, func(a *cycle.Agent, key string) error {
		if err := a.Retry(c.Context, key); err != nil {
			return err
		}
		if err := a.Detach(); err != nil {
			p.out.Warn("%v; the next poll runs the turn", err)
		}
		return nil
	})
}

func (p *program) inboxDrop(c *cli.Context) error {
	if dropped, err := p.quarantineDrop(c); dropped || err != nil {
		return err
	}
	return p.withMessage(c, func(a *cycle.Agent, key string) error {
		return a.Drop(c.Context, key, c.String("reason"))
	})
}

// withMessage does something to the message that is named by number or key.
func (p *program) withMessage(c *cli.Context, do func(*cycle.Agent, string) error) error {
	if err := arguments(c, 1, 1); err != nil {
		return err
	}
	a, err := p.agent(c)
	if err != nil {
		return err
	}
	m, err := findMessage(a, c.Args().First())
	if err != nil {
		return err
	}
	return do(a, m.Key)
}
