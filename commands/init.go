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

	"agentstateloop/commands/doctor"
	"agentstateloop/commands/terminal"
	"agentstateloop/cycle"
	"agentstateloop/state"
)

func (p *program) initCommand() *cli.Command {
	return &cli.Command{
		Name:  "init",
		Usage: "set an agent up: configuration, crontab line, doctor",
		Description: `On a terminal it asks for what it cannot guess; in a script flags say it all. A
configuration that is there is kept, and only the line is installed. Another
agent gets a file of its own by --config FILE.

A password is read from a file, without an echo, or with --password-stdin; it
is never an argument. Mail is proved as the preset knows: see docs/security.md.

Example:
  agentstateloop init
  agentstateloop init --handle goulard3120 --operator you@example.com \
    --address artificer3120@gmail.com --password-stdin <password`,
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "handle", Usage: "the agent's `NAME`; its callsign is @NAME"},
			repeatedFlag("operator", "your own `ADDRESS`; may be repeated"),
			&cli.StringFlag{Name: "address", Usage: "the agent's own mail `ADDRESS`"},
			&cli.StringFlag{Name: "preset", Usage: "`NAME`: gmail, fastmail, outlook, generic or none"},
			&cli.StringFlag{Name: "imap-host", Usage: "`HOST` of the mailbox, or HOST:PORT"},
			&cli.StringFlag{Name: "smtp-host", Usage: "`HOST` to send by, or HOST:PORT"},
			&cli.StringFlag{Name: "ca-file", Usage: "`FILE` of their certificates"},
			&cli.StringFlag{Name: "authserv-id", Usage: "`NAME` with which the mail server checks"},
			&cli.StringFlag{Name: "require", Usage: "`NAME`: what proves your mail, dmarc or challenge"},
			&cli.StringFlag{Name: "fallback", Usage: "`NAME`: challenge, to be asked about what is not proved"},
			&cli.StringFlag{Name: "password-file", Usage: "`FILE` (0600) with the mailbox's password"},
			switchFlag("password-stdin", "write stdin to that file"),
			repeatedFlag("password-command", "`WORD` of what prints it; may be repeated"),
			&cli.StringFlag{Name: "client-id", Usage: "`ID` of your application, for OAuth2"},
			&cli.StringFlag{Name: "client-secret-file", Usage: "`FILE` (0600) with its secret"},
			&cli.StringFlag{Name: "runner", Usage: "`NAME`: exec, claude, codex, gemini, api or none"},
			repeatedFlag("command", "`WORD` of the agent's command; may be repeated"),
			&cli.StringFlag{Name: "api-provider", Usage: "`NAME`: anthropic, or openai for all who speak that"},
			&cli.StringFlag{Name: "api-model", Usage: "the provider's `NAME` of a model"},
			&cli.StringFlag{Name: "api-base-url", Usage: "`URL` of another provider, or of a server of yours"},
			&cli.StringFlag{Name: "api-key-file", Usage: "`FILE` (0600) with the provider's key"},
			&cli.StringFlag{Name: "workdir", Usage: "the agent's `FOLDER`; it is made"},
			&cli.StringFlag{Name: "state-dir", Usage: "`FOLDER` of the agent's state"},
			&cli.StringFlag{Name: "mesh-url", Usage: "`URL` of the mesh"},
			&cli.StringFlag{Name: "mesh-token-file", Usage: "`FILE` (0600) with the agent's token"},
			repeatedFlag("peer", "`HANDLE` that is answered; may be repeated"),
			&cli.StringFlag{Name: "keymaster", Usage: "`HANDLE` that is told of failing passwords"},
			&cli.StringFlag{Name: "schedule", Usage: "`MODE`: who polls: crontab, fixed or none"},
			&cli.StringFlag{Name: "crontab", Usage: "the crontab `PROGRAM`"},
			switchFlag("print", "only print the configuration"),
			switchFlag("no-network", "doctor leaves servers alone"),
		},
		Action: p.init,
	}
}

// initiated is what init --json prints.
type initiated struct {
	Agent   string           `json:"agent"`
	Config  string           `json:"config"`
	Created bool             `json:"created"` // false: it was there, and is kept
	Checks  []doctor.Finding `json:"checks"`
	Next    string           `json:"next"`
}

func (p *program) init(c *cli.Context) error {
	if err := arguments(c, 0, 0); err != nil {
		return err
	}
	path, err := p.initPath(c)
	if err != nil {
		return err
	}
	if c.Bool("print") {
		return p.printConfig(c, path)
	}
	result := initiated{Config: path}
	var s setup
	if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
		if s, err = p.answers(c, path); err != nil {
			return err
		}
		if result.Created, err = p.lay(s, path); err != nil {
			return err
		}
	} else if err != nil {
		return err
	} else if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return terminal.WithHint(fmt.Errorf("%s is a link to nothing", path), "remove it, or make the file that it points to")
	}
	a, err := p.loader.Load(path)
	if err != nil {
		return err
	}
	result.Agent = a.Handle
	if !c.Bool("json") {
		p.tellLaid(c, result, s)
	}
	p.install(c.Context, a)
	found := doctor.Examine(c.Context, doctor.Subject{Loader: p.loader, Path: path, Network: !c.Bool("no-network"), Proc: p.proc})
	if err := c.Context.Err(); err != nil {
		return err
	}
	result.Next = p.next(a, found)
	if c.Bool("json") {
		result.Checks = found
		return p.out.JSON(result)
	}
	doctor.Print(&p.out, found)
	p.out.Printf("\n%s\n", result.Next)
	return nil
}

