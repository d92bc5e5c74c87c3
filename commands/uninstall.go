package commands

import (
	"github.com/urfave/cli/v2"
)

func (p *program) uninstallCommand() *cli.Command {
	return &cli.Command{
		Name:  "uninstall",
		Usage: "take the agent's line out of your crontab",
		Description: `Removes our one line and leaves every other as it is. State, history and
configuration stay. Polls then leave the crontab alone until init or transition.

Example:
  agentstateloop uninstall`,
		Action: p.uninstall,
	}
}

func (p *program) uninstall(c *cli.Context) error {
	if err := arguments(c, 0, 0); err != nil {
		return err
	}
	a, err := p.agent(c)
	if err != nil {
		return err
	}
	change, err := a.Uninstall(c.Context)
	if err != nil {
		return err
	}
	if c.Bool("json") {
		return p.out.JSON(uninstalled{Agent: a.Handle, Removed: change.Wrote})
	}
	if change.Wrote {
		p.out.Printf("removed the crontab line of @%s; `%s init` puts one back\n", a.Handle, name)
	} else {
		p.out.Printf("there was no crontab line of @%s\n", a.Handle)
	}
	return nil
}

// uninstalled is what uninstall --json prints.
type uninstalled struct {
	Agent   string `json:"agent"`
	Removed bool   `json:"removed"`
}
