package commands

import (
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"agentstateloop/commands/terminal"
	"agentstateloop/internal/plain"
)

type inboxNextCmd struct {
	agents agents
	out    *terminal.Output
}

func inboxNextCommand(p *program) *cli.Command {
	return &cli.Command{
		Name:  "next",
		Usage: "take the next message, to work on it yourself",
		Description: `For runner = "none". Prints the message, its turn, and where the files lie that
came with it; exits 1 if nothing waits. End the turn with inbox done, within
turn.timeout. With [turn] collect it takes all that one sender has written so
far: one answer is for all of it.

Example:
  agentstateloop inbox next --json`,
		Action: inboxNextCmd{p.agents(), &p.out}.run,
	}
}

func (k inboxNextCmd) run(c *cli.Context) error {
	if err := arguments(c, 0, 0); err != nil {
		return err
	}
	a, err := k.agents.load(c)
	if err != nil {
		return err
	}
	m, err := a.Next(c.Context)
	if err != nil {
		return err
	}
	if c.Bool("json") {
		return k.out.JSON(pulledOf(m))
	}
	k.out.Printf("number: %s\nturn:  %s\nepoch: %d\nfrom:  %s (%s)\n", m.Number, m.TurnID, m.Epoch, plain.Line(m.From), m.Source)
	if m.Note != "" {
		k.out.Printf("note:  %s\n", plain.Line(m.Note))
	}
	for _, f := range m.ResultFields {
		k.out.Printf("field: %s\n", plain.Line(f.String()))
	}
	printFiles(k.out, "file:  ", m.Files)
	for _, one := range m.Earlier {
		k.out.Printf("\nearlier, %s:\n", one.At.Format(time.RFC3339))
		printFiles(k.out, "file:  ", one.Files)
		k.out.Printf("%s\n", strings.TrimSuffix(terminal.Printable(one.Text), "\n"))
	}
	if len(m.Earlier) > 0 {
		k.out.Printf("\nthe newest, one answer for all:")
	}
	k.out.Printf("\n%s\n", strings.TrimSuffix(terminal.Printable(m.Text), "\n"))
	return nil
}
