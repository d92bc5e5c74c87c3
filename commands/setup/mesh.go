package setup

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"agentstateloop/commands/config"
	"agentstateloop/commands/terminal"
	"agentstateloop/cycle"
	"agentstateloop/fleet"
)

// meshPart is [mesh].
type meshPart struct {
	url, tokenFile  string
	keyFile, caFile string // over NATS
	seed            string // to be written to keyFile; may be empty
	public          string // the public key of the seed or of keyFile; "" if unknown
	peers           []string
	keys            []peerKey
	keymaster       string
}

// peerKey is the public key of another agent.
type peerKey struct{ handle, key string }

func (m meshPart) write(d *document) {
	if m.url == "" {
		return
	}
	d.section("mesh")
	d.line("url", m.url, "")
	if m.tokenFile != "" {
		d.line("token_file", path(m.tokenFile), "mode 0600")
	}
	if m.keyFile != "" {
		d.line("key_file", path(m.keyFile), "mode 0600")
	}
	if m.caFile != "" {
		d.line("ca_file", path(m.caFile), "")
	}
	if len(m.peers) > 0 {
		d.line("peers", m.peers, "their messages cause turns")
	}
	if m.keymaster != "" {
		d.line("keymaster", m.keymaster, "is told about failing passwords")
	}
	if config.OverNATS(m.url) || len(m.keys) > 0 {
		m.writeKeys(d)
	}
}

// writeKeys writes [mesh.keys], with a placeholder for each peer whose key is unknown.
func (m meshPart) writeKeys(d *document) {
	d.section("mesh.keys")
	d.text("# The public keys of other agents. Messages of an agent without a key are unproven.\n")
	for _, k := range m.keys {
		d.line(k.handle, k.key, "")
	}
	for _, peer := range m.peers {
		if !slices.ContainsFunc(m.keys, func(k peerKey) bool { return k.handle == peer }) {
			d.text("# " + peer + " = \"U...\"\n")
		}
	}
}

// askMeshKey asks for the file of the agent's key for a mesh over NATS, or creates a key, which is
// written together with the configuration.
func (in *interview) askMeshKey(ctx context.Context, handle string, m *meshPart, given string) error {
	for config.OverNATS(m.url) {
		file, err := in.askKeyFile(ctx, handle, m.keyFile, given)
		if file == "" || err != nil {
			return err
		}
		m.keyFile, m.seed, m.public = file, "", ""
		if err := in.makeAbsolute(&m.keyFile); err != nil || in.Print {
			return err
		}
		if err = in.readOrMakeKey(ctx, m); err == nil {
			return nil
		}
		if !in.Asker.CanAsk() {
			return in.Asker.Wrong(terminal.HintOf(err), "--mesh-key-file: %v", err)
		}
		if kept, err := in.Asker.Keep(ctx, err, "use it anyway?"); kept || err != nil {
			return err
		}
		given = ""
	}
	return nil
}

// askKeyFile asks for the file of the key. A script gets the default file.
func (in *interview) askKeyFile(ctx context.Context, handle, before, given string) (string, error) {
	guess := before
	if guess == "" {
		guess = in.secretFile(handle, "nk")
	}
	if given == "" && !in.Asker.CanAsk() {
		given = guess
	}
	return in.Asker.Ask(ctx, given, terminal.Question{Flag: "mesh-key-file", Text: "the file for the agent's mesh key (created if it is missing)", Guess: guess, Check: isText})
}

// readOrMakeKey reads the public key of the key file, or creates a key if the file is missing.
func (in *interview) readOrMakeKey(ctx context.Context, m *meshPart) (err error) {
	if _, err := os.Lstat(m.keyFile); !errors.Is(err, fs.ErrNotExist) {
		m.public, err = PublicKey(ctx, in.Loader, m.keyFile)
		return err
	}
	if m.seed, m.public, err = fleet.NewKey(); err == nil {
		in.Loader.Secrets.Learn(m.keyFile, m.seed)
	}
	return err
}

// KeyFile returns the default path of an agent's key for a mesh over NATS: next to its
// configuration.
func KeyFile(config, handle string) string {
	return filepath.Join(filepath.Dir(config), handle+".nk")
}

// MakeKey creates a file (0600) with the seed of a new key, durably. It keeps an existing file, and
// then made is false. It returns the public key of the seed in the file.
func MakeKey(ctx context.Context, loader *config.Loader, file string) (public string, made bool, err error) {
	if _, err := os.Lstat(file); err == nil {
		public, err = PublicKey(ctx, loader, file)
		return public, false, err
	} else if !errors.Is(err, fs.ErrNotExist) {
		return "", false, err
	}
	seed, public, err := fleet.NewKey()
	if err != nil {
		return "", false, fmt.Errorf("create key: %w", err)
	}
	loader.Secrets.Learn(file, seed)
	if made, err = writeNew(file, seed+"\n"); err != nil {
		return "", false, fmt.Errorf("write key: %w", err)
	}
	if !made { // another process was faster
		public, err = PublicKey(ctx, loader, file)
	}
	return public, made, err
}

