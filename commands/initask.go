package commands

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"agentstateloop/commands/config"
	"agentstateloop/commands/terminal"
	"agentstateloop/mail"
	"agentstateloop/state"
	"agentstateloop/turn"
)

// answers gathers all that the configuration needs before anything is written,
// and checks it as a poll would.
func (p *program) answers(c *cli.Context, path string) (setup, error) {
	home, err := p.loader.Home()
	if err != nil {
		return setup{}, err
	}
	a := terminal.NewAsker(p.stdin, p.out.Stderr, p.loader.Secrets)
	s := setup{
		caFile: c.String("ca-file"), meshURL: c.String("mesh-url"), meshTokenFile: c.String("mesh-token-file"),
		peers: wordsOf(c, "peer"), keymaster: c.String("keymaster"), workdir: c.String("workdir"),
		require: c.String("require"), fallback: c.String("fallback"),
		stateDir: c.String("state-dir"), mode: c.String("schedule"), crontab: c.String("crontab"), command: wordsOf(c, "command"),
		path: lastingPath(p.loader.Env("PATH")), home: home,
	}
	for _, step := range []func() error{
		func() error { return s.askMail(c, a) },
		func() error { return s.askTurn(c, a) },
		func() error { return s.askAPI(c, a) },
		func() error { return s.makeAbsolute(path) },
		func() error { return p.askSecret(c, a, &s, path) },
		func() error { return p.askKey(c, a, &s, path) },
		func() error { return p.checkSetup(s, path) },
	} {
		if err := step(); err != nil {
			return setup{}, err
		}
	}
	return s, nil
}

// askMail learns who speaks with whom, and where.
func (s *setup) askMail(c *cli.Context, a *terminal.Asker) error {
	ctx := c.Context
	var err error
	choice := c.String("preset")
	if choice != "" && !slices.Contains(presetNames(), choice) {
		return terminal.Usagef("", "--preset %s: is none of: %s", choice, strings.Join(presetNames(), ", "))
	}
	if choice != presetNone {
		s.operators = wordsOf(c, "operator")
		if len(s.operators) == 0 {
			operator, err := a.Ask(ctx, "", terminal.Question{Flag: "operator", Text: "your own mail address, which you write from", Check: isAddress})
			if err != nil {
				return err
			}
			s.operators = []string{operator}
		}
		if s.address, err = a.Ask(ctx, c.String("address"), terminal.Question{Flag: "address", Text: "the agent's mail address, one of its own", Check: isAddress}); err != nil {
			return err
		}
	}
	guess, _, _ := strings.Cut(strings.ToLower(s.address), "@")
	if !state.ValidHandle(guess) {
		guess = ""
	}
	if s.handle, err = a.Ask(ctx, c.String("handle"), terminal.Question{Flag: "handle", Text: "the agent's name, which calls it as @NAME", Guess: guess, Check: isHandle}); err != nil || s.address == "" {
		return err
	}
	if choice == "" {
		choice = presetOf(s.address)
	}
	if choice == "" && c.String("imap-host") != "" {
		choice = "generic"
	}
	if choice, err = a.Ask(ctx, choice, terminal.Question{Flag: "preset", Text: "its mail provider (" + strings.Join(presetNames()[:4], ", ") + ")", Guess: "generic", Check: isPreset}); err != nil {
		return err
	}
	return s.askHosts(c, a, presets()[choice], choice)
}

