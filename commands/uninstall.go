package commands

import (
	"github.com/urfave/cli/v2"

	"agentstateloop/commands/terminal"
)

type uninstallCmd struct {
	agents agents
	out    *terminal.Output
}

func uninstallCommand(p *program) *cli.Command {
	return &cli.Command{
		Name:  "uninstall",
		Usage: "remove the agent's lines from your crontab",
		Description: `Removes the agent's lines, that of its interval and its alarm line if there is
one, and leaves every other line as it is. State, history and configuration
stay. Polls then leave the crontab alone until init or transition.

Example:
  agentstateloop uninstall`,
		Action: uninstallCmd{p.agents(), &p.out}.run,
	}
}

// uninstallOutput is the JSON output of uninstall.
type uninstallOutput struct {
	Agent   string `json:"agent"`
	Removed bool   `json:"removed"`
}

func (u uninstallCmd) run(c *cli.Context) error {
	if err := arguments(c, 0, 0); err != nil {
		return err
	}
	a, err := u.agents.load(c)
	if err != nil {
		return err
	}
	change, err := a.Uninstall(c.Context)
	if err != nil {
		return err
	}
	if c.Bool("json") {
		return u.out.JSON(uninstallOutput{Agent: a.Handle, Removed: change.Wrote})
	}
	if change.Wrote {
		u.out.Printf("removed the crontab line of @%s; `%s init` puts one back\n", a.Handle, name)
	} else {
		u.out.Printf("there was no crontab line of @%s\n", a.Handle)
	}
	return nil
}
