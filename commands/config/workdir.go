package config

import (
	"cmp"
	"maps"
	"path/filepath"
	"slices"
	"strings"
)

// checkWorkdir rejects a workdir that contains one of the agent's own files: the configuration,
// secrets, state, prompt templates and programs. The model's file tools, and an agent in a sandbox,
// can read and write everything in workdir.
func (c *Config) checkWorkdir(reason string) error {
	const hint = `use a folder such as "~/agents/goulard" that contains only the files the agent works on`
	if c.File.Turn.Workdir == "" {
		return c.At(dotted("turn.workdir"), hint, "is missing, but %s requires it", reason)
	}
	if kept := c.holdsOwn(c.Resolve(c.File.Turn.Workdir)); kept != "" {
		return c.At(dotted("turn.workdir"), hint, "contains %s, which the agent could read and write", kept)
	}
	if program := c.holdsServer(c.Resolve(c.File.Turn.Workdir)); program != "" {
		return c.At(dotted("turn.workdir"), hint, "contains %s, which the agent could read and write", program)
	}
	return nil
}

// holdsOwn returns one of the agent's own files that is dir or inside dir, or "".
func (c *Config) holdsOwn(dir string) string {
	mail, mesh := c.File.Mail, c.File.Mesh
	own := append(c.ownPrograms(), c.serverSecrets()...)
	for _, f := range c.File.Turn.Fallback {
		own = append(own, f.KeyFile)
	}
	for _, h := range c.File.Hooks {
		own = append(own, h.TokenFile, h.SecretFile)
	}
	for _, kept := range append([]string{
		c.Path, cmp.Or(c.File.Agent.StateDir, c.stateFolder()), c.File.API.KeyFile, mesh.TokenFile, mesh.KeyFile, mail.IMAP.PasswordFile, mail.SMTP.PasswordFile,
		mail.IMAP.OAuth2.ClientSecretFile, mail.IMAP.OAuth2.RefreshTokenFile, c.File.Turn.Prompts,
	}, own...) {
		if kept != "" && below(dir, c.Resolve(kept)) {
			return c.Resolve(kept)
		}
	}
	return ""
}

// ownPrograms returns the paths of programs and schemas in the configuration. It omits programs
// that the system looks up in PATH.
func (c *Config) ownPrograms() []string {
	mail, mesh := c.File.Mail, c.File.Mesh
	commands := [][]string{
		c.File.API.KeyCommand, mesh.TokenCommand, mesh.KeyCommand, mail.IMAP.PasswordCommand, mail.SMTP.PasswordCommand,
		mail.IMAP.TokenCommand, mail.SMTP.TokenCommand, mail.IMAP.OAuth2.ClientSecretCommand,
		c.File.Turn.Summary, {c.File.Schedule.Crontab},
	}
	for _, f := range c.File.Turn.Fallback {
		commands = append(commands, f.KeyCommand)
	}
	var paths []string
	for _, name := range slices.Sorted(maps.Keys(c.File.Tools)) {
		commands = append(commands, c.File.Tools[name].Command)
		paths = append(paths, c.File.Tools[name].Schema)
	}
	for _, h := range c.File.Hooks {
		commands = append(commands, h.Command, h.TokenCommand, h.SecretCommand)
	}
	for _, command := range commands {
		if len(command) > 0 && strings.Contains(command[0], "/") {
			paths = append(paths, command[0])
		}
	}
	return paths
}

// below reports whether path is dir or inside dir. It follows symbolic links.
func below(dir, path string) bool {
	for _, p := range []*string{&dir, &path} {
		if real, err := filepath.EvalSymlinks(*p); err == nil {
			*p = real
		}
	}
	rel, err := filepath.Rel(dir, path)
	return err == nil && filepath.IsLocal(rel)
}
