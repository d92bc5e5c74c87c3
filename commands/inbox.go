package commands

import (
	"errors"

	"github.com/urfave/cli/v2"

	"agentstateloop/commands/terminal"
	"agentstateloop/cycle"
	"agentstateloop/state"
)

func inboxCommand(p *program) *cli.Command {
	return &cli.Command{
		Name:  "inbox",
		Usage: "look at the messages that wait, and work on them",
		Subcommands: []*cli.Command{
			inboxListCommand(p),
			inboxShowCommand(p),
			inboxNextCommand(p),
			inboxDoneCommand(p),
			inboxRetryCommand(p),
			inboxDropCommand(p),
			inboxReleaseCommand(p),
		},
	}
}

// findMessage returns a message by its number or key.
func findMessage(a *cycle.Agent, which string) (state.Message, error) {
	m, err := a.FindMessage(which)
	if errors.Is(err, cycle.ErrNoMessage) {
		err = terminal.WithHint(err, "see "+name+" inbox list [--quarantined], and "+name+" history")
	}
	return m, err
}
