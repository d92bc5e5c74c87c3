package doctor

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"agentstateloop/commands/config"
	"agentstateloop/commands/terminal"
	"agentstateloop/cycle"
	"agentstateloop/turn"
)

// configHint is for an error in the configuration that has no hint.
const configHint = "no poll runs until this is fixed"

// readConfig reads the configuration and wires what can be wired. Everything
// that is wrong in it is a finding.
func (e *examination) readConfig() []Finding {
	const name = "config"
	if e.Missing != nil {
		return []Finding{failure(name, "run `agentstateloop init`", e.Missing)}
	}
	var found []Finding
	c, err := e.Loader.Read(e.Path)
	if err != nil {
		found = append(found, failure(name, configHint, err))
		if c, err = e.Loader.ReadLoosely(e.Path); err != nil {
			return found
		}
	}
	e.config = c
	var wrong []error
	e.agent, wrong = e.Loader.Wire(c)
	for _, err := range wrong {
		found = append(found, failure(name, configHint, err))
	}
	if f := checkConfigFile(e.Path); f.Level != OK || len(found) == 0 {
		found = append(found, f)
	}
	if e.agent != nil && config.Unproved(e.agent) {
		found = append(found, bad(Warn, "trust", `set require = "dmarc" in [trust]; "from" is for test beds`,
			`require = "from" checks nothing: anyone who writes your address into From can run your agent`))
	}
	return found
}

// checkConfigFile looks at who may write the configuration: they can run
// commands as its user.
func checkConfigFile(path string) Finding {
	const name = "config"
	info, err := os.Stat(path)
	if err != nil {
		return failure(name, "", err)
	}
	mode := info.Mode().Perm()
	if mode&0o022 != 0 {
		return bad(Error, name, "chmod 600 "+path, "%s can be written by others (mode %04o), and names programs that you run", path, mode)
	}
	dir := filepath.Dir(path)
	if folder, err := os.Stat(dir); err == nil && folder.Mode().Perm()&0o002 != 0 && folder.Mode()&os.ModeSticky == 0 {
		return bad(Error, name, "chmod o-w "+dir,
			"%s can be written by others (mode %04o), who can put another configuration there, which names programs that you run", dir, folder.Mode().Perm())
	}
	if mode&0o077 != 0 {
		return bad(Info, name, "chmod 600 "+path, "%s can be read by others (mode %04o)", path, mode)
	}
	return good(name, "%s, mode %04o", path, mode)
}

// secretsCheck reads each secret once, as a poll would. It prints none.
type secretsCheck struct {
	job    *config.Loader
	config *config.Config
	agent  *cycle.Agent
	path   string // PATH of a job
}

func (c secretsCheck) run(ctx context.Context) []Finding {
	var found []Finding
	look := func(name string, s config.Source) {
		found = append(found, c.look(ctx, name, s))
	}
	file := c.config.File
	if c.agent.Mail != nil {
		// With OAuth2 this is the refresh token: the login gets access tokens itself.
		imap := file.Mail.IMAP.Secret()
		look("secret.imap", imap)
		if smtp := c.config.SMTP().Secret(); !smtp.Equal(imap) {
			look("secret.smtp", smtp)
		}
		if client := file.Mail.IMAP.OAuth2.Secret(); client.Ways() == 1 {
			look("secret.client", client)
		}
	}
	if m := c.agent.Mesh; m != nil && m.Client.Token != nil {
		look("secret.mesh", file.Mesh.Secret())
	}
	if key := file.API.Secret(); c.agent.Turn != nil && c.agent.Turn.Runner == turn.API && key.Ways() == 1 {
		look("secret.api", key)
	}
	return found
}

func (c secretsCheck) look(ctx context.Context, name string, s config.Source) Finding {
	if len(s.Command) > 0 && !strings.Contains(s.Command[0], "/") && config.InPath(s.Command[0], c.path) == "" {
		return bad(Error, name, "name the program with its whole path", "%s is not in the PATH that cron gives a job, %s", s.Command[0], c.path)
	}
	_, err := c.job.Secret(c.config, s)(ctx)
	if err == nil {
		return good(name, "found in %s", c.place(s))
	}
	hint := "the next poll reads it again"
	switch {
	case s.Env != "":
		hint = "cron does not pass on your shell's variables: use a file or a command instead"
	case s.File != "" && s.Login && errors.Is(err, os.ErrNotExist):
		hint = fmt.Sprintf("%s login", terminal.Program)
	case s.File != "" && errors.Is(err, os.ErrNotExist):
		hint = fmt.Sprintf("(umask 077 && cat > %s), paste it, press Enter and Ctrl-D", c.config.Resolve(s.File))
	case s.File != "":
		hint = "it must be a file of yours with mode 0600, and one line in it"
	}
	return failure(name, hint, err)
}

// place says where a secret was found.
func (c secretsCheck) place(s config.Source) string {
	switch {
	case s.File != "":
		return c.config.Resolve(s.File)
	case s.Env != "":
		return "$" + s.Env
	}
	return "what " + s.Command[0] + " prints"
}
