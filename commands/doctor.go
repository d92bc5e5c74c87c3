package commands

import (
	"errors"

	"github.com/urfave/cli/v2"

	"agentstateloop/commands/config"
	"agentstateloop/commands/doctor"
	"agentstateloop/commands/terminal"
)

type doctorCmd struct {
	agents agents
	loader *config.Loader
	out    *terminal.Output
	proc   string
}

func doctorCommand(p *program) *cli.Command {
	return &cli.Command{
		Name:  "doctor",
		Usage: "check everything as cron would see it",
		Description: `Checks configuration, secrets, mail, mesh, crontab, files, clock and agent, each
with what cron gives a job, not with what your shell has. Prints a line for each
check: ok, info, warn, error or skipped, with a hint where one helps. Exits 1 if
there is an error. Sends and writes nothing, and marks no mail as read.

Example:
  agentstateloop doctor
  agentstateloop doctor --json | jq '.[] | select(.level == "error")'`,
		Flags: []cli.Flag{
			switchFlag("no-network", "do not contact mail servers and mesh"),
		},
		Action: doctorCmd{p.agents(), p.loader, &p.out, p.proc}.run,
	}
}

func (d doctorCmd) run(c *cli.Context) error {
	if err := arguments(c, 0, 0); err != nil {
		return err
	}
	path, err := d.agents.configPath(c)
	if path == "" && c.IsSet("config") {
		return err
	}
	found := doctor.Examine(c.Context, doctor.Subject{
		Loader: d.loader, Path: path, Missing: err, Network: !c.Bool("no-network"), Proc: d.proc,
	})
	if err := c.Context.Err(); err != nil {
		return err
	}
	if c.Bool("json") {
		if err := d.out.JSON(found); err != nil {
			return err
		}
	} else {
		doctor.Print(d.out, found)
	}
	return foundErrors(found)
}

// foundErrors returns an error if a finding is one.
func foundErrors(found []doctor.Finding) error {
	errs, warnings := doctor.Count(found, doctor.Error), doctor.Count(found, doctor.Warn)
	if errs == 0 {
		return nil
	}
	text := terminal.Count(errs, "error")
	if warnings > 0 {
		text += " and " + terminal.Count(warnings, "warning")
	}
	return errors.New("doctor found " + text)
}
