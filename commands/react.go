package commands

import (
	"errors"
	"io"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"agentstateloop/commands/apirunner"
	"agentstateloop/commands/config"
	"agentstateloop/commands/terminal"
	"agentstateloop/turn"
)

// reactCmd is the hidden subcommand that runs package apirunner.
type reactCmd struct {
	agents agents
	loader *config.Loader
	stdin  io.Reader
	out    *terminal.Output
}

func reactCommand(p *program) *cli.Command {
	return &cli.Command{
		Name: config.APICommand, Hidden: true, Action: reactCmd{p.agents(), p.loader, p.stdin, &p.out}.run,
		Flags: []cli.Flag{
			&cli.TimestampFlag{Name: "now", Layout: time.RFC3339, Usage: "the time of the demo's clock"},
			&cli.BoolFlag{Name: "summary", Usage: "answer standard input by a summary"},
			&cli.BoolFlag{Name: strings.TrimPrefix(turn.LowFlag, "--"), Usage: "ask the cheaper model"},
			&cli.StringFlag{Name: strings.TrimPrefix(turn.ModelFlag, "--"), Usage: "ask this model"},
			&cli.IntFlag{Name: config.FallbackFlag, Usage: "be this fallback"},
		},
	}
}

func (k reactCmd) run(c *cli.Context) error {
	if err := arguments(c, 0, 0); err != nil {
		return err
	}
	begun := time.Now()
	if at := c.Timestamp("now"); at != nil {
		k.loader.Now = func() time.Time { return *at }
	}
	a, in, err := k.agents.loadInside(c)
	if err != nil {
		return err
	}
	r, err := apirunner.New(apirunner.Process{
		Loader: k.loader, Stdin: k.stdin, Stdout: k.out.Stdout, Begun: begun,
		Fallback: c.Int(config.FallbackFlag), Low: c.Bool(strings.TrimPrefix(turn.LowFlag, "--")), Model: c.String(strings.TrimPrefix(turn.ModelFlag, "--")),
	}, a, in)
	if errors.Is(err, apirunner.ErrNotAPI) {
		return terminal.Usagef("", `%s is for agentstateloop's own use, with runner = "api"`, config.APICommand)
	}
	if err != nil {
		return err
	}
	run := r.Turn
	if c.Bool("summary") {
		run = r.Summary
	}
	err = run(c.Context)
	if errors.Is(err, apirunner.ErrReported) {
		return silentError{err}
	}
	return err
}
