package commands

import (
	"fmt"
	"time"

	"github.com/urfave/cli/v2"

	"agentstateloop/commands/terminal"
	"agentstateloop/cycle/view"
)

type inboxRetryCmd struct {
	agents agents
	out    *terminal.Output
	now    func() time.Time
}

func inboxRetryCommand(p *program) *cli.Command {
	return &cli.Command{
		Name:      "retry",
		Usage:     "queue a message again",
		ArgsUsage: "NUMBER|KEY",
		Description: `For a message that waits for a later time or was given up. Such a message does
not count against [budget] mails_an_hour. A wakeup has its turn now; that is a
word from you, so the agent may cause [turn] self_turns more.

Example:
  agentstateloop inbox retry 12`,
		Action: inboxRetryCmd{p.agents(), &p.out, p.loader.Now}.run,
	}
}

func (k inboxRetryCmd) run(c *cli.Context) error {
	if err := arguments(c, 1, 1); err != nil {
		return err
	}
	a, err := k.agents.load(c)
	if err != nil {
		return err
	}
	which := c.Args().First()
	key, err := a.View().Key(which)
	if err != nil {
		return err
	}
	s, err := a.Store.Read()
	if err != nil {
		return err
	}
	if row, unfetched := view.UnfetchedRow(s, key); unfetched {
		words := standing{now: k.now()}.of(row)
		return terminal.WithHint(fmt.Errorf("%s is not in the inbox yet: %s", which, words), "each poll fetches what is due: "+name+" poll")
	}
	if _, err := a.View().QuarantinedItem(key); err == nil {
		return terminal.WithHint(fmt.Errorf("%s is in quarantine", which), name+" inbox release "+which+" lets it in")
	}
	m, err := findMessage(a, which, key)
	if err != nil {
		return err
	}
	held, err := a.Retry(c.Context, m.Key)
	if err != nil {
		return err
	}
	if held != "" {
		k.out.Warn("%s still waits: %s", m.Key, held)
	}
	detach(a, k.out)
	if !c.Bool("json") {
		return nil
	}
	return k.out.JSON(inboxRetryOutput{Key: m.Key, Held: orNull(held)})
}

// inboxRetryOutput is the JSON output of inbox retry.
type inboxRetryOutput struct {
	Key  string  `json:"key"`
	Held *string `json:"held"` // why it still waits
}
