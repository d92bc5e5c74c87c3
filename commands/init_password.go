package commands

import (
	"github.com/urfave/cli/v2"

	"agentstateloop/commands/setup"
	"agentstateloop/commands/terminal"
	"agentstateloop/cycle"
)

// newPassword reads a new password for an existing agent, if requested: by --password, by
// --password-stdin alone, or at a terminal where init asks no other question. It returns the
// file with the password, or nil.
func (k initCmd) newPassword(c *cli.Context, plans setup.Setup, a *cycle.Agent) (*string, error) {
	conf, err := k.loader.Read(a.Config)
	if err != nil {
		return nil, err
	}
	if handle := c.String("handle"); c.Bool("password") && handle != "" && handle != a.Handle {
		return nil, terminal.Usagef("name the other file with --config FILE", "%s is the file of @%s", a.Config, a.Handle)
	}
	fromStdin := c.Bool("password-stdin")
	switch {
	case c.Bool("password"), fromStdin && onlyFlags(c, "password-stdin"):
	case plans.Asker.CanAsk() && onlyFlags(c) && !c.Bool("json"):
		if _, err := setup.PasswordFile(conf); err != nil {
			return nil, nil // the agent has no password file
		}
		wanted, err := plans.Asker.Confirm(c.Context, a.Config+" already exists; set a new password for "+a.Mail.Address+"?")
		if !wanted || err != nil {
			return nil, err
		}
	default:
		return nil, nil
	}
	file, err := plans.NewPassword(c.Context, conf, a, fromStdin)
	if file == "" || err != nil {
		return nil, err
	}
	return &file, nil
}
