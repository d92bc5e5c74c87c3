package commands

import (
	"cmp"
	"errors"

	"github.com/urfave/cli/v2"

	"agentstateloop/commands/doctor"
	"agentstateloop/commands/terminal"
)

// doctorOptions are the flags of doctor.
type doctorOptions struct{ fix, all, noNetwork bool }

func doctorCommand(p *program) *cli.Command {
	var o doctorOptions
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
			switchFlag(&o.fix, "fix", "mend modes, missing folders and the crontab line first"),
			switchFlag(&o.all, "all", "print what is well, too"),
			switchFlag(&o.noNetwork, "no-network", "do not contact mail servers and mesh"),
		},
		Action: p.action(0, 0, o.run),
	}
}

func (o *doctorOptions) run(c *call) error {
	path, err := c.configPath()
	if path == "" && c.given(&c.global.config) != "" {
		return err
	}
	subject := doctor.Subject{Loader: c.loader, Path: path, Missing: err, Network: !o.noNetwork, Proc: c.proc}
	var fixed []doctor.Finding
	if o.fix {
		if fixed, err = doctor.Fix(c.ctx, subject); err != nil {
			return err
		}
	}
	found := append(fixed, doctor.Examine(c.ctx, subject)...)
	if err := c.ctx.Err(); err != nil {
		return err
	}
	shown := doctor.Trouble
	if o.all {
		shown = doctor.Everything
	}
	if c.json {
		err = c.out.JSON(found)
	} else {
		err = doctor.Print(&c.out, found, shown)
	}
	return cmp.Or(err, foundErrors(found))
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
