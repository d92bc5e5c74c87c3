package setup

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"strings"
	"syscall"
	"time"

	"agentstateloop/commands/config"
	"agentstateloop/commands/terminal"
	"agentstateloop/cycle"
	"agentstateloop/turn/react"
)

// trialTime limits one trial of a server. The user waits for it.
const trialTime = 8 * time.Second

// canTry reports whether to try servers: a user is there to correct errors, and the network may be
// used.
func (s Setup) canTry() bool { return s.Asker.CanAsk() && s.Network }

// trial announces a trial, runs it and returns its error.
func (s Setup) trial(ctx context.Context, what string, do func(context.Context) error) error {
	if s.Asker.CanAsk() {
		s.Asker.Tell("trying %s …", what)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, trialTime, fmt.Errorf("no answer within %v", trialTime))
	defer cancel()
	err := do(ctx)
	if cause := context.Cause(ctx); err != nil && cause != nil {
		return terminal.WithHint(cause, "is the port right, and does the firewall allow it?")
	}
	return err
}

// hostHint returns the hint for an unusable server. ports lists the usual ports.
func hostHint(err error, ports string) string {
	dns, isDNS := errors.AsType[*net.DNSError](err)
	names, isNames := errors.AsType[x509.HostnameError](err)
	_, isAuthority := errors.AsType[x509.UnknownAuthorityError](err)
	_, isRecord := errors.AsType[tls.RecordHeaderError](err)
	switch {
	case isDNS && dns.IsNotFound:
		return "is the name right? the provider's help pages have it"
	case isDNS, errors.Is(err, syscall.ENETUNREACH), errors.Is(err, syscall.EHOSTUNREACH):
		return "is this machine online? if not, you can use this answer without a test"
	case isNames:
		return "use a name in the certificate: " + strings.Join(names.Certificate.DNSNames, ", ")
	case isAuthority:
		return "if it is your own server, pass its CA certificate with --ca-file FILE"
	case errors.Is(err, os.ErrNotExist):
		return "pass the server's CA certificate with --ca-file FILE, or leave --ca-file out"
	case isRecord, errors.Is(err, syscall.ECONNREFUSED):
		return "is the port right? the usual ports are " + ports
	}
	return "the usual ports are " + ports
}

// The usual ports of mail servers.
const (
	imapPorts = "993 (TLS) and 143 (STARTTLS)"
	smtpPorts = "465 (TLS) and 587 (STARTTLS)"
)

// errNotListed reports a model that the provider does not list.
var errNotListed = errors.New("the API does not list the model")

// tryAPI asks the model API for its models, which is free. After an error, the user corrects the
// value or keeps it.
func (in *interview) tryAPI(ctx context.Context, a *apiPart, t turnPart) error {
	for in.canTry() && !in.Print {
		if _, err := os.Lstat(a.keyFile); a.keyFile != "" && a.key == "" && errors.Is(err, fs.ErrNotExist) {
			return nil // the key comes later
		}
		where := cmp.Or(a.url, a.provider)
		err := in.trial(ctx, where, func(ctx context.Context) error { return in.models(ctx, a, t) })
		if err == nil {
			return nil
		}
		if kept, err := in.Asker.Keep(ctx, apiHint(err, where), "use it anyway?"); kept || err != nil {
			return err
		}
		switch {
		case errors.Is(err, errNotListed):
			err = in.askModel(ctx, a, "")
		case react.KeyRefused(err) && a.key != "":
			err = in.askKeyText(ctx, a)
		case !react.KeyRefused(err) && a.url != "":
			a.url, err = in.Asker.Ask(ctx, "", terminal.Question{Flag: "api-base-url", Text: "the URL of the API", Guess: a.url, Check: isText})
		default:
			err = nil // the file may contain another key by now
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// models checks that the API lists the model.
func (in *interview) models(ctx context.Context, a *apiPart, t turnPart) error {
	d := &document{home: in.home}
	t.write(d)
	a.write(d)
	conf, err := in.Loader.Parse(in.config, d.String())
	if err != nil {
		return err
	}
	api, err := in.Loader.API(conf)
	if err != nil {
		return err
	}
	key := a.key
	if key == "" && a.keyFile != "" {
		if key, err = in.Loader.SecretFile(a.keyFile)(ctx); err != nil {
			return err
		}
	}
	models, err := api.Model(key, trialTime).Models(ctx)
	switch {
	case react.ListUnsupported(err):
		return nil
	case err != nil:
		return err
	case len(models) > 0 && !config.ListsModel(models, a.model):
		return fmt.Errorf("%w %s", errNotListed, a.model)
	}
	return nil
}

// apiHint adds a hint to an error of an API.
func apiHint(err error, where string) error {
	hint := "is " + where + " right, and this machine online?"
	switch {
	case terminal.HintOf(err) != "":
		return err
	case errors.Is(err, errNotListed):
		hint = "check the model's name with the provider"
	case react.KeyRefused(err):
		hint = "is the key complete, and from this provider?"
	case isUnread(err):
		hint = "fix the file; it will be read again"
	}
	return terminal.WithHint(err, hint)
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
	hint := "does a mesh run there? `" + terminal.Program + " mesh serve` starts one"
	switch {
	case terminal.HintOf(err) != "":
		return err
	case isUnread(err):
		hint = "fix the file, or name another"
	case config.OverNATS(m.url) && isRefused(err):
		hint = "the servers must know this agent's key: pass " + handle + "=" + m.public + " to `" + terminal.Program + " fleet plan`"
	case config.OverNATS(m.url):
		hint = "is nats-server running, and the url right? the administrator creates missing streams with `" + terminal.Program + " fleet create`"
	case isRefused(err) && m.tokenFile == "":
		hint = "this mesh requires a token"
	case isRefused(err):
		hint = "the token in " + m.tokenFile + " must match the mesh's token for this agent"
	}
	return terminal.WithHint(err, hint)
}
