package commands

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

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
	home, err := d.home()
	if err != nil {
		return []finding{failure(check, "", err)}
	}
	self, err := d.executable()
	if err != nil {
		return []finding{failure(check, "", fmt.Errorf("find this program: %w", err))}
	}
	var found []finding
	c, err := readConfig(d.path, home)
	if err != nil {
		found = append(found, failure(check, "no poll runs before this is mended", err))
		if c, err = readLoosely(d.path, home); err != nil {
			return found
		}
	}
	d.config = c
	var errs []error
	d.agent, errs = d.wireParts(c, self)
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
	if d.agent == nil || !unproved(d.agent) {
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
	var imap secretSource
	if m := d.agent.Mail; m != nil {
		// With OAuth2 the refresh token: an access token is the login's affair.
		imap = d.config.file.Mail.IMAP.secret()
		found = append(found, d.checkSecret(ctx, "secret.imap", imap, d.secret(d.config, imap)))
		if smtp := d.config.smtp().secret(); !smtp.same(imap) {
			found = append(found, d.checkSecret(ctx, "secret.smtp", smtp, d.secret(d.config, smtp)))
		}
		if client := d.config.file.Mail.IMAP.OAuth2.secret(); client.ways() == 1 {
			found = append(found, d.checkSecret(ctx, "secret.client", client, d.secret(d.config, client)))
		}
	}
	if m := d.agent.Mesh; m != nil && m.Client.Token != nil {
		s := d.config.file.Mesh
		found = append(found, d.checkSecret(ctx, "secret.mesh", secretSource{file: s.TokenFile, env: s.TokenEnv, command: s.TokenCommand}, m.Client.Token))
	}
	if key := d.config.file.API.key(); d.agent.Turn != nil && d.agent.Turn.Runner == turn.API && key.ways() == 1 {
		found = append(found, d.checkSecret(ctx, "secret.api", key, d.secret(d.config, key)))
	}
	return found
}

func (s secretSource) same(t secretSource) bool {
	return s.file == t.file && s.env == t.env && slices.Equal(s.command, t.command)
}

// place says where a secret is looked for.
func (d *patient) place(s secretSource) string {
	switch {
	case s.file != "":
		return d.config.resolve(s.file)
	case s.env != "":
		return "$" + s.env
	case len(s.command) > 0:
		return "what " + s.command[0] + " prints"
	}
	return "what the configuration says"
}

func (d *patient) checkSecret(ctx context.Context, check string, s secretSource, read func(context.Context) (string, error)) finding {
	if len(s.command) > 0 && !strings.Contains(s.command[0], "/") && inPath(s.command[0], d.jobPath) == "" {
		return finds(levelError, check, "name the program with its whole path", "%s is not in the PATH that cron gives a job, %s", s.command[0], d.jobPath)
	}
	_, err := read(ctx)
	if err == nil {
		return good(check, "found in %s", d.place(s))
	}
	hint := "the next poll reads it anew"
	switch {
	case s.env != "":
		hint = "cron passes nothing of your shell on: use a file or a command instead"
	case s.file != "" && s.login && errors.Is(err, os.ErrNotExist):
		hint = fmt.Sprintf("%s login", name)
	case s.file != "" && errors.Is(err, os.ErrNotExist):
		hint = fmt.Sprintf("(umask 077 && cat > %s), paste it, press Enter and Ctrl-D", d.config.resolve(s.file))
	case s.file != "":
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
	if d.config.has(section) {
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
