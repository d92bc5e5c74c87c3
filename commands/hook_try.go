package commands

import (
	"errors"
	"fmt"
	"time"

	"github.com/urfave/cli/v2"

	"agentstateloop/commands/terminal"
	"agentstateloop/cycle/hook"
	"agentstateloop/internal/plain"
)

type hookTestCmd struct {
	agents agents
	out    *terminal.Output
}

func hookTestCommand(p *program) *cli.Command {
	return &cli.Command{
		Name:      "test",
		Usage:     "call one hook now, with an event named test",
		ArgsUsage: "NAME",
		Description: `Calls the hook of that name, whichever events it hears, and prints what came of
it. Nothing is recorded, and nothing is tried again. Exits 3 if the hook did not
take the event.

Example:
  agentstateloop hook test pager`,
		Action: hookTestCmd{p.agents(), &p.out}.run,
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

func (k hookTestCmd) run(c *cli.Context) error {
	if err := arguments(c, 1, 1); err != nil {
		return err
	}
	a, err := k.agents.load(c)
	if err != nil {
		return err
	}
	v := hookTestOutput{Name: c.Args().First()}
	took, err := a.TestHook(c.Context, v.Name)
	refused, called := errors.AsType[*hook.Error](err)
	if err != nil && !called {
		return withHookHint(err)
	}
	took = took.Round(time.Millisecond)
	v.Taken, v.Seconds = err == nil, took.Seconds()
	if called {
		v.Reason, v.Permanent = refused.Reason, refused.Permanent
	}
	if c.Bool("json") {
		if err := k.out.JSON(v); err != nil {
			return err
		}
	} else if v.Taken {
		k.out.Printf("%s took the event in %s\n", v.Name, took)
	}
	if v.Taken {
		return nil
	}
	return terminal.WithHint(&sourceError{failed: []string{fmt.Sprintf("%s did not take the event: %s", v.Name, plain.Line(v.Reason))}},
		"its [[hook]] in agent.toml says what is called; an event that it does not take is tried again")
}
