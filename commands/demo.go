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

--nats plays two agents on two hosts, with a NATS server between them. For that
it starts the nats-server in your PATH, on loopback, and ends it afterwards.

Example:
  agentstateloop demo --runner api
  agentstateloop demo --nats`,
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "runner", Usage: "`NAME`: exec or api", Value: turn.Exec},
			switchFlag("nats", "two agents on two hosts, over NATS"),
		},
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
	play, err := d.story(c.Bool("nats"), runner)
	if err != nil {
		return err
	}
	if !c.Bool("json") {
		return play(c.Context, d.out.Stdout)
	}
	var story strings.Builder
	if err := play(c.Context, &story); err != nil {
		return err
	}
	return d.out.JSON(demoOutput{Runner: runner, NATS: c.Bool("nats"), Story: strings.Split(strings.TrimSuffix(story.String(), "\n"), "\n")})
}

// story returns a function that plays the story.
func (d demoCmd) story(nats bool, runner string) (play func(context.Context, io.Writer) error, err error) {
	if nats && runner != turn.Exec {
		return nil, terminal.Usagef("play one story after the other", "--runner %s does not go with --nats, whose agents are shell scripts", runner)
	}
	self, err := d.loader.Executable()
	if err != nil {
		return nil, fmt.Errorf("find this program: %w", err)
	}
	if !nats {
		return func(ctx context.Context, out io.Writer) error { return demo.Run(ctx, out, self, runner) }, nil
	}
	server := config.InPath("nats-server", d.loader.Env("PATH"))
	if server == "" {
		return nil, terminal.WithHint(errors.New("no nats-server is in your PATH"), getNATS)
	}
	return func(ctx context.Context, out io.Writer) error { return demo.RunNATS(ctx, out, self, server) }, nil
}

// getNATS explains how to get a NATS server.
const getNATS = "`go install github.com/nats-io/nats-server/v2@latest` puts one (16 MiB) into the bin folder of `go env GOPATH`; NATS has packages of it as well"

// demoOutput is the JSON output of demo.
type demoOutput struct {
	Runner string   `json:"runner"`
	NATS   bool     `json:"nats"`
	Story  []string `json:"story"` // the printed lines
}
