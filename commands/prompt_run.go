package commands

import (
	"errors"

	"github.com/urfave/cli/v2"

	"agentstateloop/commands/terminal"
	"agentstateloop/cycle"
)

type promptRunCmd struct {
	agents agents
	out    *terminal.Output
}

func promptRunCommand(p *program) *cli.Command {
	return &cli.Command{
		Name:      "run",
		Usage:     "let a [[prompt]] of agent.toml have its turn now",
		ArgsUsage: "NAME",
		Description: `The agent is told the text of the prompt as at one of its times, with the same
rights, and its answer is mailed as then. Its program (if) is not asked, and its
next time stays as it is. Prints the key of the message, which inbox show takes,
and does not wait for the answer.

Example:
  agentstateloop prompt run morning`,
		Action: promptRunCmd{p.agents(), &p.out}.run,
	}
}

// promptRunOutput is the JSON output of prompt run.
type promptRunOutput struct {
	Key  string `json:"key"`
	Name string `json:"name"`
}

func (k promptRunCmd) run(c *cli.Context) error {
	if err := arguments(c, 1, 1); err != nil {
		return err
	}
	a, err := k.agents.load(c)
	if err != nil {
		return err
	}
	v := promptRunOutput{Name: c.Args().First()}
	if v.Key, err = a.RunPrompt(c.Context, v.Name); errors.Is(err, cycle.ErrNoPrompt) {
		var known []string
		for _, prompt := range a.ClockPrompts {
			known = append(known, prompt.Name)
		}
		return terminal.WithHint(err, terminal.DidYouMean(v.Name, known, "`"+name+" status` lists the prompts"))
	}
	if err != nil {
		return err
	}
	detach(a, k.out)
	if c.Bool("json") {
		return k.out.JSON(v)
	}
	k.out.Printf("%s\n", v.Key)
	return nil
}
