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
	"agentstateloop/commands/terminal"
	"agentstateloop/mail"
	"agentstateloop/state"
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

// server returns a server of the agent as a poll will use it, with a shorter timeout because the
// user waits.
func (m *mailPart) server(host string) mail.Server {
	return mail.Server{Addr: host, TLS: tlsOf(host), CAFile: m.caFile, Username: cmp.Or(m.username, m.address), Timeout: 2 * trialTime}
}

// tryHost connects to a server typed with or without a port, and waits for its greeting.
func (in *interview) tryHost(m *mailPart, port, ports string, greet func(mail.Server, context.Context) error) func(context.Context, string) error {
	if !in.canTry() || in.Print {
		return nil
	}
	return func(ctx context.Context, answer string) error {
		server := m.server(withPort(answer, port))
		err := in.trial(ctx, server.Addr, func(ctx context.Context) error { return greet(server, ctx) })
		if err != nil && terminal.HintOf(err) == "" {
			err = terminal.WithHint(err, hostHint(err, ports))
		}
		return err
	}
}

// tryLogin logs in to both servers with the secret that a poll will use. After an error, the user
// corrects the value or keeps it.
func (in *interview) tryLogin(ctx context.Context, m *mailPart) error {
	for in.canTry() {
		secret, err := in.secret(m)
		if secret == nil || err != nil {
			return err // the secret comes later
		}
		err = in.tryMailbox(ctx, m.server(m.imap), secret)
		if err == nil {
			return in.trySMTP(ctx, m)
		}
		if kept, err := in.Asker.Keep(ctx, in.loginHint(err, m, m.imap, imapPorts), "use it anyway?"); kept || err != nil {
			return err
		}
		switch {
		case isUnread(err):
			continue // it may be there by now
		case isRefused(err):
			err = in.askLoginAgain(ctx, m)
		default:
			m.imap, err = in.askIMAP(ctx, m, "")
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// trySMTP is the second half of tryLogin. The login is known to work for the mailbox, so any error
// is probably in the server.
func (in *interview) trySMTP(ctx context.Context, m *mailPart) error {
	for {
		secret, err := in.secret(m)
		if secret == nil || err != nil {
			return err
		}
		err = in.trySender(ctx, m.server(m.smtp), secret)
		if err == nil {
			return nil
		}
		if kept, err := in.Asker.Keep(ctx, in.loginHint(err, m, m.smtp, smtpPorts), "use it anyway?"); kept || err != nil {
			return err
		}
		if m.smtp, err = in.askSMTP(ctx, m, ""); err != nil {
			return err
		}
	}
}

// tryMailbox logs in to an IMAP server. It marks no mail as read.
func (s Setup) tryMailbox(ctx context.Context, server mail.Server, secret func(context.Context) (string, error)) error {
	server.Secret = secret
	return s.trial(ctx, "to log in to "+server.Addr+" as "+server.Username, mail.Mailbox{Server: server, Secrets: s.Loader.Secrets}.TryLogin)
}

// trySender logs in to an SMTP server. It sends no mail.
func (s Setup) trySender(ctx context.Context, server mail.Server, secret func(context.Context) (string, error)) error {
	server.Secret = secret
	return s.trial(ctx, "to log in to "+server.Addr+" as "+server.Username, server.TryLogin)
}

// secret returns the function that reads the mailbox's secret, or nil if the secret comes later.
func (in *interview) secret(m *mailPart) (func(context.Context) (string, error), error) {
	switch l := m.login; {
	case len(l.passwordCommand) > 0:
		c, err := in.Loader.Parse(in.config, "")
		if err != nil {
			return nil, err
		}
		return in.Loader.Secret(c, config.Source{Command: l.passwordCommand}), nil
	case l.password != "":
		return func(context.Context) (string, error) { return l.password, nil }, nil
	case l.stored:
		return in.Loader.SecretFile(l.passwordFile), nil
	}
	return nil, nil
}

// askLoginAgain asks for corrections after a refused login. It asks for a typed password first. A
// typing error in it is most likely, and the user must not type any of it where the terminal shows
// it.
func (in *interview) askLoginAgain(ctx context.Context, m *mailPart) error {
	if m.login.password == "" {
		return in.askUsername(ctx, m)
	}
	prompt := fmt.Sprintf("the %s for %s again (not shown; leave empty to change the username): ", cmp.Or(m.preset.secret, "password"), cmp.Or(m.username, m.address))
	password, err := in.askSecret(ctx, m.login.passwordFile, prompt)
	if err != nil {
		return err
	}
	if password != "" {
		m.login.password = password
		return nil
	}
	return in.askUsername(ctx, m)
}

// askUsername asks for the user name, and again for the password if it was typed.
func (in *interview) askUsername(ctx context.Context, m *mailPart) error {
	name, err := in.Asker.Ask(ctx, "", terminal.Question{
		Flag: "username", Text: "the username on the server", Guess: cmp.Or(m.username, m.address), Check: isText,
	})
	if err != nil {
		return err
	}
	if m.username = name; name == m.address {
		m.username = ""
	}
	if m.login.password == "" {
		return nil
	}
	return in.askPassword(ctx, m)
}

// loginHint explains err to the user: the reason and a hint.
func (in *interview) loginHint(err error, m *mailPart, host, ports string) error {
	l := m.login
	where := ""
	switch {
	case len(l.passwordCommand) > 0:
		where = "does " + l.passwordCommand[0] + " print the right password? "
	case l.password == "":
		where = "is the right password in " + l.passwordFile + "? "
	}
	return explainLogin(err, host, ports, where)
}

// explainLogin explains a failed login to the user. where is a question about the place of the
// password, or "".
func explainLogin(err error, host, ports, where string) error {
	if isUnread(err) {
		denied, _ := state.CredentialFailure(err)
		return terminal.WithHint(denied.Err, strings.TrimSpace(where+"fix it; it will be read again"))
	}
	if denied, ok := state.CredentialFailure(err); ok {
		hint := cmp.Or(config.ProviderNote(host, mail.AuthPlain), "some servers expect a username other than the address")
		reason := strings.TrimPrefix(denied.Err.Error(), "login: ")
		return terminal.WithHint(fmt.Errorf("the server refused the login: %s", reason), where+hint)
	}
	if terminal.HintOf(err) != "" {
		return err
	}
	return terminal.WithHint(err, hostHint(err, ports))
}

// isRefused reports whether a server refused a login.
func isRefused(err error) bool {
	_, ok := state.CredentialFailure(err)
	return ok
}

// isUnread reports whether a secret could not be read.
func isUnread(err error) bool {
	_, ok := errors.AsType[*config.UnreadError](err)
	return ok
}
