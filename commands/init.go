package commands

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"agentstateloop/commands/doctor"
	"agentstateloop/commands/setup"
	"agentstateloop/commands/terminal"
	"agentstateloop/cron/timer"
	"agentstateloop/cycle"
	"agentstateloop/fleet/seat"
	"agentstateloop/state"
)

// initOptions are the flags of init.
type initOptions struct {
	setup.Options
	password, noNetwork, timer bool
}

func initCommand(p *program) *cli.Command {
	var o initOptions
	return &cli.Command{
		Name:  "init",
		Usage: "set up an agent: configuration, crontab line, checks",
		Description: `Asks at a terminal for the settings that it cannot guess, and tests each answer:
it looks for the program, connects and logs in, and asks again unless you keep a
setting that does not work yet. It writes nothing before the last answer. In a
script, use the flags; init then reports all missing and invalid flags at once.

An existing configuration is kept: init only installs the crontab line. If it
has [fleet], init first joins: copy it and its secrets to another host, and run
init there. With
--password it also takes a new password for the mailbox, and replaces the old
one if the new one works. To set up another agent, name another file with
--config FILE.

On a machine without cron, --timer lets systemd, or launchd on macOS, start a
poll each minute. With an existing agent it replaces the crontab line by the
timer, and --schedule crontab goes back: both change mode in the configuration.

For a mesh on NATS, whose URL begins with tls:// or nats://, it creates the
agent's key unless the key exists, and prints the public key, which fleet plan
needs. With NATS, --peer also takes the public key of the peer, as HANDLE=KEY.

Writes ~/.config/agentstateloop/agent.toml, or --config FILE, and the secrets in
files next to it. The state is in ~/.local/state/agentstateloop/HANDLE. ~ is the
home directory in passwd; if HOME differs, init says so first.

A password comes from a file, from a prompt without echo, or from standard input
with --password-stdin. It is never an argument. The preset decides how mail from
you is proved: see docs/mail-proof.md.

Examples:
  agentstateloop init
  agentstateloop init --handle goulard3120 --operator you@example.com \
    --address artificer3120@gmail.com --password-stdin <password
  agentstateloop init --password`,
		Flags: []cli.Flag{
			textFlag(&o.Handle, "handle", "`NAME`: the agent's handle; its callsign is @NAME"),
			repeatedFlag(&o.Operators, "operator", "`ADDRESS`: your own email address; may be repeated"),
			textFlag(&o.Address, "address", "`ADDRESS`: the agent's own email address"),
			textFlag(&o.Username, "username", "`NAME`: login name, if it is not the address"),
			textFlag(&o.Preset, "preset", "`NAME`: gmail, fastmail, outlook, generic or none"),
			textFlag(&o.IMAPHost, "imap-host", "`HOST`: IMAP server, as HOST or HOST:PORT"),
			textFlag(&o.SMTPHost, "smtp-host", "`HOST`: SMTP server, as HOST or HOST:PORT"),
			textFlag(&o.CAFile, "ca-file", "`FILE`: file with the CA certificates of both"),
			textFlag(&o.AuthservID, "authserv-id", "`NAME`: mail server's name in Authentication-Results"),
			textFlag(&o.Require, "require", "`NAME`: required proof of your mail: dmarc or challenge"),
			textFlag(&o.Fallback, "fallback", "`NAME`: challenge, to ask you about mail without proof"),
			textFlag(&o.PasswordFile, "password-file", "`FILE`: file (0600) with the mailbox password"),
			switchFlag(&o.PasswordStdin, "password-stdin", "write standard input to that file"),
			switchFlag(&o.password, "password", "replace the password of an existing agent"),
			repeatedFlag(&o.PasswordCommand, "password-command", "`WORD`: word of a password command; may be repeated"),
			textFlag(&o.ClientID, "client-id", "`ID`: OAuth2 client id of your application"),
			textFlag(&o.ClientSecretFile, "client-secret-file", "`FILE`: file (0600) with the OAuth2 client secret"),
			textFlag(&o.Runner, "runner", "`NAME`: exec, claude, codex, gemini, acp, api or none"),
			repeatedFlag(&o.Command, "command", "`WORD`: word of the agent's command; may be repeated"),
			textFlag(&o.APIProvider, "api-provider", "`NAME`: anthropic, or openai and compatible servers"),
			textFlag(&o.APIModel, "api-model", "`NAME`: the provider's name for the model"),
			textFlag(&o.APIBaseURL, "api-base-url", "`URL`: another provider, or your own server"),
			textFlag(&o.APIKeyFile, "api-key-file", "`FILE`: file (0600) with the API key"),
			textFlag(&o.Workdir, "workdir", "`FOLDER`: the agent's working folder; init creates it"),
			textFlag(&o.Sandbox, "sandbox", "`NAME`: bwrap, to run the agent in a sandbox, or none"),
			textFlag(&o.Conversation, "conversation", "`NAME`: operator (one with you) or thread (one per thread)"),
			textFlag(&o.StateDir, "state-dir", "`FOLDER`: folder for the agent's state"),
			textFlag(&o.MeshURL, "mesh-url", "`URL`: mesh server"),
			textFlag(&o.MeshTokenFile, "mesh-token-file", "`FILE`: file (0600) with the agent's token"),
			textFlag(&o.MeshKeyFile, "mesh-key-file", "`FILE`: file for the agent's NATS key; init creates it"),
			textFlag(&o.MeshCAFile, "mesh-ca-file", "`FILE`: file with the CA certificates of NATS servers"),
			repeatedFlag(&o.Peers, "peer", "`HANDLE`: a peer, as HANDLE or HANDLE=KEY; may be repeated"),
			textFlag(&o.Keymaster, "keymaster", "`HANDLE`: agent to notify of refused passwords"),
			textFlag(&o.Schedule, "schedule", "`MODE`: crontab, systemd, launchd, fixed or none"),
			switchFlag(&o.timer, "timer", "let systemd or launchd start polls, not cron"),
			textFlag(&o.Crontab, "crontab", "`PROGRAM`: crontab program"),
			switchFlag(&o.Print, "print", "print the configuration and write nothing"),
			switchFlag(&o.noNetwork, "no-network", "skip the tests that contact a server"),
			switchFlag(&o.NoCheck, "no-check", "accept --command even if its program is missing"),
		},
		Action: p.action(0, 0, o.run),
	}
}

