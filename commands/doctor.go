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
with what cron gives a job, not with what your shell has. Prints what is wrong,
with a hint where one helps, and one line for what is well. With --all, and with
--json, prints every check: ok, info, warn, error or skipped. Exits 1 if there
is an error. Sends and writes nothing, and marks no mail as read.

With --fix, mends first what has one right answer: a mode that lets others read
or change what is yours alone, a folder that is missing, our crontab line. It
prints what it did, and then what is left. It follows no link, and touches no
file of another user.

Example:
  agentstateloop doctor
  agentstateloop doctor --fix
  agentstateloop doctor --json | jq '.[] | select(.level == "error")'`,
		Flags: []cli.Flag{
			switchFlag("fix", "mend modes, missing folders and the crontab line first"),
			switchFlag("all", "print what is well, too"),
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
	subject := doctor.Subject{Loader: d.loader, Path: path, Missing: err, Network: !c.Bool("no-network"), Proc: d.proc}
	var fixed []doctor.Finding
	if c.Bool("fix") {
		if fixed, err = doctor.Fix(c.Context, subject); err != nil {
			return err
		}
	}
	found := append(fixed, doctor.Examine(c.Context, subject)...)
	if err := c.Context.Err(); err != nil {
		return err
	}
	if c.Bool("json") {
		if err := d.out.JSON(found); err != nil {
			return err
		}
		return foundErrors(found)
	}
	shown := doctor.Trouble
	if c.Bool("all") {
		shown = doctor.Everything
	}
	if err := doctor.Print(d.out, found, shown); err != nil {
		return err
	}
	return foundErrors(found)
}

// foundErrors returns an error if a finding is an error.
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
