package commands

import (
	"fmt"
	"io"
	"time"

	"github.com/urfave/cli/v2"

	"agentstateloop/commands/config"
	"agentstateloop/commands/terminal"
	"agentstateloop/cycle"
)

type statusCmd struct {
	agents agents
	out    *terminal.Output
	now    func() time.Time
}

func statusCommand(p *program) *cli.Command {
	return &cli.Command{
		Name:      "status",
		Usage:     "show the agent's state, and what is wrong",
		ArgsUsage: "[FILE|DIR...]",
		Description: `Reads the agent's files and nothing else: it takes no lock and uses no network.
In scripts use --json. It always prints every field; null means that there is
nothing to report.

With --all, prints a line for each agent whose configuration is named or lies in
a folder that is named, by default in the folder of yours; and for the agents
that the mesh shows as online besides them. Exits 3 if the mesh does not answer.

With --watch it goes on until Ctrl-C; with --json as well it prints a line each
time.

Example:
  agentstateloop status --json | jq -r .phase
  agentstateloop status --all`,
		Flags: []cli.Flag{
			switchFlag("all", "all agents, yours and those on the mesh"),
			switchFlag("watch", "go on, and show it again when it changes"),
		},
		Action: statusCmd{p.agents(), &p.out, p.loader.Now}.run,
	}
}

func (k statusCmd) run(c *cli.Context) error {
	if c.Bool("all") && c.Bool("watch") {
		return terminal.Usagef("watch one agent, named with --config FILE", "--watch is for one agent, and --all shows all")
	}
	if c.Bool("all") {
		return k.all(c)
	}
	if c.NArg() > 0 {
		return terminal.Usagef("show several agents with --all, and one of them with --config FILE", "unexpected argument %q", c.Args().First())
	}
	a, err := k.agents.load(c)
	if err != nil {
		return err
	}
	hears, err := k.agents.mayHear(c)
	if err != nil {
		return err
	}
	if c.Bool("watch") {
		return watch(c.Context, a, func(s cycle.Status) error {
			if !hears {
				s = s.WithoutWords()
			}
			if c.Bool("json") {
				return k.out.JSONLine(s)
			}
			return k.print(a, s)
		})
	}
	s, err := a.Status()
	if err != nil {
		return err
	}
	if !hears {
		s = s.WithoutWords()
	}
	if c.Bool("json") {
		return k.out.JSON(s)
	}
	return k.print(a, s)
}

// print prints the status of an agent for a person.
func (k statusCmd) print(a *cycle.Agent, s cycle.Status) error {
	text := statusText(s, a.Schedule.Mode, k.now())
	if config.Unproved(a) {
		text += fmt.Sprintf("  %-10s %s\n", "TRUST", `require = "from" checks nothing: anyone who writes your address into From can run your agent`)
	}
	_, err := io.WriteString(k.out.Stdout, text)
	return err
}
