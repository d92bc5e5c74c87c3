package commands

import (
	"context"

	"agentstateloop/cycle"
	"agentstateloop/turn"
	"agentstateloop/turn/acp"
)

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
