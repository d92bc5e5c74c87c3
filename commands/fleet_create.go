package commands

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"agentstateloop/commands/config"
	"agentstateloop/commands/terminal"
	"agentstateloop/fleet"
	"agentstateloop/mail"
	"agentstateloop/state"
)

// fleetCreateOptions are the flags of fleet create.
type fleetCreateOptions struct {
	adminKey, url, caFile string
	servers               int
	check                 bool
}

func fleetCreateCommand(p *program) *cli.Command {
	var o fleetCreateOptions
	return &cli.Command{
		Name:      "create",
		Usage:     "create or repair the streams of the mesh",
		ArgsUsage: "[HANDLE...]",
		Description: `Creates the streams of the mesh and a mailbox for each HANDLE, if they are
missing, and repairs their settings. Deletes nothing. If a setting cannot be
changed without data loss, it is kept, and the command that changes it is
printed. Run it again when an agent joins, and after an upgrade.

By default --url and --ca-file come from [mesh] of the configuration, and the
HANDLEs are that agent and its peers. Each message is stored on as many servers
as --url names, at most three.

With --check it changes nothing. Exits 1 if something is left to do.

Examples:
  agentstateloop fleet create --admin-key admin.nk --url nats://127.0.0.1:4222 \
    goulard3120 dorlange3120
  agentstateloop fleet create --admin-key admin.nk --check`,
		Flags: []cli.Flag{
			textFlag(&o.adminKey, "admin-key", "`FILE`: file (0600) with the administrator's seed"),
			textFlag(&o.url, "url", "`URL`: servers, as tls://HOST:PORT,HOST:PORT"),
			textFlag(&o.caFile, "ca-file", "`FILE`: file with the servers' CA certificates"),
			&cli.IntFlag{Name: "servers", Usage: "`N`: number of servers", DefaultText: "as many as --url names", Destination: &o.servers},
			switchFlag(&o.check, "check", "change nothing, only print what is left to do"),
		},
		Action: p.action(0, math.MaxInt, o.run),
	}
}

// fleetCreateOutput is the JSON output of fleet create.
type fleetCreateOutput struct {
	URL     string        `json:"url"`
	Checked bool          `json:"checked"` // true with --check, which changes nothing
	Assets  []fleetChange `json:"assets"`
}

// fleetChange is the JSON output for one stream or mailbox.
type fleetChange struct {
	Asset string   `json:"asset"`
	Did   string   `json:"did"`
	What  []string `json:"what"`
	Hint  *string  `json:"hint"`
}

// createTarget holds the servers and the wanted assets from the command line.
type createTarget struct {
	url, caFile string
	wanted      fleet.Wanted
}

func (o *fleetCreateOptions) run(c *call) error {
	if err := refuseSeeds(append(c.args, o.adminKey, o.url)...); err != nil {
		return err
	}
	if o.adminKey == "" {
		return terminal.Usagef("`"+name+" fleet key --file admin.nk` creates one, and fleet plan --admin gives it its rights", "--admin-key is missing: the file with the administrator's seed")
	}
	e, err := o.target(c)
	if err != nil {
		return err
	}
	if _, err := mail.TLSConfig("", e.caFile, nil); err != nil {
		return err
	}
	conn := &fleet.Conn{URL: e.url, Seed: c.loader.SecretFile(o.adminKey), Secrets: c.loader.Secrets,
		TLS: func(host string) (*tls.Config, error) { return mail.TLSConfig(host, e.caFile, nil) }}
	defer conn.Close()
	changes, err := fleet.Create(c.ctx, func(ctx context.Context, subject string, body []byte) ([]byte, error) {
		answer, err := conn.Request(ctx, subject, body, nil)
		return answer.Data, err
	}, e.wanted)
	if !c.json {
		printChanges(c, changes, e.wanted.Check)
	}
	if err != nil {
		return adminError(err)
	}
	if c.json {
		if err := c.out.JSON(fleetCreateOutput{e.url, e.wanted.Check, jsonOf(changes)}); err != nil {
			return err
		}
	} else if len(e.wanted.Handles) == 0 {
		c.out.Warn("no handle was given, so no mailbox was checked")
	}
	return checkPending(changes, e.wanted.Check)
}

// target reads the command line, and takes missing values from the configuration.
func (o *fleetCreateOptions) target(c *call) (createTarget, error) {
	e := createTarget{url: o.url, caFile: o.caFile, wanted: fleet.Wanted{Check: o.check, Secrets: c.loader.Secrets}}
	for _, arg := range c.args {
		handle := strings.TrimPrefix(arg, "@")
		if !state.ValidHandle(handle) {
			return e, terminal.Usagef("give the handles without keys", "%q is not a valid handle", arg)
		}
		e.wanted.Handles = append(e.wanted.Handles, handle)
	}
	if e.url == "" || c.namesAgent() {
		if err := o.fromConfig(c, &e); err != nil {
			return e, err
		}
	}
	servers, err := fleet.Servers(e.url)
	if err != nil {
		return e, terminal.Usagef(createURLHint, "--url: %v", err)
	}
	e.wanted.Servers = len(servers)
	if c.given(&o.servers) != "" {
		e.wanted.Servers = o.servers
	}
	if e.wanted.Servers < 1 {
		return e, terminal.Usagef("", "--servers %d: must be at least 1", e.wanted.Servers)
	}
	return e, nil
}

