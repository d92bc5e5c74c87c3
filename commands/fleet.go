package commands

import (
	"context"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"agentstateloop/commands/setup"
	"agentstateloop/commands/terminal"
	"agentstateloop/fleet"
	"agentstateloop/internal/lazy"
)

func fleetCommand(p *program) *cli.Command {
	return &cli.Command{
		Name:  "fleet",
		Usage: "set up NATS servers, and an agent on several hosts",
		Subcommands: []*cli.Command{
			fleetKeyCommand(p),
			fleetPlanCommand(p),
			fleetCreateCommand(p),
			fleetJoinCommand(p),
			fleetLeaveCommand(p),
			fleetTakeCommand(p),
			fleetReleaseCommand(p),
		},
	}
}

// seedIn matches the seed of an nkey. A public key may contain the same letters inside.
var seedIn = lazy.NewRegexp(`\bS[ACNOUX][A-Z2-7]{20,}`)

// refuseSeeds returns an error if a word of the command line contains a seed. The error does not
// repeat the word.
func refuseSeeds(given ...string) error {
	if !slices.ContainsFunc(given, seedIn.Get().MatchString) {
		return nil
	}
	return terminal.Usagef("other users may have seen it in the process list or the shell history: create another key, in another file, with `"+name+" fleet key`",
		"the command line contains a secret seed; a public key begins with U")
}

// fleetKeyOptions are the flags of fleet key.
type fleetKeyOptions struct{ file string }

func fleetKeyCommand(p *program) *cli.Command {
	var o fleetKeyOptions
	return &cli.Command{
		Name:  "key",
		Usage: "create an agent's key for a mesh on NATS, or show it",
		Description: `Creates a file (mode 0600) with the seed of a new key, which is secret and never
shown. Prints the public key and where to enter it. If the file exists, the
command keeps it and shows its public key, so you can run it again.

The default file is key_file in [mesh] of the agent's configuration, or else
HANDLE.nk next to the configuration. With --file the command needs no agent; use
it to create the administrator's key, which fleet create needs.

Examples:
  agentstateloop fleet key
  agentstateloop fleet key --file admin.nk`,
		Flags: []cli.Flag{
			textFlag(&o.file, "file", "`FILE`: file for the seed"),
		},
		Action: p.action(0, math.MaxInt, o.run),
	}
}

// fleetKeyOutput is the JSON output of fleet key.
type fleetKeyOutput struct {
	Agent  *string `json:"agent"`
	Public string  `json:"public_key"`
	File   *string `json:"file"`
	Made   bool    `json:"made"`
}

func (o *fleetKeyOptions) run(c *call) error {
	if err := refuseSeeds(append(c.args, o.file)...); err != nil {
		return err
	}
	if err := c.arguments(0, 0); err != nil {
		return err
	}
	handle, file, elsewhere, err := o.place(c)
	if err != nil {
		return err
	}
	result := fleetKeyOutput{Agent: orNull(handle)}
	if elsewhere != nil {
		result.Public, err = publicKeyOf(c.ctx, elsewhere)
	} else {
		result.File = &file
		result.Public, result.Made, err = setup.MakeKey(c.ctx, c.loader, file)
	}
	if err != nil {
		return err
	}
	if c.json {
		return c.out.JSON(result)
	}
	printKey(c, result)
	return nil
}

// place returns the owner of the wanted key, "" for a key without an agent, and the file for its
// seed. If the agent's seed is not in a file, elsewhere reads it.
func (o *fleetKeyOptions) place(c *call) (handle, file string, elsewhere func(context.Context) (string, error), err error) {
	named := c.namesAgent()
	if c.given(&o.file) != "" {
		if o.file == "" {
			return "", "", nil, terminal.Usagef("", "--file needs a file")
		}
		if file, err = filepath.Abs(o.file); err != nil || !named {
			return "", file, nil, err
		}
	}
	path, err := c.configPath()
	if err != nil && !named {
		err = terminal.WithHint(err, terminal.HintOf(err)+"; --file FILE creates a key without an agent")
	}
	if err != nil {
		return "", "", nil, err
	}
	conf, err := c.loader.Read(path)
	if err != nil {
		return "", "", nil, err
	}
	// Ignore other errors in the configuration: the missing key may be one of them.
	a, wrong := c.loader.Wire(conf)
	if a == nil {
		return "", "", nil, wrong[0]
	}
	if file != "" {
		return a.Handle, file, nil, nil
	}
	m := conf.File.Mesh
	switch own := m.Secret(); {
	case m.OverNATS() && own.File != "":
		return a.Handle, conf.Resolve(own.File), nil, nil
	case m.OverNATS() && own.CountSet() > 0:
		return a.Handle, "", c.loader.Secret(conf, own), nil
	}
	return a.Handle, setup.KeyFile(conf.Path, a.Handle), nil, nil
}

