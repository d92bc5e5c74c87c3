package config

import (
	"cmp"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"agentstateloop/commands/terminal"
)

// checkWorkdir keeps the file tools away from what a model must not read, let
// alone write. They reach all of workdir. So it must not hold this configuration,
// the secrets, the state, the prompt templates, or programs that run unconfined.
func (c *Config) checkWorkdir() error {
	const hint = `such as "~/agents/goulard", which holds only what the agent is to work on`
	if c.File.Turn.Workdir == "" {
		return c.At([]string{"turn", "workdir"}, hint, `is missing: with runner = "api" the agent needs a folder of its own`)
	}
	workdir := c.Resolve(c.File.Turn.Workdir)
	stateDir := cmp.Or(c.File.Agent.StateDir, filepath.Join("~", ".local", "state", terminal.Program))
	mail, mesh := c.File.Mail, c.File.Mesh
	for _, kept := range append([]string{
		c.Path, stateDir, c.File.API.KeyFile, mesh.TokenFile, mail.IMAP.PasswordFile, mail.SMTP.PasswordFile,
		mail.IMAP.OAuth2.ClientSecretFile, mail.IMAP.OAuth2.RefreshTokenFile, c.File.Turn.Prompts,
	}, c.ownPrograms()...) {
		if kept != "" && below(workdir, c.Resolve(kept)) {
			return c.At([]string{"turn", "workdir"}, hint, "holds %s, which the agent's tools could then read and write", c.Resolve(kept))
		}
	}
	return nil
}

// ownPrograms returns the programs and schemas that the configuration names by
// their path.
func (c *Config) ownPrograms() []string {
	mail, mesh := c.File.Mail, c.File.Mesh
	commands := [][]string{
		c.File.API.KeyCommand, mesh.TokenCommand, mail.IMAP.PasswordCommand, mail.SMTP.PasswordCommand,
		mail.IMAP.TokenCommand, mail.SMTP.TokenCommand, mail.IMAP.OAuth2.ClientSecretCommand,
		c.File.Turn.Summary, {c.File.Schedule.Crontab},
	}
	var paths []string
	for _, name := range slices.Sorted(maps.Keys(c.File.Tools)) {
		commands = append(commands, c.File.Tools[name].Command)
		paths = append(paths, c.File.Tools[name].Schema)
	}
	for _, command := range commands {
		if len(command) > 0 && strings.Contains(command[0], "/") {
			paths = append(paths, command[0])
		}
	}
	return paths
}

// below reports whether path is dir or lies in it, after symbolic links.
func below(dir, path string) bool {
	for _, p := range []*string{&dir, &path} {
		if real, err := filepath.EvalSymlinks(*p); err == nil {
			*p = real
		}
	}
	rel, err := filepath.Rel(dir, path)
	return err == nil && filepath.IsLocal(rel)
}
