package commands

import (
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"filippo.io/age"
	"github.com/urfave/cli/v2"

	"agentstateloop/commands/backup"
	"agentstateloop/commands/config"
	"agentstateloop/commands/doctor"
	"agentstateloop/commands/terminal"
	"agentstateloop/cycle"
	"agentstateloop/cycle/archive"
	"agentstateloop/state/store"
)

// restoreOptions are the flags of restore.
type restoreOptions struct {
	identity, passphraseFile, stateDir string
	noStart, noNetwork                 bool
}

func restoreCommand(p *program) *cli.Command {
	var o restoreOptions
	return &cli.Command{
		Name:      "restore",
		Usage:     "bring an agent back from a backup",
		ArgsUsage: "FILE|-",
		Description: `Puts the files of an archive of backup or move in their places, marks the
state as restored, installs the crontab line or the timer, and runs the checks
of doctor. Files below the old home directory go below yours. It replaces no
file: first remove an agent that is there. If anything is wrong, it changes
nothing.

An archive of backup is older than the mailbox. No mail is answered twice: the
agent compares the mailbox with its state, runs new mail, and mails you a list
of what may have run already.

An agent on several hosts is not restored while another host or the servers have
its state: run init instead. If both are lost, use --no-start, then fleet join.

Secrets need --identity or the passphrase. Without them, everything else is
restored, and the missing secrets are named.

Examples:
  agentstateloop restore goulard.tar.gz
  agentstateloop restore goulard.tar.gz --identity key.txt --no-start`,
		Flags: []cli.Flag{
			textFlag(&o.identity, "identity", "`FILE`: private key of age, for the secrets"),
			textFlag(&o.passphraseFile, "passphrase-file", "`FILE`: file (0600) with the passphrase"),
			textFlag(&o.stateDir, "state-dir", "`DIR`: another folder for the agent's state"),
			switchFlag(&o.noStart, "no-start", "install no crontab line or timer, run no checks"),
			switchFlag(&o.noNetwork, "no-network", "skip the checks that contact a server"),
		},
		Action: p.action(1, 1, o.run),
	}
}

// restoreOutput is the JSON output of restore.
type restoreOutput struct {
	Agent    string           `json:"agent"`
	Config   string           `json:"config"`
	StateDir string           `json:"state_dir"`
	Made     time.Time        `json:"made"`
	Host     string           `json:"host"`
	Final    bool             `json:"final"`
	Started  bool             `json:"started"`
	Missing  []missingSecret  `json:"missing_secrets"`
	LeftOut  []string         `json:"left_out"`
	Paths    []string         `json:"missing_paths"`
	Checks   []doctor.Finding `json:"checks"`
	Next     string           `json:"next"`
}

// missingSecret is a secret that the archive lacked, or could not give.
type missingSecret struct {
	Key    string  `json:"key"`
	File   *string `json:"file"`
	Remedy string  `json:"remedy"`
}

func (o *restoreOptions) run(c *call) error {
	if c.given(&c.global.agent) != "" {
		return terminal.Usagef("the archive names the agent", "restore takes no -a HANDLE")
	}
	if given := c.given(&c.global.config); given != "" && c.global.config == "" {
		return terminal.Usagef("", "--config needs a file")
	}
	identities, err := o.identities(c)
	if err != nil {
		return err
	}
	r := backup.Restore{Loader: c.loader, Identities: identities, Config: c.global.config, StateDir: o.stateDir, Fleet: o.noStart}
	if r.Config, err = absOrEmpty(r.Config); err != nil {
		return err
	}
	if r.StateDir, err = absOrEmpty(r.StateDir); err != nil {
		return err
	}
	if asker := terminal.NewAsker(c.stdin, &c.out, c.loader.Secrets); asker.CanAsk() {
		r.Ask = func() (age.Identity, error) { return askIdentity(c, asker) }
	}
	done, err := r.File(c.ctx, c.arg(0), c.stdin)
	if err != nil {
		return err
	}
	result := restoreOutput{
		Agent: done.Manifest.Handle, Config: done.Config, StateDir: done.StateDir, Made: done.Manifest.Made, Host: done.Manifest.Host,
		Final: done.Manifest.Final, Missing: []missingSecret{}, LeftOut: orEmpty(done.Manifest.LeftOut), Paths: orEmpty(done.Paths),
		Checks: []doctor.Finding{},
	}
	for _, s := range done.Missing {
		result.Missing = append(result.Missing, missingSecret{s.Key, orNull(s.Name), remedyFor(s, done.Config)})
	}
	if !c.json {
		c.printRestored(result, done)
	}
	if err := o.start(c, &result); err != nil {
		return err
	}
	if c.json {
		return c.out.JSON(result)
	}
	if err := doctor.Print(&c.out, result.Checks, doctor.Remarkable); err != nil {
		return err
	}
	c.out.Printf("\n%s\n", result.Next)
	return nil
}

