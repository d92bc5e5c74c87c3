package doctor

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"agentstateloop/commands/config"
	"agentstateloop/commands/terminal"
	"agentstateloop/cycle"
	"agentstateloop/turn"
)

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
