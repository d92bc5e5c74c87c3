package commands

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/urfave/cli/v2"

	"agentstateloop/commands/terminal"
	"agentstateloop/cycle"
	"agentstateloop/internal/plain"
	"agentstateloop/mail/message"
	"agentstateloop/state"
)

func (p *program) inboxCommand() *cli.Command {
	return &cli.Command{
		Name:  "inbox",
		Usage: "look at the messages that wait, and work on them",
		Subcommands: append([]*cli.Command{
			{
				Name:  "list",
				Usage: "what waits, in order of arrival",
				Description: `With --quarantined, what was kept out instead, each with its key, who it says
to be from, and why.

Example:
  agentstateloop inbox list --json
  agentstateloop inbox list --quarantined`,
				Flags:  []cli.Flag{switchFlag("quarantined", "what was kept out, and why")},
				Action: p.inboxList,
			},
			{
				Name:      "show",
				Usage:     "one message, by its number or key",
				ArgsUsage: "NUMBER|KEY",
				Description: `Shows messages that are done as well, by their key, as long as they are kept;
and what is in quarantine, by its key, with the reason.

Example:
  agentstateloop inbox show 12`,
				Action: p.inboxShow,
			},
		}, p.inboxWork()...),
	}
}

func (p *program) inboxList(c *cli.Context) error {
	if err := arguments(c, 0, 0); err != nil {
		return err
	}
	a, err := p.agent(c)
	if err != nil {
		return err
	}
	if c.Bool("quarantined") {
		return p.quarantineList(c, a)
	}
	s, err := a.Store.Read()
	if err != nil {
		return err
	}
	if c.Bool("json") {
		return p.out.JSON(append([]state.Message{}, s.Inbox...))
	}
	w := p.out.Table()
	for _, m := range s.Inbox {
		status := string(m.Status)
		if m.Status == state.Deferred {
			status += " until " + terminal.Clock(m.NextRetryAt, p.loader.Now())
		}
		fmt.Fprintf(w, "%d\t%s\t%s\t%s\t%s\n", m.Seq, terminal.Clock(m.At, p.loader.Now()), m.Source, plain.Line(m.From), status)
	}
	return w.Flush()
}

// shown is what inbox show --json prints.
type shown struct {
	state.Message
	Subject string        `json:"subject"`
	Text    string        `json:"text"`
	Receipt cycle.Receipt `json:"receipt"`
}

func (p *program) inboxShow(c *cli.Context) error {
	if err := arguments(c, 1, 1); err != nil {
		return err
	}
	a, err := p.agent(c)
	if err != nil {
		return err
	}
	if shown, err := p.quarantineShow(c, a); shown || err != nil {
		return err
	}
	m, err := findMessage(a, c.Args().First())
	if err != nil {
		return err
	}
	v := shown{Message: m}
	if v.Subject, v.Text, err = payload(a, m); err != nil {
		return err
	}
	if v.Receipt, err = a.Receipt(m); err != nil {
		return err
	}
	if c.Bool("json") {
		return p.out.JSON(v)
	}
	p.out.Printf("key:     %s\nfrom:    %s (%s)\nat:      %s\nstatus:  %s\n", plain.Line(m.Key), plain.Line(m.From), m.Source, terminal.Clock(m.At, p.loader.Now()), m.Status)
	if v.Subject != "" {
		p.out.Printf("subject: %s\n", plain.Line(v.Subject))
	}
	p.printReceipt(v.Receipt)
	p.out.Printf("\n%s\n", strings.TrimSuffix(terminal.Text(v.Text), "\n"))
	return nil
}

// findMessage returns a message by its number or key.
func findMessage(a *cycle.Agent, which string) (state.Message, error) {
	m, err := a.FindMessage(which)
	if errors.Is(err, cycle.ErrNoMessage) {
		err = terminal.WithHint(err, "see "+name+" inbox list [--quarantined], and "+name+" history")
	}
	return m, err
}

// payload is what the message says.
func payload(a *cycle.Agent, m state.Message) (subject, text string, err error) {
	return readPayload(a, m.Key, m.Source, m.Payload)
}

func readPayload(a *cycle.Agent, key string, source state.Source, file string) (subject, text string, err error) {
	raw, err := os.ReadFile(a.Store.Path(file))
	if errors.Is(err, fs.ErrNotExist) {
		return "", "", fmt.Errorf("the text of %s is kept no longer (keep in [agent])", key)
	}
	if err != nil {
		return "", "", fmt.Errorf("read message: %w", err)
	}
	if source != state.Mail {
		return "", string(raw), nil
	}
	return message.ParseHeader(raw).Subject, message.ReadContent(bytes.NewReader(raw)).Full, nil
}
