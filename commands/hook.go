package commands

import (
	"errors"
	"fmt"
	"time"

	"github.com/urfave/cli/v2"

	"agentstateloop/commands/terminal"
	"agentstateloop/cycle"
	"agentstateloop/cycle/hook"
	"agentstateloop/internal/plain"
)

func hookCommand(p *program) *cli.Command {
	return &cli.Command{
		Name:        "hook",
		Usage:       "test a hook, a program or URL that receives events",
		Subcommands: []*cli.Command{hookTestCommand(p)},
	}
}

// callHooksCommand returns the hidden subcommand that calls the hooks for a process without time
// to call them itself.
func callHooksCommand(p *program) *cli.Command {
	return &cli.Command{Name: cycle.HooksCommand, Hidden: true, Action: p.agentAction(0, 0, callHooks)}
}

func callHooks(c *call, a *cycle.Agent) error {
	return withinMemory(a, maxMemory, func() error { return a.CallHooks(c.ctx) })
}

// withHookHint adds a hint to an error about a hook.
func withHookHint(err error) error {
	if errors.Is(err, cycle.ErrNoHook) {
		return terminal.WithHint(err, "use the name of a [[hook]]; "+name+" status --json lists them")
	}
	return err
}

func hookTestCommand(p *program) *cli.Command {
	return &cli.Command{
		Name:      "test",
		Usage:     "call a hook with an event named test",
		ArgsUsage: "NAME",
		Description: `Calls the hook of that name, whatever events it receives, and prints the result.
Nothing is recorded or retried. Exits 3 if the hook fails.

Example:
  agentstateloop hook test pager`,
		Action: p.agentAction(1, 1, testHook),
	}
}

// hookTestOutput is the JSON output of hook test.
type hookTestOutput struct {
	Name  string `json:"name"`
	Taken bool   `json:"taken"`

	Seconds   float64 `json:"seconds"` // duration of the call
	Reason    string  `json:"reason"`
	Permanent bool    `json:"permanent"` // an event with such a failure is lost at once
}

func testHook(c *call, a *cycle.Agent) error {
	v := hookTestOutput{Name: c.arg(0)}
	took, err := a.TestHook(c.ctx, v.Name)
	refused, called := errors.AsType[*hook.Error](err)
	if err != nil && !called {
		return withHookHint(err)
	}
	took = took.Round(time.Millisecond)
	v.Taken, v.Seconds = err == nil, took.Seconds()
	if called {
		v.Reason, v.Permanent = refused.Reason, refused.Permanent
	}
	if v.Taken {
		return c.print(v, "%s accepted the event in %s\n", v.Name, took)
	}
	if err := c.print(v, ""); err != nil {
		return err
	}
	return terminal.WithHint(&sourceError{failed: []string{fmt.Sprintf("%s did not accept the event: %s", v.Name, plain.Line(v.Reason))}},
		"check its [[hook]] in agent.toml; an event that it does not accept is retried")
}