const createURLHint = "name the servers, as in --url tls://n1.example.com:4222,n2.example.com:4222"

// fromConfig adds the values of the configuration that are missing on the command line.
func (o *fleetCreateOptions) fromConfig(c *call, e *createTarget) error {
	path, err := c.configPath()
	if err != nil && !c.namesAgent() {
		return terminal.Usagef(createURLHint, "--url is missing, and no configuration was found")
	}
	if err != nil {
		return err
	}
	conf, err := c.loader.Read(path)
	if err != nil {
		return err
	}
	m := conf.File.Mesh
	if e.url == "" && !m.OverNATS() {
		return terminal.Usagef(createURLHint, "--url is missing, and url in [mesh] of %s does not name NATS servers", path)
	}
	if e.url == "" {
		e.url = m.URL
		if e.caFile == "" && m.CAFile != "" {
			e.caFile = conf.Resolve(m.CAFile)
		}
	}
	if len(e.wanted.Handles) > 0 {
		return nil
	}
	for _, handle := range append([]string{conf.File.Agent.Handle}, m.Peers...) {
		if !state.ValidHandle(handle) {
			return &config.Error{Path: path, Text: fmt.Sprintf("%q is not a valid handle", handle)}
		}
		e.wanted.Handles = append(e.wanted.Handles, handle)
	}
	return nil
}

// printChanges prints the changes, made or pending.
func printChanges(c *call, changes []fleet.Change, check bool) {
	words := map[string]string{fleet.Made: "created", fleet.Mended: "repaired", fleet.Differs: "differs"}
	if check {
		words[fleet.Made], words[fleet.Mended] = "missing", "outdated"
	}
	same := 0
	for _, change := range changes {
		if change.Did == fleet.Same {
			same++
			continue
		}
		line := fmt.Sprintf("%-8s %s", words[change.Did], change.Asset)
		if len(change.What) > 0 {
			line += ": " + strings.Join(change.What, "; ")
		}
		c.out.Printf("%s\n", c.out.Fit(line, 9))
		if change.Hint != "" {
			c.out.Printf("%s\n", c.out.Fit("         hint: "+change.Hint, 15))
		}
	}
	if same > 0 {
		c.out.Printf("%d of %d are up to date\n", same, len(changes))
	}
}

func jsonOf(changes []fleet.Change) []fleetChange {
	all := []fleetChange{}
	for _, change := range changes {
		all = append(all, fleetChange{Asset: change.Asset, Did: change.Did, What: orEmpty(change.What), Hint: orNull(change.Hint)})
	}
	return all
}

// checkPending returns an error if an asset still differs from the wanted state.
func checkPending(changes []fleet.Change, check bool) error {
	left := len(slices.DeleteFunc(slices.Clone(changes), func(c fleet.Change) bool {
		return c.Did == fleet.Same || !check && c.Did != fleet.Differs
	}))
	switch {
	case left == 0:
		return nil
	case check:
		return coded(codeFailed, terminal.WithHint(fmt.Errorf("%d of %d are not up to date", left, len(changes)), "without --check, it creates and repairs them if possible"))
	}
	return coded(codeFailed, terminal.WithHint(fmt.Errorf("%d of %d still differ", left, len(changes)), "follow the hints above; the agents may work anyway"))
}

// adminError adds a hint for the administrator to an error of the server.
func adminError(err error) error {
	if refused, ok := errors.AsType[*fleet.Refusal](err); ok {
		return terminal.WithHint(err, refusalHint(refused))
	}
	e, ok := errors.AsType[*fleet.Error](err)
	if !ok || terminal.HintOf(err) != "" {
		return err
	}
	if e.Code == 0 {
		err = e // the error is not about the requested stream
	}
	hint := ""
	switch {
	case e.Denied && e.Server == "":
		hint = "set --admin-key to the file from `" + name + " fleet key --file " + "admin.nk" + "`"
	case e.Denied:
		hint = "use the key that --admin gave to `" + name + " fleet plan`; after a change, reload the servers"
	case e.Code == 503:
		hint = "the servers need JetStream, and two of three must be running: try again in a moment"
	case e.Code == 0:
		hint = "check that nats-server is running (two of three servers) and that the url is correct"
	}
	return terminal.WithHint(err, hint)
}

// JetStream's numbers of errors that an administrator may see.
const (
	numberNoPeers   = 10005 // not enough servers for the replicas
	numberNoStorage = 10047
	numberNoCluster = 10074 // replicas requested from a single server
)

func refusalHint(r *fleet.Refusal) string {
	switch r.Number {
	case numberNoPeers, numberNoCluster:
		return "check that all servers of --url are running as one cluster; --servers sets their number"
	case numberNoStorage:
		return "raise max_file_store in the configuration of the servers; see fleet plan"
	}
	return ""
}