// initPath is where the configuration is, or will be.
func (p *program) initPath(c *cli.Context) (string, error) {
	path, err := p.configPath(c)
	if err == nil || c.IsSet("config") {
		return path, err
	}
	// None of the places has one: the user's own folder.
	dir := p.loader.Env("XDG_CONFIG_HOME")
	if !filepath.IsAbs(dir) {
		home, err := p.loader.Home()
		if err != nil {
			return "", err
		}
		dir = filepath.Join(home, ".config")
	}
	return filepath.Join(dir, name, "agent.toml"), nil
}

// printConfig is init --print.
func (p *program) printConfig(c *cli.Context, path string) error {
	s, err := p.answers(c, path)
	if err != nil {
		return err
	}
	p.out.Printf("%s", s.text())
	return nil
}

// lay writes the secrets, then makes the folder of the agent, then the
// configuration, each in one step: what is interrupted leaves whole files, and
// no configuration that lacks one. created is false where there is a
// configuration meanwhile, which is kept.
func (p *program) lay(s setup, path string) (created bool, err error) {
	for _, secret := range s.secrets() {
		written, err := writeNew(secret.file, secret.value+"\n")
		if err == nil && !written {
			err = terminal.WithHint(fmt.Errorf("%s is there already", secret.file), "leave it out to use what is in that, or remove it")
		}
		if err != nil {
			return false, fmt.Errorf("write %s: %w", secret.what, err)
		}
	}
	if s.workdir != "" {
		if err := os.MkdirAll(s.workdir, 0o700); err != nil {
			return false, fmt.Errorf("make workdir: %w", err)
		}
	}
	created, err = writeNew(path, s.text())
	if err != nil {
		return false, fmt.Errorf("write configuration: %w", err)
	}
	return created, nil
}

// writeNew makes a file (0600) with text in one step: it is there whole and
// durable, or not at all. One that is there already stays as it is, and written
// is false. Its folder is made (0700).
func writeNew(path, text string) (written bool, err error) {
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return false, err
	}
	f, err := os.CreateTemp(dir, ".init-*")
	if err != nil {
		return false, err
	}
	defer os.Remove(f.Name())
	_, err = io.WriteString(f, text)
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return false, err
	}
	// A rename would replace what somebody has just put there.
	if err := os.Link(f.Name(), path); errors.Is(err, fs.ErrExist) {
		return false, nil
	} else if err != nil {
		return false, err
	}
	folder, err := os.Open(dir)
	if err != nil {
		return true, err
	}
	return true, errors.Join(folder.Sync(), folder.Close())
}

// tellLaid says what was written, and what not.
func (p *program) tellLaid(c *cli.Context, r initiated, s setup) {
	if r.Created {
		for _, secret := range s.secrets() {
			p.out.Printf("wrote %s (mode 0600)\n", secret.file)
		}
		p.out.Printf("wrote %s (mode 0600)\n\n", r.Config)
		return
	}
	p.out.Printf("kept %s, which is there already\n\n", r.Config)
	switch handle := c.String("handle"); {
	case handle != r.Agent && state.ValidHandle(handle):
		p.out.Warn("%s is of @%s; give @%s a file of its own: --config %s", r.Config, r.Agent, handle, filepath.Join(filepath.Dir(r.Config), handle+".toml"))
	case describes(c):
		p.out.Warn("what the flags say of the agent is not in it: edit it, or give another agent a file of its own with --config FILE")
	}
}

// describes says whether a flag was given that says what belongs into the
// configuration.
func describes(c *cli.Context) bool {
	return slices.ContainsFunc(c.LocalFlagNames(), func(flag string) bool {
		return !slices.Contains([]string{"config", "json", "no-network", "handle"}, flag)
	})
}

// install puts the crontab line there. What is in its way is told by doctor, as
// it is in the state from now on.
func (p *program) install(ctx context.Context, a *cycle.Agent) {
	if a.Schedule.Mode != cycle.ModeCrontab {
		return
	}
	if _, err := a.Install(ctx); err != nil {
		p.out.Warn("install crontab line: %v", err)
	}
}

// next is the command to run now, and what to expect of it.
func (p *program) next(a *cycle.Agent, found []doctor.Finding) string {
	again := name
	if path, err := p.loader.Find(""); err != nil || path != a.Config {
		again += " --config " + a.Config
	}
	for _, f := range found {
		if f.Level == doctor.Error && strings.HasPrefix(f.Check, "secret.") && strings.Contains(f.Hint, name+" login") {
			return fmt.Sprintf("Next: `%s login`, to get the refresh token.", again)
		}
	}
	if doctor.Count(found, doctor.Error) > 0 {
		return fmt.Sprintf("Next: mend what is an error above, then `%s doctor`.", again)
	}
	if a.Mail == nil && a.Turn == nil {
		return fmt.Sprintf("Next: `%s inbox next`, in what answers.", again)
	}
	if a.Mail == nil {
		return fmt.Sprintf("Next: `%s tell \"are you there?\"`.", again)
	}
	return fmt.Sprintf(`Next: `+"`%s poll`"+`, then mail %s with @%s in the subject.
The first poll takes those mails of yours that are unread, and from then on all
that come; older ones it leaves alone.`, again, a.Mail.Address, a.Handle)
}
