package commands

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"agentstateloop/commands/config"
	"agentstateloop/mail"
	"agentstateloop/turn"
)

// checkConfig reads the configuration and wires what can be wired of it. Each
// thing that is wrong in it is a line.
func (d *patient) checkConfig(missing error) []finding {
	const check = "config"
	if missing != nil {
		return []finding{failure(check, "run `agentstateloop init`", missing)}
	}
	var found []finding
	c, err := d.loader.Read(d.path)
	if err != nil {
		found = append(found, failure(check, "no poll runs before this is mended", err))
		if c, err = d.loader.ReadLoosely(d.path); err != nil {
			return found
		}
	}
	d.config = c
	var errs []error
	d.agent, errs = d.loader.Wire(c)
	for _, err := range errs {
		found = append(found, failure(check, "no poll runs before this is mended", err))
	}
	for _, f := range d.checkConfigFile() {
		if f.Level != levelOK || len(found) == 0 {
			found = append(found, f)
		}
	}
	return append(found, d.checkTrust()...)
}

// checkConfigFile looks at who may write the configuration: whoever can, runs
// commands as its user.
func (d *patient) checkConfigFile() []finding {
	const check = "config"
	info, err := os.Stat(d.path)
	if err != nil {
		return []finding{failure(check, "", err)}
	}
	if mode := info.Mode().Perm(); mode&0o022 != 0 {
		return []finding{finds(levelError, check, "chmod 600 "+d.path,
			"%s can be written by others (mode %04o), and names programs that you run", d.path, mode)}
	}
	dir := filepath.Dir(d.path)
	if folder, err := os.Stat(dir); err == nil && folder.Mode().Perm()&0o002 != 0 && folder.Mode()&os.ModeSticky == 0 {
		return []finding{finds(levelError, check, "chmod o-w "+dir,
			"%s can be written by others (mode %04o), who can put another configuration there, which names programs that you run", dir, folder.Mode().Perm())}
	}
	if mode := info.Mode().Perm(); mode&0o077 != 0 {
		return []finding{finds(levelInfo, check, "chmod 600 "+d.path, "%s can be read by others (mode %04o)", d.path, mode)}
	}
	return []finding{good(check, "%s, mode %04o", d.path, info.Mode().Perm())}
}

// checkTrust warns of an agent that takes mail without a proof of its sender.
func (d *patient) checkTrust() []finding {
	if d.agent == nil || !config.Unproved(d.agent) {
		return nil
	}
	return []finding{finds(levelWarn, "trust", `set require = "dmarc" in [trust]; "from" is for test beds`,
		`require = "from" checks nothing: whoever writes your address into From can run your agent`)}
}

// checkSecrets reads each secret once, as a poll would. None is printed.
func (d *patient) checkSecrets(ctx context.Context) []finding {
	if d.agent == nil {
		return unknown("secrets")
	}
	var found []finding
	var imap config.Source
	if m := d.agent.Mail; m != nil {
		// With OAuth2 the refresh token: an access token is the login's affair.
		imap = d.config.File.Mail.IMAP.Secret()
		found = append(found, d.checkSecret(ctx, "secret.imap", imap, d.loader.Secret(d.config, imap)))
		if smtp := d.config.SMTP().Secret(); !smtp.Equal(imap) {
			found = append(found, d.checkSecret(ctx, "secret.smtp", smtp, d.loader.Secret(d.config, smtp)))
		}
		if client := d.config.File.Mail.IMAP.OAuth2.Secret(); client.Ways() == 1 {
			found = append(found, d.checkSecret(ctx, "secret.client", client, d.loader.Secret(d.config, client)))
		}
	}
	if m := d.agent.Mesh; m != nil && m.Client.Token != nil {
		s := d.config.File.Mesh
		found = append(found, d.checkSecret(ctx, "secret.mesh", config.Source{File: s.TokenFile, Env: s.TokenEnv, Command: s.TokenCommand}, m.Client.Token))
	}
	if key := d.config.File.API.Secret(); d.agent.Turn != nil && d.agent.Turn.Runner == turn.API && key.Ways() == 1 {
		found = append(found, d.checkSecret(ctx, "secret.api", key, d.loader.Secret(d.config, key)))
	}
	return found
}

// place says where a secret is looked for.
func (d *patient) place(s config.Source) string {
	switch {
	case s.File != "":
		return d.config.Resolve(s.File)
	case s.Env != "":
		return "$" + s.Env
	case len(s.Command) > 0:
		return "what " + s.Command[0] + " prints"
	}
	return "what the configuration says"
}

func (d *patient) checkSecret(ctx context.Context, check string, s config.Source, read func(context.Context) (string, error)) finding {
	if len(s.Command) > 0 && !strings.Contains(s.Command[0], "/") && inPath(s.Command[0], d.jobPath) == "" {
		return finds(levelError, check, "name the program with its whole path", "%s is not in the PATH that cron gives a job, %s", s.Command[0], d.jobPath)
	}
	_, err := read(ctx)
	if err == nil {
		return good(check, "found in %s", d.place(s))
	}
	hint := "the next poll reads it anew"
	switch {
	case s.Env != "":
		hint = "cron passes nothing of your shell on: use a file or a command instead"
	case s.File != "" && s.Login && errors.Is(err, os.ErrNotExist):
		hint = fmt.Sprintf("%s login", name)
	case s.File != "" && errors.Is(err, os.ErrNotExist):
		hint = fmt.Sprintf("(umask 077 && cat > %s), paste it, press Enter and Ctrl-D", d.config.Resolve(s.File))
	case s.File != "":
		hint = "it must be a file of yours with mode 0600, and one line in it"
	}
	return failure(check, hint, err)
}

// broken is the finding for a section of the configuration that is there and
// could not be wired; nil where it is simply not there.
func (d *patient) broken(check, section string) []finding {
	if d.config == nil || d.agent == nil {
		return unknown(check)
	}
	if d.config.Has(section) {
		return skipped(check, "["+section+"] is not right, see config", "")
	}
	return skipped(check, "no ["+section+"] is configured", "")
}

// executableIn gives the path of a program that lies in a folder and can be
// run; "" where there is none.
func executableIn(dir, program string) string {
	file := filepath.Join(dir, program)
	info, err := os.Stat(file)
	if !filepath.IsAbs(file) || err != nil || info.IsDir() || info.Mode()&0o111 == 0 {
		return ""
	}
	return file
}

// provesBySignature says that the agent's mail is proved by its DKIM signature.
func provesBySignature(f mail.Filter) bool {
	return f.Require == mail.RequireDMARC && f.Verify == mail.VerifyDKIM
}
