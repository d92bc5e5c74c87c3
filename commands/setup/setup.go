// Package setup makes the agent.toml of a new agent: it takes the values of flags, asks for the
// rest, and writes the text.
//
// The configuration has these parts: agent, mail, mesh, turn, api, schedule. Each part asks for its
// missing values and writes its own sections. Files are written only after all parts are complete
// and the text has passed the checks of a poll.
package setup

import (
	"cmp"
	"context"
	"errors"
	"io"
	"path/filepath"
	"strings"

	"agentstateloop/commands/config"
	"agentstateloop/commands/terminal"
	"agentstateloop/turn"
)

// Options holds the values of init's flags, "" for flags that were not given.
type Options struct {
	Handle, StateDir string
	Operators        []string

	Preset, Address, Username, IMAPHost, SMTPHost, CAFile string
	AuthservID, Require, Fallback                         string
	PasswordFile                                          string
	PasswordStdin                                         bool
	PasswordCommand                                       []string
	ClientID, ClientSecretFile                            string

	Runner, Workdir, Sandbox, Conversation        string
	Command                                       []string
	APIProvider, APIModel, APIBaseURL, APIKeyFile string
	MeshURL, MeshTokenFile, MeshKeyFile           string
	MeshCAFile, Keymaster                         string
	Peers                                         []string // HANDLE, or HANDLE=KEY
	Schedule, Crontab                             string

	Print   bool // only print the text: do not ask for secrets
	NoCheck bool // accept Command even if its program is missing
}

// Setup makes configurations.
type Setup struct {
	Loader  *config.Loader
	Asker   *terminal.Asker
	Stdin   io.Reader // holds the password for PasswordStdin
	Network bool      // whether servers may be tried
}

// Plan is a complete configuration that is not written yet.
type Plan struct {
	Text    string   // of agent.toml
	Secrets []Secret // to be written to files of their own
	Workdir string   // folder to create; may be empty
	Key     string   // the agent's public key on a mesh over NATS, or ""
}

// Secret is a secret that was typed or read from standard input.
type Secret struct{ What, File, Value string }

// interview is one run of the questions.
type interview struct {
	Setup
	Options
	config string // path of the new configuration
	home   string
}

// parts holds all answers. Paths are absolute.
type parts struct {
	agent    agentPart
	mail     *mailPart // nil: no mail
	mesh     meshPart
	turn     turnPart
	api      *apiPart // nil: another runner
	schedule schedulePart
}

// Plan asks for all missing values of the configuration in path. It checks the result as a poll
// would.
func (s Setup) Plan(ctx context.Context, o Options, path string) (Plan, error) {
	home, err := s.Loader.Home()
	if err != nil {
		return Plan{}, err
	}
	in := &interview{Setup: s, Options: o, config: path, home: home}
	p, err := in.ask(ctx)
	if err != nil {
		return Plan{}, err
	}
	if err := in.check(p.withPlaceholders().text(home)); err != nil {
		return Plan{}, err
	}
	return Plan{Text: p.text(home), Workdir: p.turn.workdir, Secrets: p.secrets(), Key: p.mesh.public}, s.Asker.Problems()
}

// ask returns the parts, in the order of the questions. It asks for secrets last.
func (in *interview) ask(ctx context.Context) (parts, error) {
	p := parts{
		mesh: meshPart{
			url: in.MeshURL, tokenFile: in.MeshTokenFile, keyFile: in.MeshKeyFile, caFile: in.MeshCAFile, peers: in.Peers, keymaster: in.Keymaster,
		},
		schedule: schedulePart{mode: in.Schedule, crontab: in.Crontab},
	}
	if err := in.checkFlags(&p.mesh); err != nil {
		return p, err
	}
	var address string
	var err error
	if in.Preset != presetNone {
		if p.agent.operators, err = in.askOperators(ctx); err != nil {
			return p, err
		}
		if address, err = in.askAddress(ctx, p.agent.operators); err != nil {
			return p, err
		}
	}
	if p.agent.handle, err = in.askHandle(ctx, address); err != nil {
		return p, err
	}
	if in.Preset != presetNone {
		if p.mail, err = in.askMail(ctx, address); err != nil {
			return p, err
		}
	}
	if p.turn, err = in.askTurn(ctx, p.agent.handle); err != nil {
		return p, err
	}
	if p.api, err = in.askAPI(ctx, p.turn.runner); err != nil {
		return p, err
	}
	if p.mail != nil && p.turn.runner != "none" {
		if p.turn.conversation, err = in.askConversation(ctx); err != nil {
			return p, err
		}
	}
	p.agent.stateDir = in.StateDir
	if err := in.makeAbsolute(&p.agent.stateDir, &p.mesh.tokenFile, &p.mesh.keyFile, &p.mesh.caFile); err != nil {
		return p, err
	}
	if err := in.makeProgramAbsolute(&p.schedule.crontab); err != nil {
		return p, err
	}
	if err := in.askSchedule(ctx, &p.schedule); err != nil {
		return p, err
	}
	if p.mail != nil {
		if err := in.askLogin(ctx, p.agent.handle, p.mail); err != nil {
			return p, err
		}
	}
	if p.api != nil {
		if err := in.askKey(ctx, p.agent.handle, p.api, p.turn); err != nil {
			return p, err
		}
	}
	if err := in.askMeshKey(ctx, p.agent.handle, &p.mesh, in.MeshKeyFile); err != nil {
		return p, err
	}
	return p, in.tryMesh(ctx, p.agent.handle, &p.mesh)
}

