package setup

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"

	"agentstateloop/commands/config"
	"agentstateloop/commands/terminal"
	"agentstateloop/cycle"
)

// PasswordFile returns the path of the file for the mailbox's password, which need not exist yet.
// If the login uses another source, the error explains that.
func PasswordFile(c *config.Config) (string, error) {
	switch secret := c.File.Mail.IMAP.Secret(); {
	case !c.Has("mail"):
		return "", terminal.Usagef("this agent answers no mail", "%s has no [mail], so it has no password", c.Path)
	case secret.Login:
		return "", terminal.Usagef("run `"+terminal.Program+" login`", "the mailbox has no password: it uses a refresh token (OAuth2)")
	case len(secret.Command) > 0:
		return "", terminal.Usagef("change it where that command reads it, or set password_file in [mail.imap]", "the password comes from %s, not from a file", secret.Command[0])
	case secret.Env != "":
		return "", terminal.Usagef("change the variable (for polls, in the crontab), or set password_file in [mail.imap]", "the password comes from the environment variable %s, not from a file", secret.Env)
	default:
		return c.Resolve(secret.File), nil
	}
}

// NewPassword asks for a new password for the mailbox of a, tries it, and only then replaces the
// file of the old password, in one step. It returns the path of that file, or "" if the user
// entered no password. With fromStdin it reads the password from standard input.
func (s Setup) NewPassword(ctx context.Context, c *config.Config, a *cycle.Agent, fromStdin bool) (string, error) {
	file, err := PasswordFile(c)
	if err != nil {
		return "", err
	}
	if err := checkReplaceable(file); err != nil {
		return "", err
	}
	for {
		password, err := s.readNewPassword(ctx, file, a.Mail.Mailbox.Username, fromStdin)
		if password == "" || err != nil {
			return "", err
		}
		err = s.tryPassword(ctx, c, a, password)
		switch {
		case ctx.Err() != nil:
			return "", terminal.WithHint(errors.New("interrupted: the old password was kept"), "run init again")
		case err != nil && !s.Asker.CanAsk():
			return "", terminal.WithHint(fmt.Errorf("%w: the old password was kept", err), terminal.HintOf(err)+"; --no-network skips the test")
		case err != nil:
			if kept, err := s.Asker.Keep(ctx, err, "replace the old password anyway?"); err != nil {
				return "", err
			} else if !kept {
				continue
			}
		}
		return file, s.keepPassword(ctx, file, password)
	}
}

// keepPassword writes the password to its file.
func (s Setup) keepPassword(ctx context.Context, file, password string) error {
	if _, err := os.Stat(file); !errors.Is(err, fs.ErrNotExist) {
		return replace(file, password+"\n")
	}
	var made createdPaths
	_, err := made.file(ctx, file, password+"\n")
	return err
}

// readNewPassword reads the password. It returns "" for an empty line.
func (s Setup) readNewPassword(ctx context.Context, file, username string, fromStdin bool) (string, error) {
	switch {
	case fromStdin:
		text, err := s.stdinSecret()
		if err != nil {
			return "", terminal.Usagef("", "--password-stdin: %v", err)
		}
		s.Loader.Secrets.Learn(file, text)
		return text, nil
	case !s.Asker.CanAsk():
		return "", terminal.Usagef("see agentstateloop init --help", "--password-stdin is required without a terminal")
	}
	return s.askSecret(ctx, file, fmt.Sprintf("the new password for %s (not shown; leave empty to keep the old one): ", username))
}

// tryPassword logs in with the password wherever the file is used: to the mailbox, and to the SMTP
// server unless that has its own secret.
func (s Setup) tryPassword(ctx context.Context, c *config.Config, a *cycle.Agent, password string) error {
	if !s.Network {
		return nil
	}
	secret := func(context.Context) (string, error) { return password, nil }
	imap := a.Mail.Mailbox.Server
	imap.Timeout = 2 * trialTime
	if err := s.tryMailbox(ctx, imap, secret); err != nil {
		return explainLogin(err, imap.Addr, imapPorts, "")
	}
	if !c.SMTP().Secret().Equal(c.File.Mail.IMAP.Secret()) {
		return nil
	}
	smtp := a.Mail.SMTP
	smtp.Timeout = 2 * trialTime
	if err := s.trySender(ctx, smtp, secret); err != nil {
		return explainLogin(err, smtp.Addr, smtpPorts, "")
	}
	return nil
}

// checkReplaceable returns an error unless a password file may be replaced: it is missing, or a
// regular file of ours. If root replaced it, root would own the new file, and the agent could not
// read it.
func checkReplaceable(file string) error {
	info, err := os.Stat(file)
	if errors.Is(err, fs.ErrNotExist) {
		if _, err := os.Lstat(file); err == nil {
			return terminal.WithHint(fmt.Errorf("%s is a link to a file that does not exist", file), "remove it, or create the file that it points to")
		}
		return nil
	}
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() {
		return fmt.Errorf("%s is not a regular file", file)
	}
	if sys, ok := info.Sys().(*syscall.Stat_t); ok && int(sys.Uid) != os.Geteuid() {
		return terminal.WithHint(fmt.Errorf("%s belongs to user %d, not to you", file, sys.Uid), "run init as the agent's user")
	}
	return nil
}
