package commands

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/urfave/cli/v2"

	"agentstateloop/commands/config"
	"agentstateloop/commands/page"
	"agentstateloop/commands/terminal"
	"agentstateloop/cycle"
	"agentstateloop/cycle/listen"
)

// listenOptions are the flags of listen.
type listenOptions struct {
	printUnit             bool
	tokenFile, pipe, addr string
	pageURL               string
}

func listenCommand(p *program) *cli.Command {
	var o listenOptions
	return &cli.Command{
		Name:      "listen",
		Usage:     "run a small daemon that wakes agents immediately",
		ArgsUsage: "[FILE|DIR...]",
		Description: `Polls within a second of new mail (IMAP IDLE), a message or nudge on the mesh, a
file in nudges/, a line in the pipe, or a call of the webhook. Serves your
agent, or the agents of the given configurations and folders. Notices an added,
changed or removed configuration within ten seconds. Leave cron on: if the
daemon dies, nothing is lost. Ends on SIGTERM or SIGINT, and removes the pipe
that it created.

The webhook accepts POST /nudge, POST /message and POST /report/ID at --addr,
with the header "Authorization: Bearer TOKEN". With several agents the handle is
part of the path, as in /nudge/HANDLE. A message is {"from": "ci", "text": "the
build is red"}; its answer is mailed to you. A report has the same
effect as the command report. GET /events, with the same header, streams the
events that events --follow shows.

With --token-file, the address in a browser is a page: it shows the agents, and
takes your orders. It asks for the token. [listen] page in agent.toml limits or
closes it. If a reverse proxy serves the page, --page-url is its address there.
GET /metrics is for Prometheus.

Each line in the pipe is a nudge; with several agents it begins with the handle.
A writer blocks while nothing reads the pipe, and unread lines are lost if the
daemon dies.

Examples:
  agentstateloop listen --addr 127.0.0.1:8802 --token-file ~/.hook-token
  agentstateloop listen --print-unit \
    > ~/.config/systemd/user/agentstateloop.service`,
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "addr", Value: "127.0.0.1:0", Usage: "`ADDRESS`: loopback address of the webhook", Destination: &o.addr},
			textFlag(&o.tokenFile, "token-file", "`FILE`: file (0600) with the token of webhook and page"),
			textFlag(&o.pageURL, "page-url", "`URL` at which a reverse proxy serves the page"),
			textFlag(&o.pipe, "pipe", "create a named pipe at `PATH`"),
			switchFlag(&o.printUnit, "print-unit", "print a systemd user unit with these arguments"),
		},
		Action: p.action(0, math.MaxInt, o.run),
	}
}

func (o *listenOptions) run(c *call) error {
	named, err := c.paths()
	if err != nil {
		return err
	}
	pageURL, err := o.parsePageURL(c)
	if err != nil {
		return err
	}
	before := snapshot(named)
	agents, err := c.loadNamed()
	if err != nil {
		return err
	}
	if o.printUnit {
		return o.printUnitFile(c, agents)
	}
	if err := allMoved(agents); err != nil {
		return err
	}
	web, err := listenLoopback(o.addr)
	if err != nil {
		return err
	}
	defer web.Close()
	socket := c.loader.Env("NOTIFY_SOCKET")
	var telling sync.Mutex
	l := &listen.Listener{
		Agents: agents, Web: web, Pipe: o.pipe, Fixed: !slices.ContainsFunc(named, isFolder), Secrets: c.loader.Secrets,
		Logf: func(format string, args ...any) {
			telling.Lock()
			defer telling.Unlock()
			c.out.Warn(format, args...)
		},
		Ready: func() {
			announceListener(c, agents, "http://"+web.Addr().String(), o.pageAddress(web.Addr(), agents))
			if err := listen.Notify(socket, listen.Ready); err != nil {
				c.out.Warn("%v", err)
			}
		},
		Reload: newRoster(c.program, named, before, agents).reload,
		Alive:  func() { _ = listen.Notify(socket, listen.Alive) }, // systemd's watchdog notices a failure
	}
	host, _ := os.Hostname() // "" if the system has none
	server := &page.Server{
		URL: pageURL, Version: c.build.version(), Host: host, User: userName(), Now: c.now, Secrets: c.loader.Secrets,
	}
	l.Page = server.Handler
	if file := o.tokenFile; file != "" {
		l.Token = c.loader.SecretFile(file)
		if _, err := l.Token(c.ctx); err != nil {
			return terminal.WithHint(err, tokenHint(file))
		}
		server.Token = l.Token
	}
	if c.loader.Env("GOGC") == "" {
		// The daemon mostly waits, so its memory costs more than the CPU time of garbage
		// collection. This saves a third of the memory of each agent.
		debug.SetGCPercent(30)
	}
	go c.loader.Secrets.Guarded(func() { freeMemory(c.ctx) })()
	err = l.Run(c.ctx)
	if errors.Is(err, listen.ErrRunning) {
		return terminal.WithHint(err, "one listener per agent is enough, and the other one keeps running")
	}
	return errors.Join(err, listen.Notify(socket, listen.Stopping))
}

