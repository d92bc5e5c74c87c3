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
		Usage: "check the agent's setup in the environment of cron",
		Description: `Checks configuration, secrets, mail, mesh, crontab, files, clock and agent, in
the environment that cron gives a job, not in that of your shell. Prints each
problem, with a hint if there is one, and one line for all passed checks. With
--all or --json, prints every check: ok, info, warn, error or skipped. Exits 1
on an error. Sends and writes nothing, and marks no mail as read.

With --fix, first repairs problems that have only one solution: a mode that lets
others read or change your private files, a missing folder, the agent's crontab
line. Prints the repairs, and then the remaining problems. Follows no symbolic
link, and touches no file of another user.

Examples:
  agentstateloop doctor
  agentstateloop doctor --fix
  agentstateloop doctor --json | jq '.[] | select(.level == "error")'`,
		Flags: []cli.Flag{
			switchFlag(&o.fix, "fix", "first repair modes, missing folders and the crontab line"),
			switchFlag(&o.all, "all", "also print passed checks"),
			switchFlag(&o.noNetwork, "no-network", "do not contact the mail servers and the mesh"),
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
	level := doctor.Trouble
	if o.all {
		level = doctor.Everything
	}
	if c.json {
		err = c.out.JSON(found)
	} else {
		err = doctor.Print(&c.out, found, level)
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
