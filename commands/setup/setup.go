// Package setup makes the agent.toml of a new agent: it takes what flags say,
// asks for the rest, and writes the text.
//
// The configuration is made of parts: agent, mail, mesh, turn, api, schedule. A
// part asks for what it lacks and writes its own sections. Nothing is written to
// disk before all parts are complete and the text has been checked as a poll
// would check it.
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
)

// Options holds the values of the flags of init; "" where a flag was not given.
type Options struct {
	Handle, StateDir string
	Operators        []string

	Preset, Address, IMAPHost, SMTPHost, CAFile string
	AuthservID, Require, Fallback               string
	PasswordFile                                string
	PasswordStdin                               bool
	PasswordCommand                             []string
	ClientID, ClientSecretFile                  string

	Runner, Workdir, Sandbox                      string
	Command                                       []string
	APIProvider, APIModel, APIBaseURL, APIKeyFile string
	MeshURL, MeshTokenFile, Keymaster             string
	Peers                                         []string
	Schedule, Crontab                             string

	Print bool // only the text is wanted: no secret is asked for
}

// Setup makes configurations.
type Setup struct {
	Loader *config.Loader
	Asker  *terminal.Asker
	Stdin  io.Reader // holds the password for PasswordStdin
}

// Plan is a complete configuration that is not written yet.
type Plan struct {
	Text    string   // of agent.toml
	Secrets []Secret // to be written to files of their own
	Workdir string   // to be made; "": none
}

// Secret is a secret that was typed or read from standard input.
type Secret struct{ What, File, Value string }

// interview is one run of the questions.
type interview struct {
	Setup
	Options
	config string // path of the configuration to come
	home   string
}

// parts is all that the questions find out. Paths are absolute.
type parts struct {
	agent    agentPart
	mail     *mailPart // nil: no mail
	mesh     meshPart
	turn     turnPart
	api      *apiPart // nil: another runner
	schedule schedulePart
}

// Plan finds out everything that the configuration in path needs. It checks the
// result as a poll would.
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
	plan := Plan{Text: p.text(home), Workdir: p.turn.workdir, Secrets: p.secrets()}
	return plan, s.check(plan.Text, path)
}

// ask learns the parts, in the order of the questions. The secrets come last.
func (in *interview) ask(ctx context.Context) (parts, error) {
	p := parts{
		mesh:     meshPart{url: in.MeshURL, tokenFile: in.MeshTokenFile, peers: in.Peers, keymaster: in.Keymaster},
		schedule: schedulePart{mode: in.Schedule, crontab: in.Crontab},
	}
	if in.Preset != "" {
		if err := isOneOf(presetNames()...)(in.Preset); err != nil {
			return p, terminal.Usagef("", "--preset %s: %v", in.Preset, err)
		}
	}
	var address string
	var err error
	if in.Preset != presetNone {
		if p.agent.operators, err = in.askOperators(ctx); err != nil {
			return p, err
		}
		if address, err = in.askAddress(ctx); err != nil {
			return p, err
		}
	}
	if p.agent.handle, err = in.askHandle(ctx, address); err != nil {
		return p, err
	}
	if address != "" {
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
	p.agent.stateDir = in.StateDir
	if err := in.makeAbsolute(&p.agent.stateDir, &p.mesh.tokenFile); err != nil {
		return p, err
	}
	if err := in.makeProgramAbsolute(&p.schedule.crontab); err != nil {
		return p, err
	}
	if p.mail != nil {
		if p.mail.login, err = in.askLogin(ctx, p.agent.handle, p.mail); err != nil {
			return p, err
		}
	}
	if p.api != nil {
		err = in.askKey(ctx, p.agent.handle, p.api)
	}
	return p, err
}

// check reads and wires the text as a poll will, so that no answer makes a
// configuration that a poll refuses.
func (s Setup) check(text, path string) error {
	conf, err := s.Loader.Parse(path, text)
	if err == nil {
		if _, wrong := s.Loader.Wire(conf); len(wrong) > 0 {
			err = wrong[0]
		}
	}
	if e, ok := errors.AsType[*config.Error](err); ok {
		return terminal.Usagef(e.Advice, "the answers do not make a valid configuration: %s: %s", e.Key, e.Text)
	}
	return err
}

// secrets returns those that are to be written.
func (p parts) secrets() []Secret {
	var all []Secret
	if p.mail != nil && p.mail.login.password != "" {
		all = append(all, Secret{"password", p.mail.login.passwordFile, p.mail.login.password})
	}
	if p.api != nil && p.api.key != "" {
		all = append(all, Secret{"API key", p.api.keyFile, p.api.key})
	}
	return all
}

// makeAbsolute makes paths mean here what they will mean in the configuration.
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

// makeProgramAbsolute is makeAbsolute for a program. A name without a slash
// stays, to be looked up in PATH.
func (in *interview) makeProgramAbsolute(program *string) error {
	if !strings.Contains(*program, "/") {
		return nil
	}
	return in.makeAbsolute(program)
}

// secretFile returns where a secret is put that belongs to the configuration.
func (in *interview) secretFile(handle, kind string) string {
	return filepath.Join(filepath.Dir(in.config), cmp.Or(handle, "agent")+"."+kind)
}
