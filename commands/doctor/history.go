package doctor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"time"

	"agentstateloop/commands/config"
	"agentstateloop/commands/terminal"
	"agentstateloop/cycle"
	"agentstateloop/state/store"
	"agentstateloop/turn"
)

// maxBreaks limits the number of reported breaks.
const maxBreaks = 5

// historyCheck verifies the chain of the history. It reads the whole history.
type historyCheck struct{ store *store.Store }

func (c historyCheck) run(context.Context) []Finding {
	const name = "history"
	a, err := c.store.Audit()
	if err != nil {
		return []Finding{failure(name, "see docs/files.md", err)}
	}
	return auditFindings(a)
}

// auditFindings returns the findings of an audit.
func auditFindings(a store.Audit) []Finding {
	const name = "history"
	switch {
	case len(a.Breaks) == 0 && a.Lines == 0:
		return []Finding{bad(Info, name, "", "its hash chain starts with the next line")}
	case len(a.Breaks) == 0:
		return []Finding{good(name, "%s, unchanged since the chain started; head %v", terminal.Count(a.Lines, "line"), a.Head)}
	}
	var found []Finding
	for _, b := range a.Breaks[:min(len(a.Breaks), maxBreaks)] {
		found = append(found, bad(Error, name, "unless you edited it yourself, do not trust the agent's actions after the last mail that `agentstateloop history --verify MAIL` accepts", "%v", b))
	}
	if more := len(a.Breaks) - len(found); more > 0 {
		found = append(found, bad(Error, name, "", "%s more", terminal.Count(more, "place")))
	}
	return found
}

// lossMatters is how long doctor reports that the key of our Message-IDs was replaced. After that
// the operator's mails answer newer ones.
const lossMatters = 14 * 24 * time.Hour

// checkIDKey checks the key of our Message-IDs. It shows no part of the key.
func (c stateDirCheck) checkIDKey() []Finding {
	const name = "state"
	path := c.store.Path(store.IDKeyFile)
	answers := fmt.Sprintf("replies to earlier mails need @%s in the subject, or the agent's address in To", c.handle)
	key, err := c.store.ReadIDKey()
	switch {
	case errors.Is(err, fs.ErrNotExist) && (c.err != nil || !c.state.IDsKeyed):
		return nil // the next poll creates the first key
	case errors.Is(err, fs.ErrNotExist):
		return []Finding{bad(Warn, name, "restore it from a backup before the next poll, which otherwise creates a new one; then "+answers, "%s is missing", path)}
	case err != nil:
		return []Finding{bad(Warn, name, "restore it from a backup before the next poll, which otherwise sets it aside; then "+answers, "%v", err)}
	}
	var found []Finding
	if info, err := os.Stat(path); err == nil && info.Mode().Perm()&0o077 != 0 {
		found = append(found, bad(Warn, name, "chmod 600 "+path, "%s has mode %04o, but it contains a secret", path, info.Mode().Perm()).fixedBy(makePrivate(path)))
	}
	lost := key.Cause == store.KeyLost || key.Cause == store.KeyDamaged
	if lost && c.now().Sub(key.Made) < lossMatters {
		found = append(found, bad(Info, name, "", "%s was %s, and a new one was created on %s: %s",
			store.IDKeyFile, key.Cause, key.Made.Local().Format(time.DateOnly), answers))
	}
	return found
}

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
