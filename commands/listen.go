package commands

import (
	"errors"
	"fmt"
	"path/filepath"
	"runtime/debug"
	"sync"

	"github.com/urfave/cli/v2"

	"agentstateloop/commands/terminal"
	"agentstateloop/cycle"
	"agentstateloop/cycle/listen"
)

func (p *program) listenCommand() *cli.Command {
	return &cli.Command{
		Name:      "listen",
		Usage:     "a small daemon that wakes agents at once",
		ArgsUsage: "[FILE|DIR...]",
		Description: `Polls within a second of new mail (IMAP IDLE), a message or nudge on the mesh,
a file in nudges/, a line in the pipe, or a call of the webhook. Serves your
agent, or those whose configurations are named or lie in folders that are
named; a configuration that is changed, added or taken away counts within ten
seconds. Cron stays on: when this dies, nothing is lost. Ends with TERM or INT.

The webhook is POST /nudge (or /nudge/HANDLE) at --addr, with the header
"Authorization: Bearer TOKEN". The pipe takes a line for each nudge, with
several agents the handle first; its writer waits while nobody reads, and what
lies in it when this dies is gone.

Example:
  agentstateloop listen --addr 127.0.0.1:8802 --token-file ~/.hook-token
  agentstateloop listen --print-unit \
    > ~/.config/systemd/user/agentstateloop.service`,
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "addr", Value: "127.0.0.1:0", Usage: "the webhook's loopback `ADDRESS`"},
			&cli.StringFlag{Name: "token-file", Usage: "`FILE` (0600) with the webhook's token; else closed"},
			&cli.StringFlag{Name: "pipe", Usage: "make a named pipe at `PATH`"},
			switchFlag("print-unit", "print a user unit for systemd with these arguments"),
		},
		Action: p.listen,
	}
}

func (p *program) listen(c *cli.Context) error {
	named, err := p.named(c)
	if err != nil {
		return err
	}
	before := snapshot(named)
	agents, err := p.agents(c)
	if err != nil {
		return err
	}
	if c.Bool("print-unit") {
		return p.printUnit(c, agents)
	}
	web, err := listenHere(c.String("addr"))
	if err != nil {
		return err
	}
	defer web.Close()
	socket := p.loader.Env("NOTIFY_SOCKET")
	var telling sync.Mutex
	l := &listen.Listener{
		Agents: agents, Web: web, Pipe: c.String("pipe"), Secrets: p.loader.Secrets,
		Logf: func(format string, args ...any) {
			telling.Lock()
			defer telling.Unlock()
			p.out.Warn(format, args...)
		},
		Ready: func() {
			p.out.Printf("listening for %s at http://%s\n", terminal.Count(len(agents), "agent"), web.Addr())
			if err := listen.Notify(socket, listen.Ready); err != nil {
				p.out.Warn("%v", err)
			}
		},
		Reload: p.newRoster(named, before, agents).again,
		Alive:  func() { _ = listen.Notify(socket, listen.Alive) }, // systemd will tell
	}
	if file := c.String("token-file"); file != "" {
		l.Token = p.loader.SecretFile(file)
		if _, err := l.Token(c.Context); err != nil {
			return terminal.WithHint(err, tokenHint(file))
		}
	}
	if p.loader.Env("GOGC") == "" {
		// It waits, and does next to nothing: memory is dearer than the CPU of
		// collecting it. A third less for each agent.
		debug.SetGCPercent(30)
	}
	err = l.Run(c.Context)
	if errors.Is(err, listen.ErrRunning) {
		return terminal.WithHint(err, "one listener for an agent is enough; it goes on")
	}
	return errors.Join(err, listen.Notify(socket, listen.Stopping))
}

// tokenHint is how a file with a new token is made.
func tokenHint(file string) string {
	return fmt.Sprintf("a new one: (umask 077; head -c 18 /dev/urandom | base64 > %s)", file)
}

// named gives the files and folders of the command line, or the one
// configuration that there is, absolute.
func (p *program) named(c *cli.Context) ([]string, error) {
	if c.NArg() == 0 {
		path, err := p.configPath(c)
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

// printUnit prints a unit that runs this very command, its paths absolute.
func (p *program) printUnit(c *cli.Context, agents []*cycle.Agent) error {
	self, err := p.loader.Executable()
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
	p.out.Printf("%s", listen.Unit(argv))
	return nil
}
