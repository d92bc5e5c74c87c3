package commands

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/urfave/cli/v2"
	"golang.org/x/net/netutil"

	"agentstateloop/commands/config"
	"agentstateloop/commands/terminal"
	"agentstateloop/cycle/listen"
	"agentstateloop/mesh"
	"agentstateloop/state"
)

const (
	// mostConnections is how many callers a server of ours serves at once; the
	// others wait in the kernel's queue. Each agent's long poll takes one.
	mostConnections = 4096

	// closingTime is how long a server may take to end what it is at.
	closingTime = 5 * time.Second
)

func (p *program) meshServeCommand() *cli.Command {
	return &cli.Command{
		Name:  "serve",
		Usage: "run a mesh for the agents of this machine",
		Description: `Holds messages and nudges until their agents have taken them; what it has
answered for survives its death. They lie in mesh.d beside the agents' state
directories, or in --dir. Serves on loopback alone, until it gets a TERM or INT.

Who may call: the agents named in FILE, a line each: HANDLE TOKEN. The file
must be readable by you alone; a new token: head -c 18 /dev/urandom | base64.
With --open anybody on this machine may, their messages marked unproven.

Example:
  agentstateloop mesh serve --tokens ~/.config/agentstateloop/mesh-tokens`,
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "addr", Value: "127.0.0.1:8801", Usage: "the loopback `ADDRESS` to serve at"},
			&cli.StringFlag{Name: "dir", Usage: "`FOLDER` for what it holds"},
			&cli.StringFlag{Name: "tokens", Usage: "`FILE` (0600) of the agents and their tokens"},
			switchFlag("open", "take calls without a token"),
		},
		Action: p.meshServe,
	}
}

func (p *program) meshServe(c *cli.Context) error {
	if err := arguments(c, 0, 0); err != nil {
		return err
	}
	options, err := p.meshOptions(c)
	if err != nil {
		return err
	}
	dir := c.String("dir")
	if dir == "" {
		home, err := p.loader.Home()
		if err != nil {
			return err
		}
		dir = filepath.Join(home, ".local", "state", name, "mesh.d") // no handle holds a dot
	}
	server, err := mesh.OpenServer(dir, options)
	if errors.Is(err, mesh.ErrServed) {
		return terminal.WithHint(err, "one mesh serves everybody on the machine; for a second one give --dir and --addr")
	}
	if err != nil {
		return err
	}
	if aside := server.SetAside(); aside != "" {
		p.out.Warn("the log was damaged: what could be read of it is kept, and a copy is %s", aside)
	}
	listener, err := listenHere(c.String("addr"))
	if err != nil {
		return errors.Join(err, server.Close())
	}
	url := "http://" + listener.Addr().String()
	if c.Bool("json") {
		err = p.out.JSON(struct {
			URL string `json:"url"`
			Dir string `json:"dir"`
		}{url, dir})
	} else {
		p.out.Printf("mesh at %s\n", url)
	}
	if err != nil {
		return errors.Join(err, listener.Close(), server.Close())
	}
	if err := listen.Notify(p.loader.Env("NOTIFY_SOCKET"), listen.Ready); err != nil {
		p.out.Warn("%v", err)
	}
	return errors.Join(p.serveUntil(c.Context, server.HTTPServer(), listener), server.Close())
}

// meshOptions reads who may call.
func (p *program) meshOptions(c *cli.Context) (mesh.Options, error) {
	options := mesh.Options{Open: c.Bool("open"), Secrets: p.loader.Secrets}
	file := c.String("tokens")
	if file == "" && !options.Open {
		return options, terminal.Usagef("--tokens FILE has a line HANDLE TOKEN for each agent; --open lets in everybody on this machine",
			"who may call? give --tokens or --open")
	}
	if file == "" {
		return options, nil
	}
	data, err := config.ReadPrivate(file)
	if err != nil {
		return options, terminal.WithHint(fmt.Errorf("read tokens: %w", err), "make it with a line HANDLE TOKEN for each agent, mode 0600; a token: head -c 18 /dev/urandom | base64")
	}
	if options.Tokens, err = readTokens(string(data)); err != nil {
		return options, fmt.Errorf("read tokens %s: %w", file, err)
	}
	for handle, token := range options.Tokens {
		p.loader.Secrets.Learn("mesh token of "+handle, token)
	}
	if err := options.Check(); err != nil {
		return options, fmt.Errorf("read tokens %s: %w", file, err)
	}
	return options, nil
}

// readTokens reads lines HANDLE TOKEN; empty ones and those that begin with #
// say nothing. Its errors quote no token.
func readTokens(text string) (map[string]string, error) {
	if len(text) > config.LongestSecret {
		return nil, fmt.Errorf("it holds over %d bytes", config.LongestSecret)
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
			return nil, fmt.Errorf("line %d does not begin with a handle", n)
		}
		if tokens[handle] != "" {
			return nil, fmt.Errorf("line %d: %s has a token already", n, handle)
		}
		tokens[handle] = words[1]
	}
	if len(tokens) == 0 {
		return nil, errors.New("it names no agent")
	}
	return tokens, nil
}

// listenHere listens on a loopback address, for mostConnections at once.
func listenHere(addr string) (net.Listener, error) {
	host, _, err := net.SplitHostPort(addr)
	if err != nil || !config.Loopback(host) {
		return nil, terminal.Usagef("write it like 127.0.0.1:8801", "--addr %q is no address of this machine alone", addr)
	}
	listener, err := net.Listen("tcp", addr)
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, terminal.WithHint(err, "another program has this port: is one of ours running already? else give another --addr")
	}
	if err != nil {
		return nil, err
	}
	return netutil.LimitListener(listener, mostConnections), nil
}

// serveUntil serves until ctx ends, and then lets the calls under way finish.
func (p *program) serveUntil(ctx context.Context, server *http.Server, listener net.Listener) error {
	ended := make(chan error, 1)
	go p.loader.Secrets.Guarded(func() { ended <- server.Serve(listener) })()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), closingTime)
	defer cancel()
	if err := server.Shutdown(last); err != nil {
		return server.Close() // a caller that does not read its answer
	}
	return nil
}
