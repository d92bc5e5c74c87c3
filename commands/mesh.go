package commands

import (
	"strings"

	"github.com/urfave/cli/v2"

	"agentstateloop/commands/config"
	"agentstateloop/commands/terminal"
	"agentstateloop/internal/plain"
	"agentstateloop/mesh"
	"agentstateloop/state"
)

func (p *program) meshCommand() *cli.Command {
	return &cli.Command{
		Name:  "mesh",
		Usage: "the message service between agents, and its HALT",
		Subcommands: []*cli.Command{
			p.meshServeCommand(),
			{
				Name:      "send",
				Usage:     "put a message into another agent's mailbox",
				ArgsUsage: "HANDLE TEXT",
				Description: `Goes out as your agent, with its token. With - as TEXT the message is read
from standard input. Prints the message's id; the same --id again sends
nothing new, so that a script may repeat itself.

Example:
  agentstateloop mesh send dorlange3120 "rotate the Gmail password, please"`,
				Flags: []cli.Flag{
					&cli.StringFlag{Name: "kind", Value: mesh.KindMessage, Usage: "`KIND`: message, ask, report, relay or notice"},
					&cli.StringFlag{Name: "id", Usage: "the message's `ID`, for a send that may be repeated"},
					&cli.StringFlag{Name: "correlation-id", Usage: "the `ID` of the message it answers"},
				},
				Action: p.meshSend,
			},
			{
				Name:  "inbox",
				Usage: "what the mesh holds for your agent",
				Description: `Only looks, unless --ack says what is done with: the next poll takes the
rest in.

Example:
  agentstateloop mesh inbox --wait 50s --json`,
				Flags: []cli.Flag{
					durationFlag("wait", "wait so `LONG`, a minute at most, while it is empty", 0),
					repeatedFlag("ack", "take the message with this `ID` out; may be repeated"),
				},
				Action: p.meshInbox,
			},
			{
				Name:  "halt",
				Usage: "HALT every agent on the mesh",
				Description: `Until mesh resume no agent on the mesh runs a turn or sends a mail; what comes
is collected. Agents that listen learn of it at once, the others at their next
poll. The mesh remembers it when it is started again.

Example:
  agentstateloop mesh halt`,
				Action: func(c *cli.Context) error { return p.meshSwitch(c, true) },
			},
			{
				Name:  "resume",
				Usage: "lift the mesh's HALT",
				Description: `A HALT that an agent was given by halt, or by a mail, is lifted there.

Example:
  agentstateloop mesh resume`,
				Action: func(c *cli.Context) error { return p.meshSwitch(c, false) },
			},
		},
	}
}

// meshClient is the mesh side of the configured agent.
func (p *program) meshClient(c *cli.Context) (*mesh.Client, error) {
	a, err := p.agent(c)
	if err != nil {
		return nil, err
	}
	if a.Mesh == nil {
		return nil, &config.Error{Path: a.Config, Key: "mesh.url", Text: "is missing, so that there is no mesh to talk to",
			Advice: meshHint}
	}
	return a.Mesh.Client, nil
}

func (p *program) meshSend(c *cli.Context) error {
	if err := arguments(c, 2, 2); err != nil {
		return err
	}
	to := strings.TrimPrefix(c.Args().First(), "@")
	if !state.ValidHandle(to) {
		return terminal.Usagef(handleHint, "%q is not a valid handle", c.Args().First())
	}
	text, err := p.words(c, 1)
	if err != nil {
		return err
	}
	client, err := p.meshClient(c)
	if err != nil {
		return err
	}
	id, err := client.Send(c.Context, mesh.Message{
		ID: c.String("id"), To: to, Text: text, Kind: c.String("kind"), Correlation: c.String("correlation-id"),
	})
	if err != nil {
		return err
	}
	if c.Bool("json") {
		return p.out.JSON(struct {
			ID string `json:"id"`
		}{id})
	}
	p.out.Printf("%s\n", terminal.Text(id))
	return nil
}

func (p *program) meshInbox(c *cli.Context) error {
	if err := arguments(c, 0, 0); err != nil {
		return err
	}
	client, err := p.meshClient(c)
	if err != nil {
		return err
	}
	if ids := wordsOf(c, "ack"); len(ids) > 0 {
		for _, id := range ids {
			if err := client.Ack(c.Context, id); err != nil {
				return err
			}
		}
		return nil
	}
	box, err := client.Mailbox(c.Context, durationOf(c, "wait"))
	if err != nil {
		return err
	}
	if c.Bool("json") {
		if box.Messages == nil {
			box.Messages = []mesh.Message{}
		}
		return p.out.JSON(box)
	}
	if box.Halted {
		p.out.Printf("HALTED by the mesh\n")
	}
	for _, m := range box.Messages {
		proof := ""
		if !m.Proven {
			proof = " (unproven)"
		}
		p.out.Printf("%s  %s  %s from @%s%s: %s\n", terminal.Clock(m.SentAt, p.loader.Now()), plain.Line(m.ID), plain.Line(m.Kind), plain.Line(m.From), proof, plain.Line(m.Text))
	}
	return nil
}

// meshSwitch sets and lifts the HALT of the mesh.
func (p *program) meshSwitch(c *cli.Context, on bool) error {
	if err := arguments(c, 0, 0); err != nil {
		return err
	}
	client, err := p.meshClient(c)
	if err != nil {
		return err
	}
	change, said := client.Go, "the agents on the mesh at %s go on"
	if on {
		change, said = client.Halt, "every agent on the mesh at %s is HALTED, until `"+name+" mesh resume`"
	}
	if err := change(c.Context); err != nil {
		return err
	}
	if c.Bool("json") {
		return p.out.JSON(struct {
			Halted bool `json:"halted"`
		}{on})
	}
	p.out.Printf(said+"\n", client.URL)
	return nil
}
