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

// secretsCheck reads each secret once, as a poll would. It never prints a secret.
type secretsCheck struct {
	loader *config.Loader
	config *config.Config
	agent  *cycle.Agent
	path   string // PATH of a cron job
}

func (c secretsCheck) run(ctx context.Context) []Finding {
	var found []Finding
	check := func(name string, s config.Source) {
		found = append(found, c.finding(ctx, name, s))
	}
	file := c.config.File
	if c.agent.Mail != nil {
		// With OAuth2 this is the refresh token.
		imap := file.Mail.IMAP.Secret()
		check("secret.imap", imap)
		if smtp := c.config.SMTP().Secret(); !smtp.Equal(imap) {
			check("secret.smtp", smtp)
		}
		if client := file.Mail.IMAP.OAuth2.Secret(); client.CountSet() == 1 {
			check("secret.client", client)
		}
	}
	if m := c.agent.Mesh; m != nil && file.Mesh.Secret().CountSet() == 1 {
		check("secret.mesh", file.Mesh.Secret())
		if file.Mesh.OverNATS() {
			found[len(found)-1] = c.meshKey(ctx, found[len(found)-1])
		}
	}
	if key := file.API.Secret(); c.agent.Turn != nil && c.agent.Turn.Runner == turn.API && key.CountSet() == 1 {
		check("secret.api", key)
	}
	for i, f := range file.Turn.Fallback {
		if key := c.config.Fallback(i + 1).File.API.Secret(); f.Runner == turn.API && key.CountSet() == 1 {
			check(fmt.Sprintf("secret.fallback.%d", i+1), key)
		}
	}
	return found
}

func (c secretsCheck) finding(ctx context.Context, name string, s config.Source) Finding {
	if len(s.Command) > 0 && !strings.Contains(s.Command[0], "/") && config.InPath(s.Command[0], c.path) == "" {
		return bad(Error, name, "use the program's full path", "%s is not in the PATH of cron jobs (%s)", s.Command[0], c.path)
	}
	_, err := c.loader.Secret(c.config, s)(ctx)
	if err == nil {
		return good(name, "read from %s", c.place(s))
	}
	hint := "fix it; the next poll reads it again"
	switch {
	case s.Env != "":
		hint = "use a file or a command instead, or set the variable in the crontab"
	case s.File != "" && s.Login && errors.Is(err, os.ErrNotExist):
		hint = fmt.Sprintf("run `%s login`", terminal.Program)
	case s.File != "" && errors.Is(err, os.ErrNotExist):
		hint = fmt.Sprintf("run `(umask 077 && cat > %s)`, paste the secret, then press Enter and Ctrl-D", c.config.Resolve(s.File))
	case s.File != "":
		hint = "it must be a file of yours, with mode 0600 and one line of text"
	}
	if s.File == "" {
		return failure(name, hint, err)
	}
	return failure(name, hint, err).fixedBy(makePrivate(c.config.Resolve(s.File)))
}

// place returns where a secret was found, for display.
func (c secretsCheck) place(s config.Source) string {
	switch {
	case s.File != "":
		return c.config.Resolve(s.File)
	case s.Env != "":
		return "$" + s.Env
	}
	return "the output of " + s.Command[0]
}