// initOutput is the JSON output of init.
type initOutput struct {
	Agent    string           `json:"agent"`
	Config   string           `json:"config"`
	Created  bool             `json:"created"`       // false if it already existed, and is kept
	Password *string          `json:"password_file"` // file with the new password; null without one
	Key      *string          `json:"public_key"`    // set if the agent's mesh over NATS is set up now; else null
	Fleet    *fleetJoinOutput `json:"fleet"`         // null: the agent lives on this host alone
	Checks   []doctor.Finding `json:"checks"`
	Next     string           `json:"next"`
}

func (o *initOptions) run(c *call) error {
	if err := refuseSeeds(append(o.Peers, o.MeshKeyFile)...); err != nil {
		return err
	}
	if err := o.chooseTimer(); err != nil {
		return err
	}
	path, err := initPath(c)
	if err != nil {
		return err
	}
	if note := c.loader.HomeNote(); note != "" {
		c.out.Warn("%s", note)
	}
	plans := setup.Setup{
		Loader: c.loader, Asker: terminal.NewAsker(c.stdin, &c.out, c.loader.Secrets), Stdin: c.stdin, Network: !o.noNetwork,
	}
	if o.Print {
		plan, err := plans.Plan(c.ctx, o.Options, path)
		if err != nil {
			return err
		}
		return c.printFile(plan.Text)
	}
	result := initOutput{Config: path}
	var plan setup.Plan
	if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
		if o.password {
			return terminal.Usagef("to set up the agent, omit --password", "cannot replace the password: %s does not exist", path)
		}
		if plan, err = plans.Plan(c.ctx, o.Options, path); err != nil {
			return err
		}
		if result.Created, err = plan.Write(c.ctx, path); err != nil {
			return err
		}
		result.Key = orNull(plan.Key)
	} else if err != nil {
		return err
	} else if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return terminal.WithHint(fmt.Errorf("%s is a link to a file that does not exist", path), "remove the link, or create its target")
	} else {
		setup.RemoveDrafts(filepath.Dir(path)) // an init may have been killed after its last write
	}
	a, err := c.loader.Load(path)
	if err != nil {
		return err
	}
	result.Agent = a.Handle
	if handle := o.Handle; !result.Created && handle != a.Handle && state.ValidHandle(handle) {
		return terminal.Usagef(fmt.Sprintf("use another file for @%s: --config %s", handle, filepath.Join(filepath.Dir(path), handle+".toml")),
			"%s belongs to @%s; nothing was changed", path, a.Handle)
	}
	rescheduled := !result.Created && o.Schedule != "" && o.Schedule != a.Schedule.Mode
	if rescheduled {
		if a, err = o.reschedule(c, plans, a); err != nil {
			return err
		}
	}
	if !result.Created {
		if result.Password, err = o.newPassword(c, plans, a); err != nil {
			return err
		}
	}
	if result.Fleet, err = o.join(c, a); err != nil {
		return err
	}
	if !c.json {
		o.printWritten(c, result, plan)
	}
	install(c, a)
	found := doctor.Examine(c.ctx, doctor.Subject{Loader: c.loader, Path: path, Network: !o.noNetwork, Proc: c.proc})
	if err := c.ctx.Err(); err != nil {
		return err
	}
	result.Next = nextStep(c, a, found)
	if result.Fleet != nil && doctor.Count(found, doctor.Error) == 0 {
		result.Next = result.Fleet.Next
	}
	if c.json {
		result.Checks = found
		return c.out.JSON(result)
	}
	if err := doctor.Print(&c.out, found, doctor.Remarkable); err != nil {
		return err
	}
	c.out.Printf("\n%s\n", result.Next)
	return nil
}

