package commands

import (
	"github.com/urfave/cli/v2"

	"agentstateloop/commands/terminal"
	"agentstateloop/cycle/files"
	"agentstateloop/mesh"
)

type meshSendCmd struct {
	meshCarrier
	input input
}

func meshSendCommand(p *program) *cli.Command {
	return &cli.Command{
		Name:      "send",
		Usage:     "put a message into another agent's mailbox",
		ArgsUsage: "HANDLE TEXT",
		Description: `Sends as your agent, with its token. With - as TEXT the message is read from
standard input. Prints the message's id. Sending the same --id again sends
nothing new, so a script may repeat itself. --field and --file are those of ask.

Example:
  agentstateloop mesh send dorlange3120 "rotate the Gmail password, please"
  agentstateloop mesh send dorlange3120 "run the tests" --field passed:integer`,
		Flags: []cli.Flag{
			repeatedFlag("field", "a result `FIELD` to ask for; may be repeated"),
			repeatedFlag("file", "a `FILE` that goes along; may be repeated"),
			&cli.StringFlag{Name: "kind", Value: mesh.KindMessage, Usage: "`KIND`: message, ask, report, relay or notice"},
			&cli.StringFlag{Name: "id", Usage: "the message's `ID`, for a send that may be repeated"},
			&cli.StringFlag{Name: "correlation-id", Usage: "the `ID` of the message it answers"},
		},
		Action: meshSendCmd{meshCarrier{p.agents(), &p.out}, p.input()}.run,
	}
}

func (m meshSendCmd) run(c *cli.Context) error {
	to, text, err := m.input.handleAndText(c)
	if err != nil {
		return err
	}
	fields, err := askedFields(c)
	if err != nil {
		return err
	}
	carrier, err := m.carrier(c)
	if err != nil {
		return err
	}
	opened, closeAll, err := files.Open(wordsOf(c, "file"))
	if err != nil {
		return err
	}
	defer closeAll()
	list, err := files.Upload(c.Context, carrier, to, opened)
	if err != nil {
		return err
	}
	id, err := carrier.Send(c.Context, mesh.Message{
		ID: c.String("id"), To: to, Text: text, Kind: c.String("kind"), Correlation: c.String("correlation-id"), ResultFields: fields, Files: list,
	})
	if err != nil {
		return err
	}
	if c.Bool("json") {
		return m.out.JSON(struct {
			ID string `json:"id"`
		}{id})
	}
	m.out.Printf("%s\n", terminal.Printable(id))
	return nil
}