func absOrEmpty(path string) (string, error) {
	if path == "" {
		return "", nil
	}
	return filepath.Abs(path)
}

// askIdentity asks for the passphrase of the secrets. It returns nil for an empty answer.
func askIdentity(c *call, asker *terminal.Asker) (age.Identity, error) {
	text, err := asker.Secret(c.ctx, "the passphrase of the secrets (not shown; leave empty to restore without them): ")
	if err != nil {
		return nil, interruptedHere()
	}
	if text == "" {
		return nil, nil
	}
	return age.NewScryptIdentity(text)
}

// identities returns the keys for the secrets that the command line names.
func (o *restoreOptions) identities(c *call) ([]age.Identity, error) {
	switch {
	case o.identity != "" && o.passphraseFile != "":
		return nil, terminal.Usagef("use only one of them", "--identity and --passphrase-file both decrypt the secrets")
	case o.identity != "":
		return readIdentity(o.identity)
	case o.passphraseFile == "":
		return nil, nil
	}
	passphrase, err := readPassphrase(c, o.passphraseFile)
	if err != nil {
		return nil, err
	}
	identity, err := age.NewScryptIdentity(passphrase)
	return []age.Identity{identity}, err
}

// remedyFor says how to get a secret that is missing. Name is the path of its file.
func remedyFor(s archive.Secret, configFile string) string {
	switch {
	case s.Key == store.IDKeyFile:
		return "nothing: the next poll makes a new key; answers to mails from before the restore need the callsign in the subject"
	case s.Name == "":
		return "set it in " + configFile
	case strings.HasSuffix(s.Key, ".refresh_token_file"):
		return fmt.Sprintf("run `%s login`", name)
	case s.Key == "mesh.key_file":
		return fmt.Sprintf("copy the key to %s (mode 0600), or create another with `%s fleet key`", s.Name, name)
	}
	return fmt.Sprintf("write it to %s (mode 0600)", s.Name)
}

// printRestored prints what was restored, and what is missing.
func (c *call) printRestored(r restoreOutput, done backup.Restored) {
	c.out.Printf("restored @%s, as it was on %s at %s\n", r.Agent, r.Host, terminal.Clock(r.Made, c.now()))
	c.out.Printf("  configuration  %s\n  state          %s\n", r.Config, r.StateDir)
	if done.Moved > 0 {
		c.out.Printf("changed %d paths in agent.toml from %s to this home directory\n", done.Moved, done.Manifest.Home)
	}
	if len(r.Missing) > 0 {
		c.out.Printf("\nThese secrets are missing:\n")
		for _, s := range r.Missing {
			c.out.Printf("  %s: %s\n", s.Key, s.Remedy)
		}
	}
	for _, file := range r.LeftOut {
		c.out.Warn("the archive does not have %s", file)
	}
	for _, path := range r.Paths {
		c.out.Warn("agent.toml names %s, which does not exist here", path)
	}
}

// start installs the crontab line and runs the checks, as init does.
func (o *restoreOptions) start(c *call, r *restoreOutput) error {
	again := c.programFor(r.Config) + " init"
	if o.noStart {
		r.Next = fmt.Sprintf("Next: `%s` installs the crontab line, and starts the agent.", again)
		return nil
	}
	a, err := c.loader.Load(r.Config)
	if err != nil {
		if !is[*config.Error](err) {
			return err
		}
		c.out.Warn("not started: %v", err)
		r.Next = fmt.Sprintf("Next: set the missing values, then `%s`, which installs the crontab line.", again)
		return nil
	}
	c.loaded = append(c.loaded, a)
	r.Started = install(c, a)
	r.Checks = doctor.Examine(c.ctx, doctor.Subject{Loader: c.loader, Path: r.Config, Network: !o.noNetwork, Proc: c.proc})
	if err := c.ctx.Err(); err != nil {
		return err
	}
	r.Next = afterRestore(c, a, r)
	return nil
}

// afterRestore says what happens next.
func afterRestore(c *call, a *cycle.Agent, r *restoreOutput) string {
	first := ""
	if doctor.Count(r.Checks, doctor.Error) > 0 {
		first = nextStep(c, a, r.Checks) + "\n"
	}
	when := "The next poll"
	if !installs(a) {
		when = fmt.Sprintf("Start its polls as before. The first poll (`%s poll`)", name)
	}
	if r.Final {
		return first + when + " continues where the agent stopped."
	}
	return first + when + " compares the mailbox with the state, and new mail runs. A mail lists\nwhat may have run already; `" + name + " inbox list` and `" + name + " outbox list` show it too."
}
