package commands

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"agentstateloop/commands/config"
	"agentstateloop/commands/doctor"
	"agentstateloop/commands/setup"
	"agentstateloop/commands/terminal"
	"agentstateloop/cycle"
	"agentstateloop/state"
)

type initCmd struct {
	agents agents
	loader *config.Loader
	stdin  io.Reader
	out    *terminal.Output
	proc   string
}

func initCommand(p *program) *cli.Command {
	return &cli.Command{
		Name:  "init",
		Usage: "set up an agent: configuration, crontab line, doctor",
		Description: `Asks at a terminal for what it cannot guess; in a script, use the flags. At a
terminal it tries each thing as it is typed: it looks for the program, connects
and logs in, and asks again, unless you keep what does not work yet. It writes
nothing before the last answer. A script hears at once of all flags that are
missing or wrong.

Keeps an existing configuration, and then only installs the crontab line; with
--password it also takes a new password for the mailbox, and replaces the old
one when the new one works. Give another agent a file of its own with --config
FILE.

For a mesh over NATS, whose URL begins with tls:// or nats://, it makes the
agent's key, if there is none, and prints the public key: fleet plan needs it.
There --peer takes the peer's public key as well, as HANDLE=KEY.

Writes ~/.config/agentstateloop/agent.toml, or --config FILE, and the secrets in
files next to it. The state is in ~/.local/state/agentstateloop/HANDLE. ~ is the
home directory in passwd: init says so first if HOME is another one.

A password is read from a file, typed without being shown, or read with
--password-stdin; it is never an argument. The preset decides what proves that
a mail is yours: see docs/security.md.

Example:
  agentstateloop init
  agentstateloop init --handle goulard3120 --operator you@example.com \
    --address artificer3120@gmail.com --password-stdin <password
  agentstateloop init --password`,
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "handle", Usage: "the agent's `NAME`; its callsign is @NAME"},
			repeatedFlag("operator", "your own email `ADDRESS`; may be repeated"),
			&cli.StringFlag{Name: "address", Usage: "the agent's own email `ADDRESS`"},
			&cli.StringFlag{Name: "username", Usage: "`NAME` to log in with, if it is not the address"},
			&cli.StringFlag{Name: "preset", Usage: "`NAME`: gmail, fastmail, outlook, generic or none"},
			&cli.StringFlag{Name: "imap-host", Usage: "`HOST` of the mailbox, or HOST:PORT"},
			&cli.StringFlag{Name: "smtp-host", Usage: "`HOST` that sends mail, or HOST:PORT"},
			&cli.StringFlag{Name: "ca-file", Usage: "`FILE` with the certificates of both"},
			&cli.StringFlag{Name: "authserv-id", Usage: "`NAME` that the mail server stamps on mail"},
			&cli.StringFlag{Name: "require", Usage: "`NAME`: what proves your mail, dmarc or challenge"},
			&cli.StringFlag{Name: "fallback", Usage: "`NAME`: challenge, to be asked about mail without proof"},
			&cli.StringFlag{Name: "password-file", Usage: "`FILE` (0600) with the mailbox's password"},
			switchFlag("password-stdin", "write standard input to that file"),
			switchFlag("password", "take a new password for an agent that exists"),
			repeatedFlag("password-command", "`WORD` of the command that prints it; may be repeated"),
			&cli.StringFlag{Name: "client-id", Usage: "`ID` of your application, for OAuth2"},
			&cli.StringFlag{Name: "client-secret-file", Usage: "`FILE` (0600) with its secret"},
			&cli.StringFlag{Name: "runner", Usage: "`NAME`: exec, claude, codex, gemini, acp, api or none"},
			repeatedFlag("command", "`WORD` of the agent's command; may be repeated"),
			&cli.StringFlag{Name: "api-provider", Usage: "`NAME`: anthropic, or openai and its like"},
			&cli.StringFlag{Name: "api-model", Usage: "the provider's `NAME` of a model"},
			&cli.StringFlag{Name: "api-base-url", Usage: "`URL` of another provider, or of your own server"},
			&cli.StringFlag{Name: "api-key-file", Usage: "`FILE` (0600) with the provider's key"},
			&cli.StringFlag{Name: "workdir", Usage: "the agent's `FOLDER`; init makes it"},
			&cli.StringFlag{Name: "sandbox", Usage: "`NAME`: bwrap, to run the agent in a box, or none"},
			&cli.StringFlag{Name: "conversation", Usage: "`NAME`: operator (one with you) or thread (one a thread)"},
			&cli.StringFlag{Name: "state-dir", Usage: "`FOLDER` of the agent's state"},
			&cli.StringFlag{Name: "mesh-url", Usage: "`URL` of the mesh"},
			&cli.StringFlag{Name: "mesh-token-file", Usage: "`FILE` (0600) with the agent's token"},
			&cli.StringFlag{Name: "mesh-key-file", Usage: "`FILE` for its key over NATS; init makes it"},
			&cli.StringFlag{Name: "mesh-ca-file", Usage: "`FILE` with the certificates of NATS servers"},
			repeatedFlag("peer", "`HANDLE` to answer, or HANDLE=KEY; may be repeated"),
			&cli.StringFlag{Name: "keymaster", Usage: "`HANDLE` that learns of failing passwords"},
			&cli.StringFlag{Name: "schedule", Usage: "`MODE`: what polls: crontab, fixed or none"},
			&cli.StringFlag{Name: "crontab", Usage: "the crontab `PROGRAM`"},
			switchFlag("print", "only print the configuration"),
			switchFlag("no-network", "contact no server: try nothing there"),
			switchFlag("no-check", "take --command although its program is missing"),
		},
		Action: initCmd{p.agents(), p.loader, p.stdin, &p.out, p.proc}.run,
	}
}

