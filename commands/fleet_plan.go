package commands

import (
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"agentstateloop/commands/terminal"
	"agentstateloop/fleet"
)

type fleetPlanCmd struct{ out *terminal.Output }

func fleetPlanCommand(p *program) *cli.Command {
	return &cli.Command{
		Name:      "plan",
		Usage:     "print a configuration for nats-server",
		ArgsUsage: "HANDLE=KEY...",
		Description: `Prints a configuration for nats-server, the same for each server. It gives each
agent its rights. A KEY is public, begins with U, and is what fleet key prints.
What is to be filled in or changed is marked, and the first lines say how to go
on. When an agent joins, run it again with all of them.

Without --server it is for one server on this machine, on 127.0.0.1:4222. With
three, which speak TLS, the mesh outlives the loss of one: name them as agents
reach them.

Example:
  agentstateloop fleet plan goulard3120=UBEH… --admin UADM… >fleet.conf`,
		Flags: []cli.Flag{
			repeatedFlag("server", "`HOST` of a server, or HOST:PORT; may be repeated"),
			&cli.StringFlag{Name: "admin", Usage: "the public `KEY` of the administrator"},
		},
		Action: fleetPlanCmd{&p.out}.run,
	}
}

// fleetPlanOutput is the JSON output of fleet plan.
type fleetPlanOutput struct {
	Text string `json:"text"`
	URL  string `json:"url"`
}

func (f fleetPlanCmd) run(c *cli.Context) error {
	servers := wordsOf(c, "server")
	if err := refuseSeeds(slices.Concat(c.Args().Slice(), servers, []string{c.String("admin")})...); err != nil {
		return err
	}
	if c.NArg() == 0 {
		return arguments(c, 1, 1)
	}
	users, err := usersOf(c.Args().Slice())
	if err != nil {
		return err
	}
	plan := fleet.Plan{Servers: servers, Users: users, Admin: c.String("admin")}
	text, err := plan.Config()
	if err != nil {
		return terminal.Usagef("see "+c.Command.HelpName+" --help", "%v", err)
	}
	if plan.Admin == "" {
		f.out.Warn("without --admin KEY nobody may make the streams: fill in the administrator's key where the configuration says so")
	}
	if !c.Bool("json") {
		f.out.Verbatim(text)
		return nil
	}
	url, err := plan.URL()
	if err != nil {
		return err
	}
	return f.out.JSON(fleetPlanOutput{Text: text, URL: url})
}

// usersOf parses arguments HANDLE=KEY.
func usersOf(given []string) (map[string]string, error) {
	const hint = "write HANDLE=KEY without blanks, as `" + name + " fleet key` prints it"
	users := map[string]string{}
	for _, arg := range given {
		handle, key, found := strings.Cut(arg, "=")
		handle = strings.TrimPrefix(handle, "@")
		switch {
		case !found:
			return nil, terminal.Usagef(hint, "%q is not HANDLE=KEY", arg)
		case users[handle] != "":
			return nil, terminal.Usagef("an agent has one key, on each of its machines", "%q is there twice", handle)
		case key == "":
			return nil, terminal.Usagef(hint, "%q has no key", arg)
		}
		users[handle] = key
	}
	return users, nil
}
