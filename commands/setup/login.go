package setup

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"strings"

	"agentstateloop/commands/config"
	"agentstateloop/commands/terminal"
)

// login describes how the agent logs in to its mailbox, in [mail.imap].
type login struct {
	passwordFile    string
	password        string // to be written to passwordFile; "": none
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

// askLogin learns where the mailbox's secret is and, if need be, the secret.
func (in *interview) askLogin(ctx context.Context, handle string, m *mailPart) (login, error) {
	l := m.login
	switch {
	case len(in.PasswordCommand) > 0:
		l.passwordCommand = in.PasswordCommand
		return l, nil
	case l.clientID != "":
		l.clientSecretFile = in.ClientSecretFile
		l.refreshTokenFile = in.secretFile(handle, "refresh-token")
		return l, in.makeAbsolute(&l.clientSecretFile)
	}
	l.passwordFile = cmp.Or(in.PasswordFile, in.secretFile(handle, "password"))
	if err := in.makeAbsolute(&l.passwordFile); err != nil || in.Print {
		return l, err
	}
	var err error
	l.password, err = in.askPassword(ctx, l.passwordFile, m)
	if err != nil || l.password == "" {
		return l, err
	}
	in.Loader.Secrets.Learn(l.passwordFile, l.password)
	_, err = config.CheckSecret(l.password, "the password")
	return l, err
}

// askPassword returns the password that is to be written to file, or "".
func (in *interview) askPassword(ctx context.Context, file string, m *mailPart) (string, error) {
	_, err := os.Lstat(file)
	exists := err == nil
	switch {
	case in.PasswordStdin && exists:
		return "", terminal.Usagef("leave --password-stdin out to use what is in it, or remove it", "%s exists already", file)
	case in.PasswordStdin && !in.Asker.CanAsk():
		return in.readPassword()
	case in.PasswordFile != "" && !in.PasswordStdin || exists:
		return "", nil
	case !in.Asker.CanAsk():
		return "", terminal.Usagef("see agentstateloop init --help", "--password-file or --password-stdin is missing, and without a terminal it cannot be asked for")
	}
	what := cmp.Or(m.known.secret, "password")
	return in.Asker.Secret(ctx, fmt.Sprintf("the %s of %s (not shown; leave empty to add it later): ", what, m.address))
}

// readPassword reads all of standard input.
func (in *interview) readPassword() (string, error) {
	data, err := io.ReadAll(io.LimitReader(in.Stdin, config.MaxSecret+1))
	if err != nil {
		return "", fmt.Errorf("read password from stdin: %w", err)
	}
	text := strings.TrimRight(string(data), "\r\n")
	if text == "" {
		return "", terminal.Usagef("", "--password-stdin: stdin is empty")
	}
	return config.CheckSecret(text, "stdin")
}
