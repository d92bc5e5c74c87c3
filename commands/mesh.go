package commands

import (
	"github.com/urfave/cli/v2"

	"agentstateloop/commands/config"
	"agentstateloop/commands/terminal"
	"agentstateloop/cycle"
)

func meshCommand(p *program) *cli.Command {
	return &cli.Command{
		Name:  "mesh",
		Usage: "the message service between agents, and its HALT",
		Subcommands: []*cli.Command{
			meshServeCommand(p),
			meshSendCommand(p),
			meshInboxCommand(p),
			meshHaltCommand(p),
			meshResumeCommand(p),
		},
	}
}

// meshCarrier is the common part of the commands that call the mesh as the configured agent.
type meshCarrier struct {
	agents agents
	out    *terminal.Output
}

// carrier returns the configured agent's connection to the mesh.
func (m meshCarrier) carrier(c *cli.Context) (cycle.Carrier, error) {
	a, err := m.agents.load(c)
	if err != nil {
		return nil, err
	}
	if a.Mesh == nil {
		return nil, &config.Error{Path: a.Config, Key: "mesh.url", Text: "is missing: the URL of the mesh", Advice: meshHint}
	}
	return a.Mesh.Carrier, nil
}