// parsePageURL returns the address of --page-url, or nil.
func (o *listenOptions) parsePageURL(c *call) (*url.URL, error) {
	if c.given(&o.pageURL) == "" {
		return nil, nil
	}
	const hint = "use the address in the browser, such as https://agents.example.com/ or https://example.com/agents/"
	u, err := url.Parse(o.pageURL)
	switch {
	case err != nil, u.Scheme != "https" && u.Scheme != "http", !isBrowserHost(u), u.User != nil, strings.ContainsAny(o.pageURL, "?#"):
		return nil, terminal.Usagef(hint, "--page-url %q is not the address of a page", o.pageURL)
	case !strings.HasSuffix(u.Path, "/"):
		return nil, terminal.Usagef(hint, "--page-url %q does not end with /", o.pageURL)
	case o.tokenFile == "":
		return nil, terminal.Usagef("add --token-file FILE", "--page-url needs a page, which is closed without a token")
	}
	return u, nil
}

// isBrowserHost reports whether a browser can send the host of u, as it is there, in a Host header: one
// name, in Punycode if it is not ASCII, without an empty or an impossible port.
func isBrowserHost(u *url.URL) bool {
	port, err := strconv.ParseUint(cmp.Or(u.Port(), "1"), 10, 16)
	possible := err == nil && port > 0 && !strings.HasSuffix(u.Host, ":")
	const ofNames = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._:" // or of IPv6 addresses
	return possible && u.Hostname() != "" && strings.Trim(u.Hostname(), ofNames) == ""
}

// pageAddress returns the address of the page in a browser, or "" if it is closed.
func (o *listenOptions) pageAddress(addr net.Addr, agents []*cycle.Agent) string {
	closed := !slices.ContainsFunc(agents, func(a *cycle.Agent) bool { return a.Page != cycle.PageOff })
	switch {
	case o.tokenFile == "" || closed:
		return ""
	case o.pageURL != "":
		return o.pageURL
	}
	return "http://" + addr.String() + "/"
}

// allMoved returns the error of the first agent if all of them were moved to other machines.
func allMoved(agents []*cycle.Agent) (first error) {
	for _, a := range agents {
		err := a.Moved()
		if err == nil {
			return nil
		}
		first = cmp.Or(first, err)
	}
	return first
}

// isFolder reports whether path is a folder, or a link to one.
func isFolder(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
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
	Page   *string  `json:"page"` // null: it is closed
}

// announceListener prints the agents, and the addresses of the listener and of its page.
func announceListener(c *call, agents []*cycle.Agent, url, page string) {
	if !c.json {
		c.out.Printf("listening for %s at %s\n", terminal.Count(len(agents), "agent"), url)
		if page != "" {
			c.out.Printf("page: %s\n", page)
		}
		return
	}
	ready := listenOutput{URL: url, Page: orNull(page)}
	for _, a := range agents {
		ready.Agents = append(ready.Agents, a.Handle)
	}
	if err := c.out.JSONLine(ready); err != nil {
		c.out.Warn("%v", err)
	}
}

// tokenHint explains how to make a file with a new token.
func tokenHint(file string) string {
	return fmt.Sprintf("create a new one: (umask 077; head -c 18 /dev/urandom | base64 > %s)", file)
}

// paths returns the absolute paths of the files and folders on the command line, or else that of
// the single configuration.
func (c *call) paths() ([]string, error) {
	if len(c.args) == 0 {
		path, err := c.configPath()
		return []string{path}, err
	}
	var all []string
	for _, arg := range c.args {
		path, err := filepath.Abs(arg)
		if err != nil {
			return nil, err
		}
		all = append(all, path)
	}
	return all, nil
}

