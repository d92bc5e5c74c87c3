package setup

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"agentstateloop/commands/config"
)

// login describes how the agent logs in to its mailbox, in [mail.imap].
type login struct {
	passwordFile    string
	password        string // to be written to passwordFile; may be empty
	stored          bool   // passwordFile exists and is used unchanged
	passwordCommand []string

	// With OAuth2:
	provider, clientID, clientSecretFile, refreshTokenFile string
}

func (l login) write(d *document) {
	switch {
	case l.clientID != "":
		d.line("auth", "xoauth2", "")
	case len(l.passwordCommand) > 0:
		d.line("password_command", l.passwordCommand, "prints it")
	default:
		d.line("password_file", path(l.passwordFile), "mode 0600; each poll reads it again")
	}
	if l.clientID == "" {
		return
	}
	d.section("mail.imap.oauth2")
	d.line("provider", l.provider, "")
	d.line("client_id", l.clientID, "")
	if l.clientSecretFile != "" {
		d.line("client_secret_file", path(l.clientSecretFile), "mode 0600")
	}
	d.line("refresh_token_file", path(l.refreshTokenFile), "`agentstateloop login` writes it")
}

// askLogin asks for the place of the mailbox's secret and, if needed, for the secret. Then it tries
// the login.
func (in *interview) askLogin(ctx context.Context, handle string, m *mailPart) error {
	l := &m.login
	switch {
	case len(in.PasswordCommand) > 0:
		l.passwordCommand = in.PasswordCommand
		return in.tryLogin(ctx, m)
	case l.clientID != "":
		l.clientSecretFile = in.ClientSecretFile
		l.refreshTokenFile = in.secretFile(handle, "refresh-token")
		return in.makeAbsolute(&l.clientSecretFile)
	}
	l.passwordFile = cmp.Or(in.PasswordFile, in.secretFile(handle, "password"))
	if err := in.makeAbsolute(&l.passwordFile); err != nil || in.Print {
		return err
	}
	if err := in.askPassword(ctx, m); err != nil {
		return err
	}
	return in.tryLogin(ctx, m)
}

// askPassword asks for the password to write to the password file. It never replaces an existing
// file, which may belong to another agent, or be left over from an init that was killed.
func (in *interview) askPassword(ctx context.Context, m *mailPart) error {
	l := &m.login
	_, err := os.Lstat(l.passwordFile)
	l.stored = err == nil
	switch {
	case in.PasswordStdin && !in.Asker.CanAsk():
		return in.readPassword(l)
	case l.stored && in.Asker.CanAsk():
		in.Asker.Tell("using the password in %s, which already exists", l.passwordFile)
		return nil
	case l.stored, in.PasswordFile != "" && !in.Asker.CanAsk():
		return nil
	case !in.Asker.CanAsk():
		in.Asker.Missing("--password-file or --password-stdin", "the mailbox's password")
		return nil
	}
	l.password, err = in.askSecret(ctx, l.passwordFile, m.passwordPrompt())
	return err
}

// passwordPrompt returns the prompt for the password of the user name, which may differ from the
// address.
func (m *mailPart) passwordPrompt() string {
	what := cmp.Or(m.preset.secret, "password")
	return fmt.Sprintf("the %s for %s (not shown; leave empty to add it later): ", what, cmp.Or(m.username, m.address))
}

// askSecret asks for a secret for file until the answer is valid. It returns "" for an empty line.
func (s Setup) askSecret(ctx context.Context, file, prompt string) (string, error) {
	for {
		value, err := s.Asker.Secret(ctx, prompt)
		if err != nil || value == "" {
			return "", err
		}
		s.Loader.Secrets.Learn(file, value)
		if _, err = config.CheckSecret(value, "the answer"); err == nil {
			return value, nil
		}
		s.Asker.Tell("%v", err)
	}
}

// readPassword reads the password from standard input. The file may already contain it.
func (in *interview) readPassword(l *login) error {
	text, err := in.stdinSecret()
	if err != nil {
		return in.Asker.Wrong("", "--password-stdin: %v", err)
	}
	in.Loader.Secrets.Learn(l.passwordFile, text)
	if !l.stored {
		l.password = text
		return nil
	}
	if there, err := config.ReadPrivate(l.passwordFile); err == nil && strings.TrimRight(string(there), "\r\n") == text {
		return nil
	}
	return in.Asker.Wrong("leave --password-stdin out to use that password, or remove the file", "%s already exists with another password", l.passwordFile)
}

// stdinSecret reads all of standard input as a secret.
func (s Setup) stdinSecret() (string, error) {
	data, err := io.ReadAll(io.LimitReader(s.Stdin, config.MaxSecret+1))
	if err != nil {
		return "", err
	}
	text := strings.TrimRight(string(data), "\r\n")
	if text == "" {
		return "", errors.New("stdin is empty")
	}
	return config.CheckSecret(text, "stdin")
}
