package commands

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"agentstateloop/commands/apirunner"
	"agentstateloop/commands/config"
	"agentstateloop/commands/terminal"
	"agentstateloop/cycle"
	"agentstateloop/turn"
	"agentstateloop/turn/acp"
)

// reactOptions are the flags of the hidden subcommand that runs package apirunner.
type reactOptions struct {
	now          cli.Timestamp
	summary, low bool
	model        string
	fallback     int
}

func reactCommand(p *program) *cli.Command {
	var o reactOptions
	return &cli.Command{
		Name: config.APICommand, Hidden: true, Action: p.action(0, 0, o.run),
		Flags: []cli.Flag{
			&cli.TimestampFlag{Name: "now", Layout: time.RFC3339, Usage: "the time of the demo's clock", Destination: &o.now},
			switchFlag(&o.summary, "summary", "answer standard input by a summary"),
			switchFlag(&o.low, strings.TrimPrefix(turn.LowFlag, "--"), "ask the cheaper model"),
			textFlag(&o.model, strings.TrimPrefix(turn.ModelFlag, "--"), "ask this model"),
			&cli.IntFlag{Name: config.FallbackFlag, Usage: "be this fallback", Destination: &o.fallback},
		},
	}
}

func (o *reactOptions) run(c *call) error {
	begun := time.Now()
	if at := o.now.Value(); at != nil {
		c.loader.Now = func() time.Time { return *at }
	}
	in, err := c.inside()
	if err != nil {
		return err
	}
	a, err := c.load()
	if err != nil {
		return err
	}
	r, err := apirunner.New(apirunner.Process{
		Loader: c.loader, Stdin: c.stdin, Stdout: c.out.Stdout, Begun: begun,
		Fallback: o.fallback, Low: o.low, Model: o.model,
	}, a, in)
	if errors.Is(err, apirunner.ErrNotAPI) {
		return terminal.Usagef("", `%s is for agentstateloop's own use, with runner = "api"`, config.APICommand)
	}
	if err != nil {
		return err
	}
	run := r.Turn
	if o.summary {
		run = r.Summary
	}
	err = run(c.ctx)
	if errors.Is(err, apirunner.ErrReported) {
		return silentError{err}
	}
	return err
}

// acp runs turn.ACPCommand with its arguments. This is the hidden process behind runner = "acp":
// it talks to the agent and prints the events (docs/decisions/0054-acp-client-and-permissions.md). In a sandbox it has neither
// the configuration nor the state.
func (p *program) acp(ctx context.Context, args []string) (code int) {
	err := acp.Process{Stdin: p.stdin, Stdout: p.out.Stdout, Ask: p.askPermission, Secrets: p.loader.Secrets}.Main(ctx, args)
	if err != nil {
		p.out.Error(err.Error(), "")
		return exitError
	}
	return exitDone
}

// askPermission puts a request for permission to the operator.
func (p *program) askPermission(ctx context.Context, text string) (id string, err error) {
	actions, err := p.ownTurn()
	if err != nil {
		return "", err
	}
	return actions.askOperator(ctx, cycle.OperatorQuestion{Text: text, Options: []string{turn.Allow, turn.Refuse}, Permit: true})
}

// ownTurn returns the actions of the turn that this process serves.
func (p *program) ownTurn() (turnActions, error) {
	in, err := parseTurn(p.loader.Env("AGENTSTATELOOP_TURN"), p.loader.Env("AGENTSTATELOOP_EPOCH"))
	if err != nil {
		return nil, err
	}
	if relayed, ok := relayedTurnOf(p.loader); ok {
		return relayed, nil
	}
	a, err := p.loader.Load(p.loader.Env("AGENTSTATELOOP_CONFIG"))
	if err != nil {
		return nil, err
	}
	return ownTurn{a, in}, nil
}
