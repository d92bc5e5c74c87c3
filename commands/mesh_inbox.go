package commands

import (
	"cmp"
	"time"

	"github.com/urfave/cli/v2"

	"agentstateloop/commands/terminal"
	"agentstateloop/internal/plain"
)

type meshInboxCmd struct {
	meshCarrier
	now func() time.Time
}

func meshInboxCommand(p *program) *cli.Command {
	return &cli.Command{
		Name:  "inbox",
		Usage: "show what the mesh holds for your agent",
		Description: `Takes nothing out: the next poll does. With --ack it removes the messages named,
and shows nothing.

Example:
  agentstateloop mesh inbox --wait 50s --json`,
		Flags: []cli.Flag{
			durationFlag("wait", "while it is empty, wait for `DURATION`, at most a minute", 0),
			repeatedFlag("ack", "take out the message `ID`; may be repeated"),
		},
		Action: meshInboxCmd{meshCarrier{p.agents(), &p.out}, p.loader.Now}.run,
	}
}

// meshAckOutput is the JSON output of mesh inbox --ack.
type meshAckOutput struct {
	Acked []string `json:"acked"`
}

func (m meshInboxCmd) run(c *cli.Context) error {
	if err := arguments(c, 0, 0); err != nil {
		return err
	}
	carrier, err := m.carrier(c)
	if err != nil {
		return err
	}
	if ids := wordsOf(c, "ack"); len(ids) > 0 {
		for _, id := range ids {
			if err := carrier.Ack(c.Context, id); err != nil {
				return err
			}
		}
		if c.Bool("json") {
			return m.out.JSON(meshAckOutput{Acked: ids})
		}
		return nil
	}
	box, err := carrier.Mailbox(c.Context, durationOf(c, "wait"))
	if err != nil {
		return err
	}
	if c.Bool("json") {
		return m.out.JSON(mailboxOf(box))
	}
	if box.Halted {
		m.out.Printf("HALTED by the mesh\n")
	}
	for _, msg := range box.Messages {
		proof := ""
		if !msg.Proven {
			proof = " (unproven)"
		}
		m.out.Printf("%s  %s  %s from @%s%s: %s\n", terminal.Clock(msg.SentAt, m.now()), plain.Line(msg.ID), plain.Line(msg.Kind), plain.Line(msg.From), proof, plain.Line(msg.Text))
		for _, f := range msg.Files {
			m.out.Printf("  file %s (%s, %d bytes)\n", plain.Line(f.Name), cmp.Or(plain.Line(f.Type), "of unknown type"), f.Size)
		}
	}
	return nil
}