// printUnitFile prints a unit that runs this command, with absolute paths.
func (o *listenOptions) printUnitFile(c *call, agents []*cycle.Agent) error {
	self, err := c.loader.Executable()
	if err != nil {
		return err
	}
	argv := []string{self}
	if len(c.args) == 0 {
		argv = append(argv, "--config", agents[0].Config)
	}
	argv = append(argv, "listen")
	if c.given(&o.addr) != "" {
		argv = append(argv, "--addr", o.addr)
	}
	if o.pageURL != "" {
		argv = append(argv, "--page-url", o.pageURL)
	}
	for _, file := range []struct{ flag, path string }{{"--token-file", o.tokenFile}, {"--pipe", o.pipe}} {
		if file.path == "" {
			continue
		}
		path, err := filepath.Abs(file.path)
		if err != nil {
			return err
		}
		argv = append(argv, file.flag, path)
	}
	for _, path := range c.args {
		if path, err = filepath.Abs(path); err != nil {
			return err
		}
		argv = append(argv, path)
	}
	return c.printFile(listen.Unit(argv))
}

// roster keeps the agents of a listener in sync with their configurations.
type roster struct {
	*program
	args  []string // absolute paths from the command line, or the single configuration
	files map[string]entry
}

// entry is a configuration from the last reload.
type entry struct {
	text  string
	agent *cycle.Agent // nil if the configuration is unusable
}

// newRoster returns a roster of agents that were loaded from args. before is a snapshot from
// before the load, so that later changes are noticed.
func newRoster(p *program, args []string, before map[string]string, agents []*cycle.Agent) *roster {
	r := &roster{program: p, args: args, files: map[string]entry{}}
	for file, text := range before {
		r.files[file] = entry{text: text}
	}
	for _, a := range agents {
		r.files[a.Config] = entry{before[a.Config], a}
	}
	return r
}

// snapshot returns the texts of the configurations in args: files, and *.toml in folders. It
// skips unreadable files.
func snapshot(args []string) map[string]string {
	texts := map[string]string{}
	for _, arg := range args {
		files := []string{arg}
		if isFolder(arg) {
			files, _ = filepath.Glob(filepath.Join(config.QuoteGlob(arg), "*.toml")) // the pattern is valid
		}
		for _, file := range files {
			if text, err := os.ReadFile(file); err == nil {
				texts[file] = string(text)
			}
		}
	}
	return texts
}

// reload returns the agents of the current configurations. It drops an agent whose configuration
// was removed from its folder. It keeps an agent unchanged if its configuration has an error,
// which is reported once, or if its file was named as an argument and was removed.
func (r *roster) reload() (agents []*cycle.Agent, changed bool) {
	now := snapshot(r.args)
	for file, old := range r.files {
		if _, there := now[file]; !there && !slices.Contains(r.args, file) {
			delete(r.files, file)
			changed = changed || old.agent != nil
		}
	}
	if changed { // a file may have been rejected for a handle that is free now
		maps.DeleteFunc(r.files, func(_ string, e entry) bool { return e.agent == nil })
	}
	for file, text := range now {
		old, known := r.files[file]
		if known && old.text == text {
			continue
		}
		a, err := r.loader.Load(file)
		if err == nil {
			err = r.checkHandle(file, a.Handle)
		}
		if err != nil {
			r.out.Warn("%v; %s", err, map[bool]string{true: "its agent keeps its settings", false: "skipped"}[old.agent != nil])
			r.files[file] = entry{text, old.agent}
			continue
		}
		r.files[file] = entry{text, a}
		changed = true
	}
	for _, e := range r.files {
		if e.agent != nil {
			agents = append(agents, e.agent)
		}
	}
	if changed {
		r.out.Printf("listening for %s, with the new configuration\n", terminal.Count(len(agents), "agent"))
	}
	return agents, changed
}

// checkHandle rejects a handle of another configuration.
func (r *roster) checkHandle(file, handle string) error {
	for other, e := range r.files {
		if other != file && e.agent != nil && e.agent.Handle == handle {
			return &config.Error{Path: file, Key: "agent.handle", Text: "@" + handle + " is already the handle in " + other}
		}
	}
	return nil
}
