package commands

import (
	"cmp"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"agentstateloop/commands/config"
	"agentstateloop/cron"
	"agentstateloop/mail"
	"agentstateloop/turn"
)

// setup is what init has learnt, and the configuration it makes. Paths are
// absolute.
type setup struct {
	handle    string
	operators []string
	address   string // "": no mail

	imap, smtp, caFile string
	authservID         string // "": verify = "dkim"
	require, fallback  string // "" is the default

	passwordFile    string
	passwordCommand []string
	password        string // to be written to passwordFile

	provider, clientID, clientSecretFile, refreshTokenFile string // for OAuth2

	apiProvider, apiModel, apiURL string
	apiKeyFile                    string // "": the server wants no key
	apiKey                        string // to be written to apiKeyFile

	runner, workdir string
	command         []string
	path            string // the PATH of the user's shell

	meshURL, meshTokenFile string
	peers                  []string
	keymaster              string

	stateDir, mode, crontab string

	home string // shortened to "~"
}

// text is the agent.toml.
func (s setup) text() string {
	var b strings.Builder
	line := func(key string, value any, comment string) {
		text := fmt.Sprintf("%s = %s", key, s.toml(value))
		if comment != "" {
			text = fmt.Sprintf("%-56s # %s", text, comment)
		}
		b.WriteString(text + "\n")
	}
	section := func(name string) { b.WriteString("\n[" + name + "]\n") }

	b.WriteString("# @" + s.handle + ", as agentstateloop init has set it up. Change what you like.\n" +
		"# agent.toml.example has every setting; what is left out here is its default.\n")
	section("agent")
	line("handle", s.handle, "its callsign, for subjects, is @"+s.handle)
	if len(s.operators) > 0 {
		line("operator", s.operators, "who may wake it by mail; the first receives its mail")
	}
	if s.stateDir != "" {
		line("state_dir", place(s.stateDir), "")
	}
	if s.address != "" {
		s.mailText(line, section)
	}
	if s.meshURL != "" {
		section("mesh")
		line("url", s.meshURL, "")
		if s.meshTokenFile != "" {
			line("token_file", place(s.meshTokenFile), "mode 0600")
		}
		if len(s.peers) > 0 {
			line("peers", s.peers, "whose messages cause turns")
		}
		if s.keymaster != "" {
			line("keymaster", s.keymaster, "told of passwords that fail")
		}
	}
	section("turn")
	line("runner", s.runner, "exec | claude | codex | gemini | api | none")
	if len(s.command) > 0 {
		line("command", s.command, "")
	}
	if s.workdir != "" {
		line("workdir", place(s.workdir), "where the agent works")
	}
	b.WriteString("# That of the shell init ran in: cron's has two folders.\n")
	fmt.Fprintf(&b, "env = { PATH = %s }\n", s.toml(s.path))
	if s.runner == turn.API {
		s.apiText(line, section)
	}
	if s.mode != "" || s.crontab != "" {
		section("schedule")
	}
	if s.mode != "" {
		line("mode", s.mode, "crontab | fixed | none")
	}
	if s.crontab != "" {
		line("crontab", place(s.crontab), "")
	}
	return b.String()
}

func (s setup) mailText(line func(string, any, string), section func(string)) {
	section("mail")
	line("address", s.address, "the agent's own, not one of yours")
	section("mail.imap")
	s.serverText(line, s.imap)
	switch {
	case s.clientID != "":
		line("auth", "xoauth2", "")
	case len(s.passwordCommand) > 0:
		line("password_command", s.passwordCommand, "prints it")
	default:
		line("password_file", place(s.passwordFile), "mode 0600; read anew at each poll")
	}
	if s.clientID != "" {
		section("mail.imap.oauth2")
		line("provider", s.provider, "")
		line("client_id", s.clientID, "")
		if s.clientSecretFile != "" {
			line("client_secret_file", place(s.clientSecretFile), "mode 0600")
		}
		line("refresh_token_file", place(s.refreshTokenFile), "`agentstateloop login` writes it")
	}
	section("mail.smtp")
	s.serverText(line, s.smtp)
	section("trust")
	switch {
	case s.require == mail.RequireChallenge:
		line("require", s.require, "you are asked by mail about each mail of yours")
	case s.authservID != "":
		line("authserv_id", s.authservID, "the mail server's word that a mail is yours")
	default:
		line("verify", mail.VerifyDKIM, "your mail is known by its signature")
	}
	if s.fallback != "" {
		line("fallback", s.fallback, "you are asked about mail that is not proved")
	}
}

func (s setup) apiText(line func(string, any, string), section func(string)) {
	section("api")
	line("provider", s.apiProvider, "anthropic | openai, which many others speak")
	if s.apiURL != "" {
		line("base_url", s.apiURL, "")
	}
	line("model", s.apiModel, "")
	if s.apiKeyFile != "" {
		line("key_file", place(s.apiKeyFile), "mode 0600")
	}
}

// newSecret is a secret that is to be written to a file of its own.
type newSecret struct{ what, file, value string }

// secrets are those that were given.
func (s setup) secrets() []newSecret {
	return slices.DeleteFunc([]newSecret{
		{"password", s.passwordFile, s.password},
		{"key of the API", s.apiKeyFile, s.apiKey},
	}, func(secret newSecret) bool { return secret.value == "" })
}

func (s setup) serverText(line func(string, any, string), host string) {
	line("host", host, "")
	if tls := tlsOf(host); tls != "implicit" {
		line("tls", tls, "")
	}
	if s.caFile != "" {
		line("ca_file", place(s.caFile), "")
	}
}

// place is a path, which is shortened.
type place string

// toml is a value as TOML has it. A JSON string is a TOML string, too, but for
// the one control character that JSON lets stand.
func (s setup) toml(value any) string {
	switch v := value.(type) {
	case place:
		text := string(v)
		if rest, ok := strings.CutPrefix(text, s.home+"/"); ok && s.home != "" {
			text = "~/" + rest
		}
		return s.toml(text)
	case []string:
		var all []string
		for _, word := range v {
			all = append(all, s.toml(word))
		}
		return "[" + strings.Join(all, ", ") + "]"
	default:
		var b strings.Builder
		e := json.NewEncoder(&b)
		e.SetEscapeHTML(false)
		_ = e.Encode(v) // a string cannot fail
		return strings.ReplaceAll(strings.TrimSuffix(b.String(), "\n"), "\x7f", `\u007F`)
	}
}

// lastingPath is a PATH as cron's job can use it: absolute folders, each once,
// none of a `go run`, and the usual ones at the end.
func lastingPath(path string) string {
	var dirs []string
	for _, dir := range append(filepath.SplitList(path), "/usr/local/bin", "/usr/bin", "/bin") {
		if filepath.IsAbs(dir) && !slices.Contains(dirs, dir) && !cron.TemporaryBinary(dir) {
			dirs = append(dirs, dir)
		}
	}
	return strings.Join(dirs, ":")
}

// foundRunner is the first agent that lies in a PATH; "" where there is none.
func foundRunner(path string) string {
	for _, runner := range []string{"claude", "codex", "gemini"} {
		if config.InPath(runner, path) != "" {
			return runner
		}
	}
	return ""
}

// defaultFile is where a secret is put that belongs to a configuration.
func defaultFile(config, handle, kind string) string {
	return filepath.Join(filepath.Dir(config), cmp.Or(handle, "agent")+"."+kind)
}
