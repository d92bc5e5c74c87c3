package commands

import (
	"errors"

	"github.com/urfave/cli/v2"

	"agentstateloop/commands/doctor"
	"agentstateloop/commands/terminal"
)

func (p *program) doctorCommand() *cli.Command {
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
		Action: p.doctor,
	}
}

func (p *program) doctor(c *cli.Context) error {
	if err := arguments(c, 0, 0); err != nil {
		return err
	}
	path, err := p.configPath(c)
	if path == "" && c.IsSet("config") {
		return err
	}
	found := doctor.Examine(c.Context, doctor.Subject{
		Loader: p.loader, Path: path, Missing: err, Network: !c.Bool("no-network"), Proc: p.proc,
	})
	if err := c.Context.Err(); err != nil {
		return err
	}
	if c.Bool("json") {
		if err := p.out.JSON(found); err != nil {
			return err
		}
	} else {
		doctor.Print(&p.out, found)
	}
	return foundErrors(found)
}

// foundErrors is the error of findings that hold one.
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
