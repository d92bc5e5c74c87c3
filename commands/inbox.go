package commands

import (
	"errors"
	"fmt"

	"github.com/urfave/cli/v2"

	"agentstateloop/commands/terminal"
	"agentstateloop/cycle"
	"agentstateloop/cycle/view"
	"agentstateloop/internal/plain"
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

// findMessage returns a message by its key. which is the user's name for it.
func findMessage(a *cycle.Agent, which, key string) (state.Message, error) {
	m, err := a.View().FindMessage(key)
	if !errors.Is(err, view.ErrNoMessage) {
		return m, err
	}
	if key != which {
		err = fmt.Errorf("%w: %s, %s, was dropped or has left the mailbox", view.ErrNoMessage, which, plain.Line(key))
	}
	return m, terminal.WithHint(err, "see "+name+" inbox list [--quarantined], and "+name+" history")
}
