package setup

import (
	"context"
	"errors"

	"agentstateloop/commands/config"
	"agentstateloop/commands/terminal"
	"agentstateloop/cycle"
)

// tryMesh asks the mesh for its status and reads our mailbox, without removing messages. After an
// error, the user corrects the value or keeps it. It does not try a new key, which no server knows
// yet.
func (in *interview) tryMesh(ctx context.Context, handle string, m *meshPart) error {
	for m.url != "" && m.seed == "" && in.reaches() && !in.Print {
		err := in.trial(ctx, m.url, func(ctx context.Context) error { return in.reachMesh(ctx, handle, m) })
		if err == nil {
			return nil
		}
		if kept, err := in.Asker.Keep(ctx, meshHint(err, handle, m), "keep it as it is?"); kept || err != nil {
			return err
		}
		switch {
		case refused(err) && config.OverNATS(m.url):
			err = in.askMeshKey(ctx, handle, m, "")
		case refused(err):
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
	hint := "does it run there? `" + terminal.Program + " mesh serve` starts one"
	switch {
	case terminal.HintOf(err) != "":
		return err
	case unread(err):
		hint = "correct the file, or name another"
	case config.OverNATS(m.url) && refused(err):
		hint = "the servers must know the key of this agent: `" + terminal.Program + " fleet plan` takes it as " + handle + "=" + m.public
	case config.OverNATS(m.url):
		hint = "is nats-server running, and the url right? the administrator makes what is missing with `" + terminal.Program + " fleet create`"
	case refused(err) && m.tokenFile == "":
		hint = "this mesh asks for a token"
	case refused(err):
		hint = "the token in " + m.tokenFile + " must be the one that the mesh has for this agent"
	}
	return terminal.WithHint(err, hint)
}
