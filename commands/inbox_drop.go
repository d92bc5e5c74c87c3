package commands

import (
	"context"
	"errors"

	"github.com/urfave/cli/v2"

	"agentstateloop/commands/terminal"
	"agentstateloop/cycle"
	"agentstateloop/cycle/quarantine"
)

type inboxDropCmd struct {
	agents agents
	out    *terminal.Output
}

func inboxDropCommand(p *program) *cli.Command {
	return &cli.Command{
		Name:      "drop",
		Usage:     "remove a waiting message; it gets no turn",
		ArgsUsage: "NUMBER|KEY",
		Description: `With the number of a message in quarantine, such as q3, removes it for good.
With that of a mail that is not fetched yet, such as f2, ends the tries; the
mail stays in your mailbox.

Example:
  agentstateloop inbox drop 12 --reason "answered by hand"
  agentstateloop inbox drop q3`,
		Flags:  []cli.Flag{reasonFlag()},
		Action: inboxDropCmd{p.agents(), &p.out}.run,
	}
}

func (k inboxDropCmd) run(c *cli.Context) error {
	if err := arguments(c, 1, 1); err != nil {
		return err
	}
	a, err := k.agents.load(c)
	if err != nil {
		return err
	}
	key, err := drop(c.Context, a, c.Args().First(), c.String("reason"))
	if err != nil || !c.Bool("json") {
		return err
	}
	return k.out.JSON(inboxDropOutput{Key: key, Dropped: true})
}

// inboxDropOutput is the JSON output of inbox drop.
type inboxDropOutput struct {
	Key     string `json:"key"`
	Dropped bool   `json:"dropped"`
}

// drop removes a pending message, an item in quarantine, or an unfetched mail. It returns its
// key.
func drop(ctx context.Context, a *cycle.Agent, which, reason string) (key string, err error) {
	if key, err = a.View().Key(which); err != nil {
		return "", err
	}
	if err := a.Expel(ctx, key, reason); !errors.Is(err, quarantine.ErrNotQuarantined) {
		return key, err
	}
	s, err := a.Store.Read()
	if err != nil {
		return "", err
	}
	if s.IsUnfetched(key) {
		return key, a.Drop(ctx, key, reason)
	}
	m, err := findMessage(a, which, key)
	if err != nil {
		return "", err
	}
	return m.Key, a.Drop(ctx, m.Key, reason)
}
