package commands

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"runtime/debug"
	"sync"
	"time"

	"github.com/urfave/cli/v2"

	"agentstateloop/commands/config"
	"agentstateloop/commands/terminal"
	"agentstateloop/cycle"
	"agentstateloop/cycle/listen"
)

type listenCmd struct {
	agents agents
	loader *config.Loader
	out    *terminal.Output
}

func listenCommand(p *program) *cli.Command {
	return &cli.Command{
		Name:      "listen",
		Usage:     "run a small daemon that wakes agents at once",
		ArgsUsage: "[FILE|DIR...]",
		Description: `Polls within a second of new mail (IMAP IDLE), a message or nudge on the mesh, a
file in nudges/, a line in the pipe, or a call of the webhook. Serves your
agent, or those whose configurations are named or lie in folders that are named.
A configuration that is changed, added or removed counts within ten seconds.
Cron stays on: if the daemon dies, nothing is lost. Ends with TERM or INT.

The webhook takes POST /nudge, POST /message and POST /report/ID at --addr, with
the header "Authorization: Bearer TOKEN"; /nudge/HANDLE and so on with several
agents. A message is {"from": "ci", "text": "the build is red"}; its answer is
mailed to the operator. A report does what report does. GET /events, with the
same header, streams what events --follow shows. The pipe takes a line for each
nudge; with several agents the line begins with the handle. A writer waits while
nobody reads, and lines that were not read are lost if the daemon dies.

Example:
  agentstateloop listen --addr 127.0.0.1:8802 --token-file ~/.hook-token
  agentstateloop listen --print-unit \
    > ~/.config/systemd/user/agentstateloop.service`,
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "addr", Value: "127.0.0.1:0", Usage: "the webhook's loopback `ADDRESS`"},
			&cli.StringFlag{Name: "token-file", Usage: "`FILE` (0600) with the webhook's token (default: no webhook)"},
			&cli.StringFlag{Name: "pipe", Usage: "make a named pipe at `PATH`"},
			switchFlag("print-unit", "print a systemd user unit with these arguments"),
		},
		Action: listenCmd{p.agents(), p.loader, &p.out}.run,
	}
}

func (k listenCmd) run(c *cli.Context) error {
	named, err := k.paths(c)
	if err != nil {
		return err
	}
	before := snapshot(named)
	agents, err := k.agents.loadNamed(c)
	if err != nil {
		return err
	}
	if c.Bool("print-unit") {
		return k.printUnit(c, agents)
	}
	web, err := listenLoopback(c.String("addr"))
	if err != nil {
		return err
	}
	defer web.Close()
	socket := k.loader.Env("NOTIFY_SOCKET")
	var telling sync.Mutex
	l := &listen.Listener{
		Agents: agents, Web: web, Pipe: c.String("pipe"), Secrets: k.loader.Secrets,
		Logf: func(format string, args ...any) {
			telling.Lock()
			defer telling.Unlock()
			k.out.Warn(format, args...)
		},
		Ready: func() {
			k.announce(c, agents, "http://"+web.Addr().String())
			if err := listen.Notify(socket, listen.Ready); err != nil {
				k.out.Warn("%v", err)
			}
		},
		Reload: newRoster(k.agents, named, before, agents).reload,
		Alive:  func() { _ = listen.Notify(socket, listen.Alive) }, // systemd's watchdog notices a failure
	}
	if file := c.String("token-file"); file != "" {
		l.Token = k.loader.SecretFile(file)
		if _, err := l.Token(c.Context); err != nil {
			return terminal.WithHint(err, tokenHint(file))
		}
	}
	if k.loader.Env("GOGC") == "" {
		// The daemon mostly waits, so its memory costs more than the CPU time of garbage
		// collection. This saves a third of the memory of each agent.
		debug.SetGCPercent(30)
	}
	go k.loader.Secrets.Guarded(func() { freeMemory(c.Context) })()
	err = l.Run(c.Context)
	if errors.Is(err, listen.ErrRunning) {
		return terminal.WithHint(err, "one listener for an agent is enough, and that one goes on")
	}
	return errors.Join(err, listen.Notify(socket, listen.Stopping))
}

// freeMemory returns free memory to the system, until ctx ends. All agents of a listener poll at
// its start, and ask their mesh again at the same time if no message has come. The runtime would
// keep that garbage for minutes.
func freeMemory(ctx context.Context) {
	often := time.NewTicker(30 * time.Second)
	defer often.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-often.C:
			debug.FreeOSMemory()
		}
	}
}

// listenOutput is the line of JSON that listen prints when it is ready.
type listenOutput struct {
	Agents []string `json:"agents"`
	URL    string   `json:"url"`
}

// announce prints the agents and the address of the listener.
func (k listenCmd) announce(c *cli.Context, agents []*cycle.Agent, url string) {
	if !c.Bool("json") {
		k.out.Printf("listening for %s at %s\n", terminal.Count(len(agents), "agent"), url)
		return
	}
	ready := listenOutput{URL: url}
	for _, a := range agents {
		ready.Agents = append(ready.Agents, a.Handle)
	}
	if err := k.out.JSONLine(ready); err != nil {
		k.out.Warn("%v", err)
	}
}

// tokenHint explains how to make a file with a new token.
func tokenHint(file string) string {
	return fmt.Sprintf("make a new one: (umask 077; head -c 18 /dev/urandom | base64 > %s)", file)
}

// paths returns the absolute paths of the files and folders on the command line, or else that of
// the single configuration.
func (k listenCmd) paths(c *cli.Context) ([]string, error) {
	if c.NArg() == 0 {
		path, err := k.agents.configPath(c)
		return []string{path}, err
	}
	var all []string
	for _, arg := range c.Args().Slice() {
		path, err := filepath.Abs(arg)
		if err != nil {
			return nil, err
		}
		all = append(all, path)
	}
	return all, nil
}

// printUnit prints a unit that runs this command, with absolute paths.
func (k listenCmd) printUnit(c *cli.Context, agents []*cycle.Agent) error {
	self, err := k.loader.Executable()
	if err != nil {
		return err
	}
	argv := []string{self}
	if c.NArg() == 0 {
		argv = append(argv, "--config", agents[0].Config)
	}
	argv = append(argv, "listen")
	if c.IsSet("addr") {
		argv = append(argv, "--addr", c.String("addr"))
	}
	for _, flag := range []string{"token-file", "pipe"} {
		if c.String(flag) == "" {
			continue
		}
		path, err := filepath.Abs(c.String(flag))
		if err != nil {
			return err
		}
		argv = append(argv, "--"+flag, path)
	}
	for _, path := range c.Args().Slice() {
		if path, err = filepath.Abs(path); err != nil {
			return err
		}
		argv = append(argv, path)
	}
	return printFile(c, k.out, listen.Unit(argv))
}
