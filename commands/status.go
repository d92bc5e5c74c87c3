package commands

import (
	"io"
	"time"

	"github.com/urfave/cli/v2"

	"agentstateloop/commands/config"
	"agentstateloop/commands/terminal"
	"agentstateloop/cycle"
	"agentstateloop/cycle/view"
)

type statusCmd struct {
	agents agents
	out    *terminal.Output
	now    func() time.Time
	unread func() bool
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
that the mesh has seen besides them. A mesh over NATS names their hosts, and
remembers for a week those that are AWAY: not seen for 35 minutes. Exits 3 if
the mesh does not answer.

With --watch it goes on until Ctrl-C. On a terminal it shows the status in one
place, each second; elsewhere, and with --json, it prints it again when it
changes, with --json as one line each time.

Example:
  agentstateloop status --json | jq -r .phase
  agentstateloop status --all`,
		Flags: []cli.Flag{
			switchFlag("all", "all agents, yours and those on the mesh"),
			switchFlag("watch", "go on, and show what changes"),
		},
		Action: statusCmd{p.agents(), &p.out, p.loader.Now, p.unread}.run,
	}
}

func (k statusCmd) run(c *cli.Context) error {
	if c.Bool("all") && c.Bool("watch") {
		return terminal.Usagef("watch one agent, named with -a HANDLE", "--watch is for one agent, and --all shows all")
	}
	if c.Bool("all") {
		return k.all(c)
	}
	if c.NArg() > 0 {
		return terminal.Usagef("show several agents with --all, and one of them with -a HANDLE", "unexpected argument %q", c.Args().First())
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
		return k.watch(c, a, hears)
	}
	s, err := a.View().Status()
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

// watch shows the status until Ctrl-C.
func (k statusCmd) watch(c *cli.Context, a *cycle.Agent, hears bool) error {
	reader := a.View().StatusReader()
	w := watch{unread: k.unread, status: func() (view.Status, error) {
		s, err := reader.Status()
		if !hears {
			s = s.WithoutWords()
		}
		return s, err
	}}
	if c.Bool("json") {
		return w.onChange(c.Context, func(s view.Status) error { return k.out.JSONLine(s) })
	}
	if screen, ok := k.out.Screen(k.agents.loader.Env("TERM")); ok {
		return w.onScreen(c.Context, screen, func(s view.Status) string { return k.text(a, s) })
	}
	return w.onChange(c.Context, func(s view.Status) error { return k.print(a, s) })
}

// print prints the status of an agent for a person.
func (k statusCmd) print(a *cycle.Agent, s view.Status) error {
	_, err := io.WriteString(k.out.Stdout, k.text(a, s))
	return err
}

func (k statusCmd) text(a *cycle.Agent, s view.Status) string {
	return statusText(k.out, s, a.Schedule.Mode, config.Unproved(a), k.now())
}
