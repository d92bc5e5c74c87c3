package commands

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/urfave/cli/v2"

	"agentstateloop/commands/config"
	"agentstateloop/commands/terminal"
	"agentstateloop/cycle/listen"
	"agentstateloop/mesh"
	"agentstateloop/state"
)

// meshServeOptions are the flags of mesh serve.
type meshServeOptions struct {
	open              bool
	dir, tokens, addr string
}

func meshServeCommand(p *program) *cli.Command {
	var o meshServeOptions
	return &cli.Command{
		Name:  "serve",
		Usage: "run a mesh for the agents of this machine",
		Description: `Stores messages, their files and nudges until the receiving agents take them.
Accepted messages survive a crash. The storage is mesh.d next to the agents'
state directories, or --dir. Listens only on loopback, until SIGTERM or SIGINT.

The file of --tokens lists the agents that may call, one per line: HANDLE TOKEN.
It must be readable only by you. With --open any program on this machine may
call, and messages without a token are marked unproven. To make a token:
  head -c 18 /dev/urandom | base64

Example:
  agentstateloop mesh serve --tokens ~/.config/agentstateloop/mesh-tokens`,
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "addr", Value: "127.0.0.1:8801", Usage: "`ADDRESS`: loopback address to listen on", Destination: &o.addr},
			textFlag(&o.dir, "dir", "`FOLDER`: folder for messages and files"),
			textFlag(&o.tokens, "tokens", "`FILE`: file (0600) with handles and tokens"),
			switchFlag(&o.open, "open", "accept calls without a token"),
		},
		Action: p.action(0, 0, o.run),
	}
}

func (o *meshServeOptions) run(c *call) error {
	options, err := o.serverOptions(c)
	if err != nil {
		return err
	}
	dir := o.dir
	if dir == "" {
		home, err := c.loader.Home()
		if err != nil {
			return err
		}
		dir = filepath.Join(home, ".local", "state", name, "mesh.d") // a handle cannot contain the dot
	}
	server, err := mesh.OpenServer(dir, options)
	if errors.Is(err, mesh.ErrServed) {
		return terminal.WithHint(err, "one mesh serves all agents of the machine; for a second mesh, set --dir and --addr")
	}
	if err != nil {
		return err
	}
	if aside := server.SetAside(); aside != "" {
		c.out.Warn("the log was damaged: its readable part is kept, and a copy is %s", aside)
	}
	listener, err := listenLoopback(o.addr)
	if err != nil {
		return errors.Join(err, server.Close())
	}
	if err := announceMesh(c, "http://"+listener.Addr().String(), dir); err != nil {
		return errors.Join(err, listener.Close(), server.Close())
	}
	if err := listen.Notify(c.loader.Env("NOTIFY_SOCKET"), listen.Ready); err != nil {
		c.out.Warn("%v", err)
	}
	return errors.Join(serveUntil(c.ctx, server.HTTPServer(), listener, c.loader.Secrets), server.Close())
}

// meshServeOutput is the line of JSON that mesh serve prints when it is ready.
type meshServeOutput struct {
	URL string `json:"url"`
	Dir string `json:"dir"` // folder with its data
}

// announceMesh prints the address of the mesh.
func announceMesh(c *call, url, dir string) error {
	if !c.json {
		c.out.Printf("mesh at %s\n", url)
		return nil
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return err
	}
	return c.out.JSONLine(meshServeOutput{URL: url, Dir: dir})
}

// serverOptions reads the agents that may call.
func (o *meshServeOptions) serverOptions(c *call) (mesh.Options, error) {
	options := mesh.Options{Open: o.open, Secrets: c.loader.Secrets}
	file := o.tokens
	if file == "" && !options.Open {
		return options, terminal.Usagef("--tokens names a file with a line HANDLE TOKEN for each agent; --open accepts every program on this machine",
			"--tokens or --open is missing")
	}
	if file == "" {
		return options, nil
	}
	data, err := config.ReadPrivate(file)
	if err != nil {
		return options, terminal.WithHint(fmt.Errorf("read tokens: %w", err), "create it (mode 0600) with a line HANDLE TOKEN for each agent; to make a token: head -c 18 /dev/urandom | base64")
	}
	if options.Tokens, err = readTokens(string(data)); err != nil {
		return options, fmt.Errorf("read tokens %s: %w", file, err)
	}
	for handle, token := range options.Tokens {
		c.loader.Secrets.Learn("mesh token of "+handle, token)
	}
	if err := options.Check(); err != nil {
		return options, fmt.Errorf("read tokens %s: %w", file, err)
	}
	return options, nil
}

// readTokens parses lines HANDLE TOKEN. It ignores empty lines and lines that begin with #. Its
// errors do not contain a token.
func readTokens(text string) (map[string]string, error) {
	if len(text) > config.MaxSecret {
		return nil, fmt.Errorf("exceeds %d bytes", config.MaxSecret)
	}
	tokens := map[string]string{}
	n := 0
	for line := range strings.Lines(text) {
		n++
		words := strings.Fields(line)
		if len(words) == 0 || strings.HasPrefix(words[0], "#") {
			continue
		}
		if len(words) != 2 {
			return nil, fmt.Errorf("line %d is not HANDLE TOKEN", n)
		}
		handle := strings.TrimPrefix(words[0], "@")
		if !state.ValidHandle(handle) {
			return nil, fmt.Errorf("line %d does not begin with a valid handle", n)
		}
		if tokens[handle] != "" {
			return nil, fmt.Errorf("line %d: %s already has a token", n, handle)
		}
		tokens[handle] = words[1]
	}
	if len(tokens) == 0 {
		return nil, errors.New("no agent is listed")
	}
	return tokens, nil
}