// initPath returns the path of the configuration, existing or new.
func initPath(c *call) (string, error) {
	path, err := c.configPath()
	if err == nil || c.given(&c.global.config) != "" {
		return path, err
	}
	return c.loader.UserFile()
}

// printWritten prints the written files, and the flags that were ignored.
func (o *initOptions) printWritten(c *call, r initOutput, plan setup.Plan) {
	if r.Created {
		for _, secret := range plan.Secrets {
			c.out.Printf("wrote %s (mode 0600)\n", secret.File)
		}
		c.out.Printf("wrote %s (mode 0600)\n\n", r.Config)
		if plan.Key != "" {
			c.out.Printf("The agent's public key, for fleet plan and for [mesh.keys] of other agents:\n")
			c.out.Verbatim("  " + r.Agent + "=" + plan.Key + "\n\n")
		}
		return
	}
	c.out.Printf("kept the existing %s\n", r.Config)
	if r.Password != nil {
		c.out.Printf("wrote the new password to %s (mode 0600)\n", *r.Password)
	}
	if r.Fleet != nil {
		c.out.Printf("%s\n", r.Fleet.text)
	}
	c.out.Printf("\n")
	if r.Password == nil && !o.onlyFlags(c, &o.Handle, &o.password, &o.Schedule, &o.timer) {
		c.out.Warn("the flags for settings were ignored: edit the file, or create another agent with --config FILE")
	}
}

// onlyFlags reports whether the flags on the command line all set one of these variables, or do
// not describe the agent.
func (o *initOptions) onlyFlags(c *call, these ...any) bool {
	these = append(these, &o.noNetwork, &o.NoCheck)
	return !slices.ContainsFunc(c.line.Command.Flags, func(f cli.Flag) bool {
		return !slices.Contains(these, variableOf(f)) && c.given(variableOf(f)) != ""
	})
}

// chooseTimer makes --timer the mode of this operating system.
func (o *initOptions) chooseTimer() error {
	if !o.timer {
		return nil
	}
	native := timer.Native()
	if native == "" {
		return terminal.Usagef("use cron, or keep `agentstateloop listen` running with --schedule none", "--timer needs systemd or launchd, which %s does not have", runtime.GOOS)
	}
	if o.Schedule != "" && o.Schedule != native {
		return terminal.Usagef("omit one of them", "--timer means --schedule %s, not %s", native, o.Schedule)
	}
	o.Schedule = native
	return nil
}

// join joins an agent whose configuration has [fleet]. It returns nil for any other.
func (o *initOptions) join(c *call, a *cycle.Agent) (*fleetJoinOutput, error) {
	if a.Seat == nil {
		return nil, nil
	}
	v, err := a.Seat.View()
	if err != nil {
		return nil, err
	}
	if o.noNetwork && !v.Joined {
		return nil, terminal.Usagef("leave it out: init has to reach the servers", "%s has [fleet], so init joins the other hosts of the agent: --no-network cannot be used", a.Config)
	}
	if o.noNetwork {
		j := seat.Joined{Holder: v.Holder, Term: v.Term, Already: true}
		return &fleetJoinOutput{seatOutput: joinedSeat(a, j), text: joinedText(a, j)}, nil
	}
	return c.join(a, false)
}

