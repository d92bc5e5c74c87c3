package commands

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/urfave/cli/v2"

	"agentstateloop/commands/config"
	"agentstateloop/commands/setup"
	"agentstateloop/commands/terminal"
	"agentstateloop/fleet"
)

type fleetKeyCmd struct {
	agents agents
	loader *config.Loader
	out    *terminal.Output
}

func fleetKeyCommand(p *program) *cli.Command {
	return &cli.Command{
		Name:  "key",
		Usage: "make a key for a mesh over NATS, or show it",
		Description: `Makes a file (mode 0600) with the seed of a new key, which is secret and never
shown, and prints the public key, and where it belongs. A file that exists is
kept: its public key is shown, so the command can be run again.

The file is the one that the agent's configuration names as key_file in [mesh],
or else HANDLE.nk next to the configuration. --file alone makes a key without an
agent, such as the administrator's, with which fleet create is called.

Example:
  agentstateloop fleet key
  agentstateloop fleet key --file admin.nk`,
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "file", Usage: "`FILE` for the seed"},
		},
		Action: fleetKeyCmd{p.agents(), p.loader, &p.out}.run,
	}
}

// fleetKeyOutput is the JSON output of fleet key.
type fleetKeyOutput struct {
	Agent  *string `json:"agent"`
	Public string  `json:"public_key"`
	File   *string `json:"file"`
	Made   bool    `json:"made"`
}

func (k fleetKeyCmd) run(c *cli.Context) error {
	if err := refuseSeeds(append(c.Args().Slice(), c.String("file"))...); err != nil {
		return err
	}
	if err := arguments(c, 0, 0); err != nil {
		return err
	}
	handle, file, elsewhere, err := k.place(c)
	if err != nil {
		return err
	}
	result := fleetKeyOutput{}
	if handle != "" {
		result.Agent = &handle
	}
	if elsewhere != nil {
		result.Public, err = publicKeyOf(c.Context, elsewhere)
	} else {
		result.File = &file
		result.Public, result.Made, err = setup.MakeKey(c.Context, k.loader, file)
	}
	if err != nil {
		return err
	}
	if c.Bool("json") {
		return k.out.JSON(result)
	}
	k.print(result)
	return nil
}

// place returns the owner of the wanted key, "" for a key without an agent, and the file for its
// seed. If the agent's seed is not in a file, elsewhere reads it.
func (k fleetKeyCmd) place(c *cli.Context) (handle, file string, elsewhere func(context.Context) (string, error), err error) {
	named := c.IsSet("agent") || c.IsSet("config")
	if c.IsSet("file") {
		if c.String("file") == "" {
			return "", "", nil, terminal.Usagef("", "--file is empty: name a file")
		}
		if file, err = filepath.Abs(c.String("file")); err != nil || !named {
			return "", file, nil, err
		}
	}
	path, err := k.agents.configPath(c)
	if err != nil && !named {
		err = terminal.WithHint(err, terminal.HintOf(err)+"; --file FILE makes a key without an agent")
	}
	if err != nil {
		return "", "", nil, err
	}
	conf, err := k.loader.Read(path)
	if err != nil {
		return "", "", nil, err
	}
	// Ignore other errors in the configuration: the missing key may be one of them.
	a, wrong := k.loader.Wire(conf)
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
		return a.Handle, "", k.loader.Secret(conf, own), nil
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
		return "", fmt.Errorf("the key of the agent: %w", err)
	}
	return public, nil
}

// print prints the key, and the lines to copy. The lines are not wrapped.
func (k fleetKeyCmd) print(r fleetKeyOutput) {
	switch {
	case r.Made:
		k.out.Printf("made %s (mode 0600), which is secret\n", *r.File)
	case r.File != nil:
		k.out.Printf("kept %s, which already exists\n", *r.File)
	}
	lines := []string{"public key", r.Public}
	if r.Agent == nil {
		lines = append(lines, "for the administrator's part of fleet plan", "--admin "+r.Public)
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
	k.out.Verbatim(text.String())
}
