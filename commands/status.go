package commands

import (
	"context"
	"encoding/json"
	"io"
	"math"
	"os"
	"os/signal"
	"time"

	"github.com/urfave/cli/v2"
	"golang.org/x/sys/unix"

	"agentstateloop/commands/config"
	"agentstateloop/commands/present"
	"agentstateloop/commands/terminal"
	"agentstateloop/cycle"
	"agentstateloop/cycle/view"
)

// statusOptions are the flags of status.
type statusOptions struct {
	all, watch bool
	html       string
	prometheus string
}

func statusCommand(p *program) *cli.Command {
	var o statusOptions
	return &cli.Command{
		Name:      "status",
		Usage:     "show the agent's state and its problems",
		ArgsUsage: "[FILE|DIR...]",
		Description: `Only reads the agent's files: takes no lock and uses no network. In scripts use
--json, which prints every field; null means that there is nothing to report.

With --all, prints one line per agent: the agents of the given configurations
and folders, by default of the folder with your configuration, and other agents
seen on the mesh. A mesh on NATS also reports their hosts. It lists an agent as
AWAY after 35 minutes without a sign of life, and forgets it after a week. Exits
3 if the mesh does not answer.

With --watch it continues until Ctrl-C. On a terminal it redraws the status
every second. Elsewhere, and with --json, it prints the status again after each
change; with --json, each time as one line.

--html writes the page that listen serves to one file (0600), which any browser
shows. It loads nothing and sends nothing. With --all, or with FILE or DIR, it
has several agents.

--prometheus writes the metrics that listen serves at /metrics to one file
(0644) in one step, for the textfile collector of node_exporter; name it *.prom.
With --all, or with FILE or DIR, it has several agents.

Examples:
  agentstateloop status --json | jq -r .phase
  agentstateloop status --all
  agentstateloop status --html status.html
  agentstateloop status --all --prometheus /var/lib/prometheus/agents.prom`,
		Flags: []cli.Flag{
			switchFlag(&o.all, "all", "show all agents, yours and those on the mesh"),
			switchFlag(&o.watch, "watch", "keep running and show changes"),
			&cli.StringFlag{Name: "html", TakesFile: true, Usage: "write the page to `FILE`; - is standard output", Destination: &o.html},
			&cli.StringFlag{Name: "prometheus", TakesFile: true, Usage: "write metrics to `FILE`; - is standard output", Destination: &o.prometheus},
		},
		Action: p.action(0, math.MaxInt, o.run),
	}
}

func (o *statusOptions) run(c *call) error {
	if flag := c.given(&o.html, &o.prometheus); flag != "" {
		return o.writeFile(c, flag)
	}
	if o.all && o.watch {
		return terminal.Usagef("select one agent with -a HANDLE", "--watch does not work with --all")
	}
	if o.all {
		return statusAll(c)
	}
	if len(c.args) > 0 {
		return terminal.Usagef("use --all for several agents, and -a HANDLE for one of them", "unexpected argument %q", c.arg(0))
	}
	a, err := c.load()
	if err != nil {
		return err
	}
	hears, err := c.mayReadOthers()
	if err != nil {
		return err
	}
	if o.watch {
		return watchStatus(c, a, hears)
	}
	s, err := a.View().Status()
	if err != nil {
		return err
	}
	if !hears {
		s = s.WithoutWords()
	}
	if c.json {
		return c.out.JSON(s)
	}
	return c.printStatus(a, s)
}

// watchStatus shows the status until Ctrl-C.
func watchStatus(c *call, a *cycle.Agent, hears bool) error {
	reader := a.View().StatusReader()
	w := watch{unread: c.unread, status: func() (view.Status, error) {
		s, err := reader.Status()
		if !hears {
			s = s.WithoutWords()
		}
		return s, err
	}}
	if c.json {
		return w.onChange(c.ctx, func(s view.Status) error { return c.out.JSONLine(s) })
	}
	if screen, ok := c.out.Screen(c.loader.Env("TERM")); ok {
		return w.onScreen(c.ctx, screen, func(s view.Status) string { return c.statusText(a, s) })
	}
	return w.onChange(c.ctx, func(s view.Status) error { return c.printStatus(a, s) })
}

// printStatus prints the status of an agent for a person.
func (c *call) printStatus(a *cycle.Agent, s view.Status) error {
	_, err := io.WriteString(c.out.Stdout, c.statusText(a, s))
	return err
}

func (c *call) statusText(a *cycle.Agent, s view.Status) string {
	return present.Status(&c.out, s, a.Schedule.Mode, config.Unproved(a), c.now())
}

// watchEvery is the interval at which status --watch reads the status.
const watchEvery = time.Second

// watch shows the status of an agent until ctx ends. That is not an error.
type watch struct {
	status func() (view.Status, error)
	unread func() bool // reports whether the reader of the output has gone
}

// onChange shows the status, and again at each change. The passing of time is not a change.
func (w watch) onChange(ctx context.Context, show func(view.Status) error) error {
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	shown := ""
	for !w.unread() {
		s, err := w.status()
		if err != nil {
			return err
		}
		now, err := json.Marshal(s)
		if err != nil {
			return err
		}
		if string(now) != shown {
			if err := show(s); err != nil {
				return err
			}
			shown = string(now)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
	return nil
}

// onScreen shows the status in one place. It updates the distances to now, and redraws at once
// when the size of the terminal changes. It always restores the terminal at its end, even after
// a panic.
func (w watch) onScreen(ctx context.Context, screen *terminal.Screen, text func(view.Status) string) error {
	ctx, stop := signal.NotifyContext(ctx, unix.SIGHUP, unix.SIGQUIT)
	defer stop()
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, unix.SIGWINCH, unix.SIGTSTP)
	defer signal.Stop(signals)
	defer screen.Close()
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	for !w.unread() {
		s, err := w.status()
		if err != nil {
			return err
		}
		if err := screen.Show(text(s)); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		case got := <-signals:
			if got == unix.SIGTSTP {
				screen.Close()
				suspend(ctx)
			}
		}
	}
	return nil
}

// suspend stops this process, as Ctrl-Z does, until it is continued.
func suspend(ctx context.Context) {
	continued := make(chan os.Signal, 1)
	signal.Notify(continued, unix.SIGCONT)
	defer signal.Stop(continued)
	if unix.Kill(unix.Getpid(), unix.SIGSTOP) != nil {
		return
	}
	select { // other threads may still run for a moment
	case <-continued:
	case <-ctx.Done():
	}
}