// reschedule changes the mode in [schedule] of an existing configuration. A timer polls before
// install removes the crontab line, and the other way round, so that the agent is polled at all
// times. If the timer does not start, nothing is changed.
func (o *initOptions) reschedule(c *call, plans setup.Setup, a *cycle.Agent) (*cycle.Agent, error) {
	next, text, err := plans.Reschedule(a.Config, o.Schedule)
	if err != nil {
		return nil, err
	}
	if next.Schedule.HasTimer() {
		if err := next.EnableTimer(c.ctx); err != nil {
			if s, readErr := next.Store.Read(); readErr == nil {
				_, _ = next.Timer(s).Remove(c.ctx) // it may not have been written
			}
			return nil, terminal.WithHint(err, "nothing was changed: "+a.Config+" keeps mode = \""+a.Schedule.Mode+"\" in [schedule]")
		}
	}
	return next, setup.Replace(a.Config, text)
}

// installs reports whether the mode of the agent makes us install its crontab line or its timer.
func installs(a *cycle.Agent) bool {
	return a.Schedule.Mode == cycle.ModeCrontab || a.Schedule.HasTimer()
}

// install installs the crontab line, or the timer, and reports whether one polls the agent now, or
// will after the running poll. A failure is stored in the state, and doctor reports it.
func install(c *call, a *cycle.Agent) bool {
	if !installs(a) {
		return false
	}
	s, err := a.Install(c.ctx)
	if err != nil {
		c.out.Warn("install the schedule: %v", err)
	}
	return err == nil && s.Schedule.Error == "" && !s.Schedule.Removed
}

// nextStep returns the command to run now, and its expected effect.
func nextStep(c *call, a *cycle.Agent, found []doctor.Finding) string {
	again := c.programFor(a.Config)
	for _, f := range found {
		if f.Level == doctor.Error && strings.HasPrefix(f.Check, "secret.") && strings.Contains(f.Hint, name+" login") {
			return fmt.Sprintf("Next: `%s login`, to get the refresh token.", again)
		}
	}
	if doctor.Count(found, doctor.Error) > 0 {
		return fmt.Sprintf("Next: fix the errors above, then `%s doctor`.", again)
	}
	if a.Mail == nil && a.Turn == nil {
		return fmt.Sprintf("Next: run `%s inbox next` in the program that answers.", again)
	}
	if a.Mail == nil {
		return fmt.Sprintf("Next: `%s tell \"are you there?\"`.", again)
	}
	return fmt.Sprintf(`Next: `+"`%s poll`"+`, then mail %s with @%s in the subject.
The first poll reads your unread mails, and later polls all new ones. Older mail
is ignored.`, again, a.Mail.Address, a.Handle)
}

// newPassword reads a new password for an existing agent, if requested: by --password, by
// --password-stdin alone, or at a terminal where init asks no other question. It returns the
// file with the password, or nil.
func (o *initOptions) newPassword(c *call, plans setup.Setup, a *cycle.Agent) (*string, error) {
	conf, err := c.loader.Read(a.Config)
	if err != nil {
		return nil, err
	}
	if o.password && o.Handle != "" && o.Handle != a.Handle {
		return nil, terminal.Usagef("name its file with --config FILE", "%s belongs to @%s", a.Config, a.Handle)
	}
	switch {
	case o.password, o.PasswordStdin && o.onlyFlags(c, &o.PasswordStdin):
	case plans.Asker.CanAsk() && o.onlyFlags(c) && !c.json:
		if _, err := setup.PasswordFile(conf); err != nil {
			return nil, nil // the agent has no password file
		}
		wanted, err := plans.Asker.Confirm(c.ctx, a.Config+" already exists; set a new password for "+a.Mail.Address+"?")
		if !wanted || err != nil {
			return nil, err
		}
	default:
		return nil, nil
	}
	file, err := plans.NewPassword(c.ctx, conf, a, o.PasswordStdin)
	if err != nil {
		return nil, err
	}
	return orNull(file), nil
}
