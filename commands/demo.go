package commands

import (
	"fmt"
	"strings"

	"github.com/urfave/cli/v2"

	"agentstateloop/commands/config"
	"agentstateloop/commands/terminal"
	"agentstateloop/cycle/demo"
	"agentstateloop/turn"
)

type demoCmd struct {
	loader *config.Loader
	out    *terminal.Output
}

func demoCommand(p *program) *cli.Command {
	return &cli.Command{
		Name:  "demo",
		Usage: "a day in the life of an agent, in a few seconds",
		Description: `Plays with servers, a crontab and a clock of its own. It needs no configuration
and touches nothing of yours. Exits 1 if the agent does not do as it should.
With --runner api the loop in this program runs the turns, with a model that
answers from a script.

Example:
  agentstateloop demo --runner api`,
		Flags:  []cli.Flag{&cli.StringFlag{Name: "runner", Usage: "`NAME`: exec or api", Value: turn.Exec}},
		Action: demoCmd{p.loader, &p.out}.run,
	}
}

func (d demoCmd) run(c *cli.Context) error {
	if err := arguments(c, 0, 0); err != nil {
		return err
	}
	runner := c.String("runner")
	if runner != turn.Exec && runner != turn.API {
		return terminal.Usagef("exec is a shell script, api the loop in this program", "--runner %q is not one of: exec, api", runner)
	}
	self, err := d.loader.Executable()
	if err != nil {
		return fmt.Errorf("find this program: %w", err)
	}
	if !c.Bool("json") {
		return demo.Run(c.Context, d.out.Stdout, self, runner)
	}
	var story strings.Builder
	if err := demo.Run(c.Context, &story, self, runner); err != nil {
		return err
	}
	return d.out.JSON(demoOutput{Runner: runner, Story: strings.Split(strings.TrimSuffix(story.String(), "\n"), "\n")})
}

// demoOutput is the JSON output of demo.
type demoOutput struct {
	Runner string   `json:"runner"`
	Story  []string `json:"story"` // line by line, as it is printed otherwise
}