// initOutput is the JSON output of init.
type initOutput struct {
	Agent    string           `json:"agent"`
	Config   string           `json:"config"`
	Created  bool             `json:"created"`       // false if it already existed, and is kept
	Password *string          `json:"password_file"` // file with the new password; null without one
	Key      *string          `json:"public_key"`    // set if the agent's mesh over NATS is set up now; else null
	Checks   []doctor.Finding `json:"checks"`
	Next     string           `json:"next"`
}

func (k initCmd) run(c *cli.Context) error {
	if err := arguments(c, 0, 0); err != nil {
		return err
	}
	if err := refuseSeeds(append(wordsOf(c, "peer"), c.String("mesh-key-file"))...); err != nil {
		return err
	}
	path, err := k.initPath(c)
	if err != nil {
		return err
	}
	if note := k.loader.HomeNote(); note != "" {
		k.out.Warn("%s", note)
	}
	plans := setup.Setup{
		Loader: k.loader, Asker: terminal.NewAsker(k.stdin, k.out, k.loader.Secrets), Stdin: k.stdin, Network: !c.Bool("no-network"),
	}
	if c.Bool("print") {
		plan, err := plans.Plan(c.Context, initOptions(c), path)
		if err != nil {
			return err
		}
		return printFile(c, k.out, plan.Text)
	}
	result := initOutput{Config: path}
	var plan setup.Plan
	if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
		if c.Bool("password") {
			return terminal.Usagef("leave --password out to set the agent up", "%s does not exist, and so has no password to replace", path)
		}
		if plan, err = plans.Plan(c.Context, initOptions(c), path); err != nil {
			return err
		}
		if result.Created, err = plan.Write(c.Context, path); err != nil {
			return err
		}
		if plan.Key != "" {
			result.Key = &plan.Key
		}
	} else if err != nil {
		return err
	} else if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return terminal.WithHint(fmt.Errorf("%s is a link to a file that does not exist", path), "remove it, or create the file that it points to")
	} else {
		setup.RemoveDrafts(filepath.Dir(path)) // an init may have been killed after its last write
	}
	a, err := k.loader.Load(path)
	if err != nil {
		return err
	}
	result.Agent = a.Handle
	if handle := c.String("handle"); !result.Created && handle != a.Handle && state.ValidHandle(handle) {
		return terminal.Usagef(fmt.Sprintf("give @%s a file of its own: --config %s", handle, filepath.Join(filepath.Dir(path), handle+".toml")),
			"%s is the file of @%s, and nothing was changed", path, a.Handle)
	}
	if !result.Created {
		if result.Password, err = k.newPassword(c, plans, a); err != nil {
			return err
		}
	}
	if !c.Bool("json") {
		k.printWritten(c, result, plan)
	}
	k.install(c.Context, a)
	found := doctor.Examine(c.Context, doctor.Subject{Loader: k.loader, Path: path, Network: !c.Bool("no-network"), Proc: k.proc})
	if err := c.Context.Err(); err != nil {
		return err
	}
	result.Next = k.next(a, found)
	if c.Bool("json") {
		result.Checks = found
		return k.out.JSON(result)
	}
	if err := doctor.Print(k.out, found, doctor.Remarkable); err != nil {
		return err
	}
	k.out.Printf("\n%s\n", result.Next)
	return nil
}