func (s *setup) askHosts(c *cli.Context, a *terminal.Asker, known preset, choice string) error {
	var err error
	ctx := c.Context
	s.imap, s.smtp = known.imap, known.smtp
	if choice == "outlook" && presetOf(s.address) != choice {
		s.smtp = "smtp.office365.com:587" // a firm's own domain
	}
	if given := c.String("imap-host"); given != "" || s.imap == "" {
		if s.imap, err = a.Ask(ctx, given, terminal.Question{Flag: "imap-host", Text: "its IMAP server", Guess: "imap." + domainOf(s.address), Check: isHost}); err != nil {
			return err
		}
		s.imap = withPort(s.imap, "993")
	}
	if given := c.String("smtp-host"); given != "" || s.smtp == "" {
		if given == "" && !a.CanAsk() {
			given = smtpBeside(s.imap)
		}
		if s.smtp, err = a.Ask(ctx, given, terminal.Question{Flag: "smtp-host", Text: "its SMTP server", Guess: smtpBeside(s.imap), Check: isHost}); err != nil {
			return err
		}
		s.smtp = withPort(s.smtp, "465")
	}
	s.authservID = c.String("authserv-id")
	if s.authservID == "" {
		s.authservID = known.authservID
	}
	s.clientID, s.provider = c.String("client-id"), known.provider
	s.passwordCommand = wordsOf(c, "password-command")
	switch {
	case s.require != "" && s.require != mail.RequireDMARC && s.require != mail.RequireChallenge:
		return terminal.Usagef("", "--require %s: is none of: dmarc, challenge", s.require)
	case c.String("authserv-id") != "" && s.require == mail.RequireChallenge:
		return terminal.Usagef("leave one of them out", "--authserv-id is for --require dmarc: with challenge nothing that the mail server says is believed")
	}
	if s.clientID != "" && s.provider == "" {
		return terminal.Usagef("write [mail.imap.oauth2] yourself: see agent.toml.example", "--client-id is for --preset gmail and outlook")
	}
	if known.onlyOAuth && s.clientID == "" {
		s.clientID, err = a.Ask(ctx, "", terminal.Question{Flag: "client-id", Text: "the client id of the application you registered with the provider, which takes no passwords (OAuth2, see docs/operating.md)", Check: isText})
	}
	return err
}

// askTurn learns what answers.
func (s *setup) askTurn(c *cli.Context, a *terminal.Asker) error {
	var err error
	runner := c.String("runner")
	if runner == "" && len(s.command) > 0 {
		runner = "exec"
	}
	found := foundRunner(s.path)
	if !a.CanAsk() && runner == "" {
		runner = found
	}
	guess := found
	if guess == "" {
		guess = "exec"
	}
	if s.runner, err = a.Ask(c.Context, runner, terminal.Question{Flag: "runner", Text: "what answers: claude, codex, gemini, api (a model, with no other program), exec (a program of yours) or none", Guess: guess, Check: isRunner}); err != nil {
		return err
	}
	if s.runner == "exec" && len(s.command) == 0 {
		command, err := a.Ask(c.Context, "", terminal.Question{Flag: "command", Text: "that program, which gets the prompt on stdin and prints the answer", Check: isText})
		if err != nil {
			return err
		}
		s.command = strings.Fields(command)
	}
	return nil
}

// askAPI learns which model answers, if the loop in the box does.
func (s *setup) askAPI(c *cli.Context, a *terminal.Asker) error {
	given := map[string]string{}
	for _, flag := range []string{"api-provider", "api-model", "api-base-url", "api-key-file"} {
		if given[flag] = c.String(flag); given[flag] != "" && s.runner != turn.API {
			return terminal.Usagef("add --runner api", "--%s is for --runner api", flag)
		}
	}
	if s.runner != turn.API {
		return nil
	}
	var err error
	if s.apiProvider, err = a.Ask(c.Context, given["api-provider"], terminal.Question{Flag: "api-provider", Text: "whose API: anthropic, or openai, which many others speak", Guess: config.Anthropic, Check: isProvider}); err != nil {
		return err
	}
	guess := ""
	if s.apiProvider == config.Anthropic {
		guess = config.UsualModel
	}
	s.apiModel, err = a.Ask(c.Context, given["api-model"], terminal.Question{Flag: "api-model", Text: "the provider's name of the model", Guess: guess, Check: isText})
	s.apiURL, s.apiKeyFile = given["api-base-url"], given["api-key-file"]
	return err
}

// askKey learns where the key of the API is, and if need be the key. A server of
// one's own may want none.
func (p *program) askKey(c *cli.Context, a *terminal.Asker, s *setup, path string) error {
	own := s.apiURL != "" // a server that may want none
	if s.runner != turn.API || s.apiKeyFile != "" || own && !a.CanAsk() {
		return nil
	}
	s.apiKeyFile = defaultFile(path, s.handle, "api-key")
	if err := s.absolute(&s.apiKeyFile); err != nil || c.Bool("print") {
		return err
	}
	if _, err := os.Lstat(s.apiKeyFile); err == nil {
		return nil
	}
	if !a.CanAsk() {
		return terminal.Usagef("see agentstateloop init --help", "--api-key-file is missing, and there is no terminal to ask at")
	}
	where, empty := s.apiProvider, "later"
	if own {
		where, empty = s.apiURL, "it wants none"
	}
	var err error
	s.apiKey, err = a.Secret(c.Context, fmt.Sprintf("the API key of %s (not shown; empty: %s): ", where, empty))
	if err == nil && s.apiKey == "" && own {
		s.apiKeyFile = ""
	}
	if err != nil || s.apiKey == "" {
		return err
	}
	p.loader.Secrets.Learn(s.apiKeyFile, s.apiKey)
	_, err = config.CheckSecret(s.apiKey, "the key")
	return err
}

