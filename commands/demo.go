package commands

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/urfave/cli/v2"

	"agentstateloop/commands/config"
	"agentstateloop/commands/terminal"
	"agentstateloop/cycle/demo"
	"agentstateloop/turn"
)

// demoOptions are the flags of demo.
type demoOptions struct {
	nats   bool
	runner string
}

func demoCommand(p *program) *cli.Command {
	var o demoOptions
	return &cli.Command{
		Name:  "demo",
		Usage: "simulate a day of an agent in a few seconds",
		Description: `Runs an agent with mail and mesh servers, a crontab and a clock of its own, in a
temporary folder. Needs no configuration, and touches none of your files. Exits
1 if the agent does not behave as expected. With --runner api the built-in loop
runs the turns, with a model that answers from a script.

--nats simulates two agents on two hosts with a NATS server between them. It
starts the nats-server in your PATH, on loopback, and stops it afterwards.

Examples:
  agentstateloop demo --runner api
  agentstateloop demo --nats`,
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "runner", Usage: "`NAME`: exec or api", Value: turn.Exec, Destination: &o.runner},
			switchFlag(&o.nats, "nats", "simulate two agents on two hosts with NATS"),
		},
		Action: p.action(0, 0, o.run),
	}
}

func (o *demoOptions) run(c *call) error {
	if o.runner != turn.Exec && o.runner != turn.API {
		return terminal.Usagef("exec runs a shell script, api the built-in loop", "--runner %q is not one of: exec, api", o.runner)
	}
	play, err := o.story(c)
	if err != nil {
		return err
	}
	if !c.json {
		return play(c.ctx, c.out.Wrapped())
	}
	var story strings.Builder
	if err := play(c.ctx, &story); err != nil {
		return err
	}
	return c.out.JSON(demoOutput{Runner: o.runner, NATS: o.nats, Story: strings.Split(strings.TrimSuffix(story.String(), "\n"), "\n")})
}

// story returns a function that plays the story.
func (o *demoOptions) story(c *call) (play func(context.Context, io.Writer) error, err error) {
	if o.nats && o.runner != turn.Exec {
		return nil, terminal.Usagef("run one demo after the other", "--runner %s does not work with --nats, whose agents are shell scripts", o.runner)
	}
	self, err := c.loader.Executable()
	if err != nil {
		return nil, fmt.Errorf("find this program: %w", err)
	}
	if !o.nats {
		return func(ctx context.Context, out io.Writer) error { return demo.Run(ctx, out, self, o.runner) }, nil
	}
	server := config.InPath("nats-server", c.loader.Env("PATH"))
	if server == "" {
		return nil, terminal.WithHint(errors.New("nats-server was not found in PATH"), getNATS)
	}
	return func(ctx context.Context, out io.Writer) error { return demo.RunNATS(ctx, out, self, server) }, nil
}

// getNATS explains how to get a NATS server.
const getNATS = "install it (16 MiB) with `go install github.com/nats-io/nats-server/v2@latest`, into the bin folder of `go env GOPATH`, or from a package of NATS"

// demoOutput is the JSON output of demo.
type demoOutput struct {
	Runner string   `json:"runner"`
	NATS   bool     `json:"nats"`
	Story  []string `json:"story"` // the printed lines
}