// publicKeyOf returns the public key of a seed.
func publicKeyOf(ctx context.Context, read func(context.Context) (string, error)) (string, error) {
	seed, err := read(ctx)
	if err != nil {
		return "", err
	}
	public, err := fleet.PublicKey(seed)
	if err != nil {
		return "", fmt.Errorf("agent's key: %w", err)
	}
	return public, nil
}

// printKey prints the key, and the lines to copy. The lines are not wrapped.
func printKey(c *call, r fleetKeyOutput) {
	switch {
	case r.Made:
		c.out.Printf("wrote the secret seed to %s (mode 0600)\n", *r.File)
	case r.File != nil:
		c.out.Printf("kept the existing %s\n", *r.File)
	}
	lines := []string{"public key", r.Public}
	if r.Agent == nil {
		lines = append(lines, "for fleet plan, if this is the administrator's key", "--admin "+r.Public)
	} else {
		if r.File != nil {
			lines = append(lines, "in [mesh] of this agent", fmt.Sprintf("key_file = %q", *r.File))
		}
		lines = append(lines, "in [mesh.keys] of other agents", fmt.Sprintf("%s = %q", *r.Agent, r.Public), "for fleet plan", *r.Agent+"="+r.Public)
	}
	var text strings.Builder
	for i := 0; i < len(lines); i += 2 {
		fmt.Fprintf(&text, "%s:\n  %s\n", lines[i], lines[i+1])
	}
	c.out.Verbatim(text.String())
}

// fleetPlanOptions are the flags of fleet plan.
type fleetPlanOptions struct {
	servers []string
	admin   string
}

func fleetPlanCommand(p *program) *cli.Command {
	var o fleetPlanOptions
	return &cli.Command{
		Name:      "plan",
		Usage:     "print a configuration for nats-server",
		ArgsUsage: "HANDLE=KEY...",
		Description: `Prints a configuration for nats-server, the same for each server, with the
rights of each agent. A KEY is a public key, begins with U, and is printed by
fleet key. The first lines explain the next steps, and marks show the settings
to fill in or change. When an agent joins, run the command again with all
agents.

Without --server the configuration is for a single server on this machine, at
127.0.0.1:4222. With three servers, which use TLS, the mesh survives the loss of
one. Name servers by the addresses that agents connect to.

Example:
  agentstateloop fleet plan goulard3120=UBEH… --admin UADM… >fleet.conf`,
		Flags: []cli.Flag{
			repeatedFlag(&o.servers, "server", "`HOST`: a server, as HOST or HOST:PORT; may be repeated"),
			textFlag(&o.admin, "admin", "`KEY`: public key of the administrator"),
		},
		Action: p.action(0, math.MaxInt, o.run),
	}
}

// fleetPlanOutput is the JSON output of fleet plan.
type fleetPlanOutput struct {
	Text string `json:"text"`
	URL  string `json:"url"`
}

func (o *fleetPlanOptions) run(c *call) error {
	if err := refuseSeeds(slices.Concat(c.args, o.servers, []string{o.admin})...); err != nil {
		return err
	}
	if len(c.args) == 0 {
		return c.arguments(1, 1)
	}
	users, err := usersOf(c.args)
	if err != nil {
		return err
	}
	plan := fleet.Plan{Servers: o.servers, Users: users, Admin: o.admin}
	text, err := plan.Config()
	if err != nil {
		return terminal.Usagef("see "+c.helpName()+" --help", "%v", err)
	}
	if plan.Admin == "" {
		c.out.Warn("without --admin KEY no one can create the streams: fill in the administrator's key where the configuration says so")
	}
	if !c.json {
		c.out.Verbatim(text)
		return nil
	}
	url, err := plan.URL()
	if err != nil {
		return err
	}
	return c.out.JSON(fleetPlanOutput{Text: text, URL: url})
}

// usersOf parses arguments HANDLE=KEY.
func usersOf(given []string) (map[string]string, error) {
	const hint = "use HANDLE=KEY without spaces, as `" + name + " fleet key` prints it"
	users := map[string]string{}
	for _, arg := range given {
		handle, key, found := strings.Cut(arg, "=")
		handle = strings.TrimPrefix(handle, "@")
		switch {
		case !found:
			return nil, terminal.Usagef(hint, "%q is not HANDLE=KEY", arg)
		case users[handle] != "":
			return nil, terminal.Usagef("an agent uses the same key on all its machines", "%q is given twice", handle)
		case key == "":
			return nil, terminal.Usagef(hint, "%q has no key", arg)
		}
		users[handle] = key
	}
	return users, nil
}
