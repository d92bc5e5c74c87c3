package commands

import (
	"fmt"
	"time"

	"github.com/urfave/cli/v2"

	"agentstateloop/commands/terminal"
	"agentstateloop/cycle"
	"agentstateloop/cycle/quarantine"
	"agentstateloop/internal/plain"
	"agentstateloop/state"
)

type inboxListCmd struct {
	agents agents
	out    *terminal.Output
	now    func() time.Time
}

func inboxListCommand(p *program) *cli.Command {
	return &cli.Command{
		Name:  "list",
		Usage: "list the messages that wait, in order of arrival",
		Description: `A message that waits for a time has the time and the reason in its row. The
operator's mails above [budget] mails_an_hour wait for the hour to hold fewer.

With --quarantined, lists the messages in quarantine instead: the key, the
sender (not proved) and the reason of each.

Example:
  agentstateloop inbox list --json
  agentstateloop inbox list --quarantined`,
		Flags:  []cli.Flag{switchFlag("quarantined", "list the messages in quarantine, and why")},
		Action: inboxListCmd{p.agents(), &p.out, p.loader.Now}.run,
	}
}

func (k inboxListCmd) run(c *cli.Context) error {
	if err := arguments(c, 0, 0); err != nil {
		return err
	}
	a, err := k.agents.load(c)
	if err != nil {
		return err
	}
	if c.Bool("quarantined") {
		return k.quarantined(c, a)
	}
	s, err := a.Store.Read()
	if err != nil {
		return err
	}
	if c.Bool("json") {
		return k.out.JSON(append([]state.Message{}, s.Inbox...))
	}
	w := k.out.Table()
	for _, m := range s.Inbox {
		status := string(m.Status)
		if m.Status == state.Deferred {
			status += " until " + terminal.Clock(m.NextRetryAt, k.now()) + because(plain.Line(m.Reason))
		}
		fmt.Fprintf(w, "%d\t%s\t%s\t%s\t%s\n", m.Seq, terminal.Clock(m.At, k.now()), m.Source, plain.Line(m.From), status)
	}
	return w.Flush()
}

// quarantined lists the items in quarantine.
func (k inboxListCmd) quarantined(c *cli.Context, a *cycle.Agent) error {
	items, err := a.Quarantine()
	if err != nil {
		return err
	}
	if c.Bool("json") {
		return k.out.JSON(append([]quarantine.Item{}, items...))
	}
	w := k.out.Table()
	for _, q := range items {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s: %s\n", plain.Line(q.Key), terminal.Clock(q.At, k.now()), plain.Line(q.From), q.Gate, plain.Line(q.Reason))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	s, err := a.Store.Read()
	if err == nil && s.Unkept > 0 {
		k.out.Warn("quarantine is full, and %s more came; mails among them are still in the mailbox, unread", terminal.Count(s.Unkept, "item"))
	}
	return err
}