// initOptions parses the flags.
func initOptions(c *cli.Context) setup.Options {
	return setup.Options{
		Handle: c.String("handle"), StateDir: c.String("state-dir"), Operators: wordsOf(c, "operator"),
		Preset: c.String("preset"), Address: c.String("address"), Username: c.String("username"), IMAPHost: c.String("imap-host"), SMTPHost: c.String("smtp-host"), CAFile: c.String("ca-file"),
		AuthservID: c.String("authserv-id"), Require: c.String("require"), Fallback: c.String("fallback"),
		PasswordFile: c.String("password-file"), PasswordStdin: c.Bool("password-stdin"), PasswordCommand: wordsOf(c, "password-command"),
		ClientID: c.String("client-id"), ClientSecretFile: c.String("client-secret-file"),
		Runner: c.String("runner"), Command: wordsOf(c, "command"), Workdir: c.String("workdir"), Sandbox: c.String("sandbox"), Conversation: c.String("conversation"),
		APIProvider: c.String("api-provider"), APIModel: c.String("api-model"), APIBaseURL: c.String("api-base-url"), APIKeyFile: c.String("api-key-file"),
		MeshURL: c.String("mesh-url"), MeshTokenFile: c.String("mesh-token-file"), MeshKeyFile: c.String("mesh-key-file"), MeshCAFile: c.String("mesh-ca-file"),
		Peers: wordsOf(c, "peer"), Keymaster: c.String("keymaster"),
		Schedule: c.String("schedule"), Crontab: c.String("crontab"),
		Print: c.Bool("print"), NoCheck: c.Bool("no-check"),
	}
}

// initPath returns the path of the configuration, existing or new.
func (k initCmd) initPath(c *cli.Context) (string, error) {
	path, err := k.agents.configPath(c)
	if err == nil || c.IsSet("config") {
		return path, err
	}
	return k.loader.UserFile()
}

// printWritten prints the written files, and the flags that were ignored.
func (k initCmd) printWritten(c *cli.Context, r initOutput, plan setup.Plan) {
	if r.Created {
		for _, secret := range plan.Secrets {
			k.out.Printf("wrote %s (mode 0600)\n", secret.File)
		}
		k.out.Printf("wrote %s (mode 0600)\n\n", r.Config)
		if plan.Key != "" {
			k.out.Printf("The agent's public key, for fleet plan and for [mesh.keys] of other agents:\n")
			k.out.Verbatim("  " + r.Agent + "=" + plan.Key + "\n\n")
		}
		return
	}
	k.out.Printf("kept %s, which already exists\n", r.Config)
	if r.Password != nil {
		k.out.Printf("wrote the new password to %s (mode 0600)\n", *r.Password)
	}
	k.out.Printf("\n")
	if r.Password == nil && describesAgent(c) {
		k.out.Warn("the flags that describe the agent were ignored: edit the file, or give another agent a file of its own with --config FILE")
	}
}

// describesAgent reports whether a given flag would go into the configuration.
func describesAgent(c *cli.Context) bool { return !onlyFlags(c, "handle", "password") }

// onlyFlags reports whether the given flags are all among these, or do not describe the agent.
func onlyFlags(c *cli.Context, these ...string) bool {
	return !slices.ContainsFunc(c.LocalFlagNames(), func(flag string) bool {
		return !slices.Contains(append([]string{"config", "json", "no-network", "no-check"}, these...), flag)
	})
}

// install installs the crontab line. A failure is stored in the state, and doctor reports it.
func (k initCmd) install(ctx context.Context, a *cycle.Agent) {
	if a.Schedule.Mode != cycle.ModeCrontab {
		return
	}
	if _, err := a.Install(ctx); err != nil {
		k.out.Warn("install crontab line: %v", err)
	}
}

// next returns the command to run now, and its expected effect.
func (k initCmd) next(a *cycle.Agent, found []doctor.Finding) string {
	again := name
	if path, err := k.loader.Find(""); err != nil || path != a.Config {
		again += " --config " + a.Config
	}
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
The first poll reads those mails of yours that are unread, and later polls all
that arrive; older mail is left alone.`, again, a.Mail.Address, a.Handle)
}
