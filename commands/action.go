package commands

import (
	"context"
	"fmt"
	"slices"

	"github.com/urfave/cli/v2"

	"agentstateloop/commands/terminal"
	"agentstateloop/cycle"
)

// call is one call of a command: the program and its command line. The flags of the command are
// in an options struct of its own, which its constructor makes for each run.
type call struct {
	*program
	ctx  context.Context
	args []string // positional arguments
	json bool     // print JSON
	line *cli.Context
}

func (p *program) newCall(line *cli.Context) *call {
	return &call{program: p, ctx: line.Context, args: line.Args().Slice(), json: p.global.json, line: line}
}

// action returns the action of a command that takes least to most arguments.
func (p *program) action(least, most int, do func(*call) error) cli.ActionFunc {
	return func(line *cli.Context) error {
		c := p.newCall(line)
		if err := c.arguments(least, most); err != nil {
			return err
		}
		return do(c)
	}
}

// agentAction is action for a command that begins with the agent that the command line names.
func (p *program) agentAction(least, most int, do func(*call, *cycle.Agent) error) cli.ActionFunc {
	return p.action(least, most, func(c *call) error {
		a, err := c.load()
		if err != nil {
			return err
		}
		return do(c, a)
	})
}

// arguments checks the number of positional arguments.
func (c *call) arguments(least, most int) error {
	hint := "see " + c.helpName() + " --help"
	if n := len(c.args); n > most {
		if most > 0 {
			hint = "put quotes around an argument with spaces"
		}
		return terminal.Usagef(hint, "unexpected argument %q", c.arg(most))
	}
	if len(c.args) < least {
		return terminal.Usagef(hint, "%s needs %s", c.helpName(), c.line.Command.ArgsUsage)
	}
	return nil
}

// arg returns argument n, or "" if it is missing.
func (c *call) arg(n int) string {
	if n >= len(c.args) {
		return ""
	}
	return c.args[n]
}

// helpName returns the command as a user types it, with the program: "agentstateloop inbox show".
func (c *call) helpName() string { return c.line.Command.HelpName }

// given returns the first of the flags that are bound to these variables and are on the command
// line, or "".
func (c *call) given(variables ...any) string {
	for _, variable := range variables {
		for _, f := range slices.Concat(c.line.Command.Flags, c.line.App.Flags) {
			if flagName := f.Names()[0]; variableOf(f) == variable && c.line.IsSet(flagName) {
				return flagName
			}
		}
	}
	return ""
}

// print prints a document if the command line asks for JSON, and otherwise a text, which may be
// empty.
func (c *call) print(document any, format string, args ...any) error {
	if c.json {
		return c.out.JSON(document)
	}
	if text := fmt.Sprintf(format, args...); text != "" {
		c.out.Printf("%s", text)
	}
	return nil
}

// fileOutput is the JSON of a text for a file: a script, a unit, a configuration.
type fileOutput struct {
	Text string `json:"text"`
}

// printFile prints a text for a file unchanged, or as JSON.
func (c *call) printFile(text string) error {
	if c.json {
		return c.out.JSON(fileOutput{Text: text})
	}
	c.out.Verbatim(text)
	return nil
}

// orNull returns a pointer to v, or nil for the zero value.
func orNull[T comparable](v T) *T {
	var zero T
	if v == zero {
		return nil
	}
	return &v
}

// orEmpty returns a list that is [] in JSON, not null.
func orEmpty[T any](list []T) []T { return append([]T{}, list...) }
