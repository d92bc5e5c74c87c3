package commands

import (
	"errors"
	"fmt"
	"strings"

	"github.com/urfave/cli/v2"

	"agentstateloop/commands/terminal"
	"agentstateloop/cycle"
	"agentstateloop/cycle/quarantine"
	"agentstateloop/internal/plain"
)

// What the inbox commands do with items in quarantine. Those go by their keys.

func (p *program) releaseCommand() *cli.Command {
	return &cli.Command{
		Name:      "release",
		Usage:     "let in what was kept out, and run it",
		ArgsUsage: "KEY",
		Description: `For a message of inbox list --quarantined that you have read and want: it
comes in as if it came now and was yours, whatever its gate said. A poll in
the background runs it.

Example:
  agentstateloop inbox show mail:1f0c.7.42
  agentstateloop inbox release mail:1f0c.7.42`,
		Action: p.inboxRelease,
	}
}

func (p *program) quarantineList(c *cli.Context, a *cycle.Agent) error {
	items, err := a.Quarantine()
	if err != nil {
		return err
	}
	if c.Bool("json") {
		return p.out.JSON(append([]quarantine.Item{}, items...))
	}
	w := p.out.Table()
	for _, q := range items {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s: %s\n", plain.Line(q.Key), terminal.Clock(q.At, p.loader.Now()), plain.Line(q.From), q.Gate, plain.Line(q.Reason))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	s, err := a.Store.Read()
	if err == nil && s.Unkept > 0 {
		p.out.Warn("%s more came than quarantine takes; mails among them are still in the mailbox, unread", terminal.Count(s.Unkept, "item"))
	}
	return err
}

// quarantined is what inbox show --json prints of an item in quarantine.
type quarantined struct {
	quarantine.Item
	Status string `json:"status"`
	Text   string `json:"text"`
}

// quarantineShow shows the item that the argument names; shown is false where
// there is none.
func (p *program) quarantineShow(c *cli.Context, a *cycle.Agent) (shown bool, err error) {
	q, err := a.Quarantined(c.Args().First())
	if errors.Is(err, quarantine.ErrNotQuarantined) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	v := quarantined{Item: q, Status: "quarantined"}
	if _, v.Text, err = readPayload(a, q.Key, q.Source, q.Payload); err != nil {
		return false, err
	}
	if c.Bool("json") {
		return true, p.out.JSON(v)
	}
	p.out.Printf("key:     %s\nfrom:    %s (%s, not proved)\nat:      %s\nstatus:  quarantined by gate %s: %s\n",
		plain.Line(q.Key), plain.Line(q.From), q.Source, terminal.Clock(q.At, p.loader.Now()), q.Gate, plain.Line(q.Reason))
	if q.Subject != "" {
		p.out.Printf("subject: %s\n", plain.Line(q.Subject))
	}
	p.out.Printf("\n%s\n", strings.TrimSuffix(terminal.Text(v.Text), "\n"))
	return true, nil
}

func (p *program) inboxRelease(c *cli.Context) error {
	if err := arguments(c, 1, 1); err != nil {
		return err
	}
	a, err := p.agent(c)
	if err != nil {
		return err
	}
	key := c.Args().First()
	already, err := a.Release(c.Context, key)
	switch {
	case errors.Is(err, quarantine.ErrNotQuarantined):
		return terminal.WithHint(err, "see "+name+" inbox list --quarantined; inbox show KEY shows what became of a message")
	case err != nil:
		return err
	case already:
		p.out.Warn("%s was taken before, and is not taken again", key)
	}
	if err := a.Detach(); err != nil {
		p.out.Warn("%v; the next poll runs the turn", err)
	}
	if !c.Bool("json") {
		return nil
	}
	return p.out.JSON(struct {
		Key      string `json:"key"`
		Released bool   `json:"released"`
	}{key, !already})
}

// quarantineDrop drops the item that the argument names; dropped is false where
// there is none.
func (p *program) quarantineDrop(c *cli.Context) (dropped bool, err error) {
	if err := arguments(c, 1, 1); err != nil {
		return false, err
	}
	a, err := p.agent(c)
	if err != nil {
		return false, err
	}
	err = a.Expel(c.Context, c.Args().First(), c.String("reason"))
	if errors.Is(err, quarantine.ErrNotQuarantined) {
		return false, nil
	}
	return err == nil, err
}