// PublicKey returns the public key of the seed in a file.
func PublicKey(ctx context.Context, loader *config.Loader, file string) (string, error) {
	seed, err := loader.SecretFile(file)(ctx)
	if err != nil {
		return "", err
	}
	public, err := fleet.PublicKey(seed)
	if err != nil {
		return "", terminal.WithHint(fmt.Errorf("%s: %w", file, err), "an existing file is never overwritten: name another one, or move this one away")
	}
	return public, nil
}

// tryMesh asks the mesh for its status and reads our mailbox, without removing messages. After an
// error, the user corrects the value or keeps it. It does not try a new key, which no server knows
// yet.
func (in *interview) tryMesh(ctx context.Context, handle string, m *meshPart) error {
	for m.url != "" && m.seed == "" && in.canTry() && !in.Print {
		err := in.trial(ctx, m.url, func(ctx context.Context) error { return in.reachMesh(ctx, handle, m) })
		if err == nil {
			return nil
		}
		if kept, err := in.Asker.Keep(ctx, meshHint(err, handle, m), "use it anyway?"); kept || err != nil {
			return err
		}
		switch {
		case isRefused(err) && config.OverNATS(m.url):
			err = in.askMeshKey(ctx, handle, m, "")
		case isRefused(err):
			m.tokenFile, err = in.Asker.Ask(ctx, "", terminal.Question{Flag: "mesh-token-file", Text: "the file with the agent's token for the mesh", Guess: m.tokenFile, Check: isText})
			err = errors.Join(err, in.makeAbsolute(&m.tokenFile))
		default:
			err = in.askMeshURL(ctx, handle, m)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// askMeshURL asks for another URL, and for a key if the new URL needs one.
func (in *interview) askMeshURL(ctx context.Context, handle string, m *meshPart) (err error) {
	m.url, err = in.Asker.Ask(ctx, "", terminal.Question{Flag: "mesh-url", Text: "the URL of the mesh", Guess: m.url, Check: isText})
	switch {
	case err != nil:
		return err
	case !config.OverNATS(m.url):
		m.keyFile, m.seed, m.public = "", "", ""
	case m.public == "":
		return in.askMeshKey(ctx, handle, m, "")
	}
	return nil
}

// reachMesh makes the calls of a trial with the settings of the new configuration.
func (in *interview) reachMesh(ctx context.Context, handle string, m *meshPart) error {
	carrier, err := in.carrier(handle, m)
	if e, ok := errors.AsType[*config.Error](err); ok {
		return terminal.WithHint(errors.New(e.Text), e.Advice) // the text is not in a file yet
	}
	if err != nil {
		return err
	}
	defer carrier.Close()
	if _, err := carrier.Status(ctx); err != nil {
		return err
	}
	_, err = carrier.Mailbox(ctx, 0)
	return err
}

// carrier returns the client of the mesh. Its timeout is shorter than the trial, so that it can
// report the cause.
func (in *interview) carrier(handle string, m *meshPart) (cycle.Carrier, error) {
	d := &document{home: in.home}
	agentPart{handle: handle}.write(d)
	m.write(d)
	conf, err := in.Loader.Parse(in.config, d.String())
	if err != nil {
		return nil, err
	}
	conf.File.Timing.NetworkTimeout = config.Duration(trialTime / 2)
	mesh, err := in.Loader.Mesh(conf)
	if err != nil {
		return nil, err
	}
	return mesh.Carrier, nil
}

// meshHint adds a hint to an error of a mesh.
func meshHint(err error, handle string, m *meshPart) error {
	hint := "is a mesh running there? `" + terminal.Program + " mesh serve` starts one"
	switch {
	case terminal.HintOf(err) != "":
		return err
	case isUnread(err):
		hint = "fix the file, or name another"
	case config.OverNATS(m.url) && isRefused(err):
		hint = "the servers must know this agent's key: pass " + handle + "=" + m.public + " to `" + terminal.Program + " fleet plan`"
	case config.OverNATS(m.url):
		hint = "check that nats-server is running and that the url is correct; the administrator creates missing streams with `" + terminal.Program + " fleet create`"
	case isRefused(err) && m.tokenFile == "":
		hint = "this mesh requires a token"
	case isRefused(err):
		hint = "the token in " + m.tokenFile + " must match the mesh's token for this agent"
	}
	return terminal.WithHint(err, hint)
}
