package commands

import (
	"errors"

	"github.com/urfave/cli/v2"

	"agentstateloop/commands/terminal"
	"agentstateloop/cycle"
)

func hookCommand(p *program) *cli.Command {
	return &cli.Command{
		Name:        "hook",
		Usage:       "try the programs and addresses that hear of events",
		Subcommands: []*cli.Command{hookTestCommand(p)},
	}
}

type callHooksCmd struct{ agents agents }

// callHooksCommand returns the hidden subcommand that calls the hooks for a process without time
// to call them itself.
func callHooksCommand(p *program) *cli.Command {
	return &cli.Command{Name: cycle.HooksCommand, Hidden: true, Action: callHooksCmd{p.agents()}.run}
}

func (k callHooksCmd) run(c *cli.Context) error {
	if err := arguments(c, 0, 0); err != nil {
		return err
	}
	a, err := k.agents.load(c)
	if err != nil {
		return err
	}
	return withinMemory(a, maxMemory, func() error { return a.CallHooks(c.Context) })
}

// withHookHint adds a hint to an error about a hook.
func withHookHint(err error) error {
	if errors.Is(err, cycle.ErrNoHook) {
		return terminal.WithHint(err, "the name is that of a [[hook]]; "+name+" status --json lists them")
	}
	return err
}