// checkFlags checks the flags that have no question. It removes invalid values from m, so that the
// rest can be checked.
func (in *interview) checkFlags(m *meshPart) error {
	wrong := func(flag, value string, check func(string) error) (bool, error) {
		err := check(value)
		if value == "" || err == nil {
			return false, nil
		}
		return true, in.Asker.Wrong("", "--%s %s: %v", flag, value, err)
	}
	if _, err := wrong("preset", in.Preset, isOneOf(presetNames()...)); err != nil {
		return err
	}
	bad, err := wrong("keymaster", m.keymaster, isHandle)
	if bad {
		m.keymaster = ""
	}
	if err != nil {
		return err
	}
	var peers []string
	for _, peer := range m.peers {
		bad, err := wrong("peer", peer, isPeer)
		if err != nil {
			return err
		}
		if bad {
			continue
		}
		handle, key, keyed := strings.Cut(peer, "=")
		peers = append(peers, handle)
		if keyed {
			m.keys = append(m.keys, peerKey{handle, key})
		}
	}
	m.peers = peers
	return nil
}

// withPlaceholders returns the parts with example values for those a script did not give, so that
// check can find errors in the rest.
func (p parts) withPlaceholders() parts {
	p.agent.handle = cmp.Or(p.agent.handle, "agent")
	p.turn.runner = cmp.Or(p.turn.runner, "none")
	if p.turn.runner == turn.Exec && len(p.turn.command) == 0 {
		p.turn.command = []string{"/bin/true"}
	}
	if p.mail != nil {
		m := *p.mail
		if len(p.agent.operators) == 0 || p.agent.operators[0] == "" {
			p.agent.operators = []string{"operator@example.com"}
		}
		m.address = cmp.Or(m.address, "agent@example.com")
		m.imap, m.smtp = cmp.Or(m.imap, "imap.example.com:993"), cmp.Or(m.smtp, "smtp.example.com:465")
		m.login.passwordFile = cmp.Or(m.login.passwordFile, "/password")
		p.mail = &m
	}
	if p.api != nil {
		a := *p.api
		a.provider, a.model = cmp.Or(a.provider, config.Anthropic), cmp.Or(a.model, "model")
		p.api = &a
	}
	return p
}

// check parses and wires the text like a poll, so that init never makes a configuration that a poll
// rejects.
func (in *interview) check(text string) error {
	conf, err := in.Loader.Parse(in.config, text)
	all := []error{err}
	if err == nil {
		_, all = in.Loader.Wire(conf)
	}
	for _, err := range all {
		e, ok := errors.AsType[*config.Error](err)
		if !ok {
			return err
		}
		if err := in.Asker.Wrong(e.Advice, "your answers produce an invalid configuration: %s: %s", e.Key, e.Text); err != nil {
			return err
		}
	}
	return nil
}

// secrets returns the secrets to write.
func (p parts) secrets() []Secret {
	var all []Secret
	if p.mail != nil && p.mail.login.password != "" {
		all = append(all, Secret{"password", p.mail.login.passwordFile, p.mail.login.password})
	}
	if p.api != nil && p.api.key != "" {
		all = append(all, Secret{"API key", p.api.keyFile, p.api.key})
	}
	if p.mesh.seed != "" {
		all = append(all, Secret{"key", p.mesh.keyFile, p.mesh.seed})
	}
	return all
}

// makeAbsolute makes paths absolute, so that they mean the same in the configuration as on the
// command line.
func (in *interview) makeAbsolute(paths ...*string) error {
	for _, path := range paths {
		if *path == "" {
			continue
		}
		if rest, ok := strings.CutPrefix(*path, "~/"); ok {
			*path = filepath.Join(in.home, rest)
			continue
		}
		abs, err := filepath.Abs(*path)
		if err != nil {
			return err
		}
		*path = abs
	}
	return nil
}

// makeProgramAbsolute is makeAbsolute for a program. It keeps a name without a slash, for the
// system to look up in PATH.
func (in *interview) makeProgramAbsolute(program *string) error {
	if !strings.Contains(*program, "/") {
		return nil
	}
	return in.makeAbsolute(program)
}

// secretFile returns the path of a secret next to the configuration.
func (in *interview) secretFile(handle, kind string) string {
	return filepath.Join(filepath.Dir(in.config), cmp.Or(handle, "agent")+"."+kind)
}