// makeAbsolute makes paths mean here what they will mean in the configuration.
func (s *setup) makeAbsolute(path string) error {
	if s.workdir == "" && s.runner != "none" {
		// Not the configuration's folder, where the secrets are.
		s.workdir = filepath.Join(s.home, "agents", s.handle)
	}
	for _, path := range []*string{&s.caFile, &s.meshTokenFile, &s.workdir, &s.stateDir, &s.apiKeyFile} {
		if err := s.absolute(path); err != nil {
			return err
		}
	}
	programs := []*string{&s.crontab}
	if len(s.command) > 0 {
		programs = append(programs, &s.command[0])
	}
	for _, program := range programs {
		if !strings.Contains(*program, "/") {
			continue // a name, to be looked up
		}
		if err := s.absolute(program); err != nil {
			return err
		}
	}
	return nil
}

func (s *setup) absolute(path *string) error {
	if *path == "" {
		return nil
	}
	if rest, ok := strings.CutPrefix(*path, "~/"); ok {
		*path = filepath.Join(s.home, rest)
		return nil
	}
	abs, err := filepath.Abs(*path)
	*path = abs
	return err
}

// askSecret learns where the mailbox's secret is, and if need be the secret.
func (p *program) askSecret(c *cli.Context, a *terminal.Asker, s *setup, path string) error {
	switch {
	case s.address == "" || len(s.passwordCommand) > 0:
		return nil
	case s.clientID != "":
		s.clientSecretFile = c.String("client-secret-file")
		s.refreshTokenFile = defaultFile(path, s.handle, "refresh-token")
		return s.absolute(&s.clientSecretFile)
	}
	s.passwordFile = c.String("password-file")
	if s.passwordFile == "" {
		s.passwordFile = defaultFile(path, s.handle, "password")
	}
	if err := s.absolute(&s.passwordFile); err != nil || c.Bool("print") {
		return err
	}
	_, err := os.Lstat(s.passwordFile)
	there := err == nil
	switch {
	case c.Bool("password-stdin") && there:
		return terminal.Usagef("leave --password-stdin out to use what is in it, or remove it", "%s is there already", s.passwordFile)
	case c.Bool("password-stdin") && !a.CanAsk():
		s.password, err = p.readPassword()
	case c.IsSet("password-file") && !c.Bool("password-stdin") || there:
		return nil
	case !a.CanAsk():
		return terminal.Usagef("see agentstateloop init --help", "--password-file or --password-stdin is missing, and there is no terminal to ask at")
	default:
		s.password, err = a.Secret(c.Context, fmt.Sprintf("the %s of %s (not shown; empty: later): ", presetSecret(s.address, c.String("preset")), s.address))
	}
	if err != nil || s.password == "" {
		return err
	}
	p.loader.Secrets.Learn(s.passwordFile, s.password)
	_, err = config.CheckSecret(s.password, "the password")
	return err
}

func presetSecret(address, choice string) string {
	if choice == "" {
		choice = presetOf(address)
	}
	if known := presets()[choice]; known.secret != "" {
		return known.secret
	}
	return "password"
}

// readPassword reads all of stdin.
func (p *program) readPassword() (string, error) {
	data, err := io.ReadAll(io.LimitReader(p.stdin, config.LongestSecret+1))
	if err != nil {
		return "", fmt.Errorf("read password from stdin: %w", err)
	}
	text := strings.TrimRight(string(data), "\r\n")
	if text == "" {
		return "", terminal.Usagef("", "--password-stdin: stdin holds none")
	}
	return config.CheckSecret(text, "stdin")
}

// checkSetup reads and wires the text as a poll will read the file, so that no
// answer makes a configuration that is refused.
func (p *program) checkSetup(s setup, path string) error {
	conf, err := p.loader.Parse(path, s.text())
	if err == nil {
		if _, wrong := p.loader.Wire(conf); len(wrong) > 0 {
			err = wrong[0]
		}
	}
	if e, ok := errors.AsType[*config.Error](err); ok {
		return terminal.Usagef(e.Advice, "what was given makes no configuration: %s: %s", e.Key, e.Text)
	}
	return err
}
